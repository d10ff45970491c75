"""Rights: whether a turn may serve what a client writes, as far as the rules and the quotas decide it."""

from __future__ import annotations

from dataclasses import dataclass

from ..quotas.entities import PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from ..quotas.throttle import Throttle
from ..security.acls import Client
from ..security.rule_store import RuleStore
from ..security.rules import Operation, Resource

COUNTED = (PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE)  # quotas that a Produce request uses


@dataclass(frozen=True)
class Rights:
    """For any thread. What is refused here goes the usual way, which counts for the quota or answers with the error."""

    rules: RuleStore | None  # None: everyone may do everything
    throttle: Throttle

    def may_write(self, client: Client, topic: str) -> bool:
        """Whether a client may write to a topic, and nothing of it counts for a quota.

        Once any client has a quota, all go the usual way: it may be that of a client id, which no turn reads.
        """
        return not any(map(self.throttle.may_limit, COUNTED)) and self._allow(client, Resource.TOPIC, topic)

    def may_use(self, client: Client, transactional_id: str) -> bool:
        """Whether a client may write with a transactional id."""
        return self._allow(client, Resource.TRANSACTIONAL_ID, transactional_id)

    def _allow(self, client: Client, resource: Resource, name: str) -> bool:
        return self.rules is None or self.rules.current().allow(client, Operation.WRITE, resource, name)
