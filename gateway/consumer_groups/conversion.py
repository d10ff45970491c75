"""Groups that change their protocol while they have members (``group.consumer.migration.policy``).

A classic group with members becomes one of Kafka 4 when the first member joins on the new protocol; it becomes a
classic group again when the last one on the new protocol leaves. The rules are those of Kafka 4.3.1
(``ConsumerGroup.fromClassicGroup``, ``ClassicGroup.fromConsumerGroup``).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError
from ...storage import CONSUMER, InvalidRecordError, decode_whole_assignment, decode_whole_subscription
from ..config import GatewayConfig
from .classic import ClassicMember, parts_among
from .group import ConsumerGroup
from .member import ConsumerMember
from .partitions import Catalog

DISABLED, UPGRADE, DOWNGRADE, BIDIRECTIONAL = "disabled", "upgrade", "downgrade", "bidirectional"
_CUSTOM = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
    "before re-attempting the upgrade."
)

logger = logging.getLogger(__name__)


def check_upgrade(name: str, protocol_type: str | None, members: int, config: GatewayConfig) -> None:
    """Raises RequestError if a classic group with ``members`` may not become one of Kafka 4."""
    if config.group_consumer_migration_policy not in (UPGRADE, BIDIRECTIONAL):
        raise _refused(name, "online upgrade is disabled.")
    if protocol_type != CONSUMER:
        raise _refused(name, "the group does not use the consumer embedded protocol.")
    if members > config.group_consumer_max_size:
        raise _refused(name, "the group size exceeds the consumer group maximum size.")


def upgraded(
    name: str, generation: int, protocol: str | None, members: Sequence[ClassicMember], catalog: Catalog
) -> ConsumerGroup:
    """Returns a classic group as one of Kafka 4, and notes its records.

    ``protocol``: what the members had chosen; None: nothing yet. Each has what it was last assigned. Raises
    RequestError if an assignment has user data, or if two members have one partition: no other assignor may replace
    that.
    """
    try:
        found = [_member(name, each, generation, protocol, catalog) for each in members]
    except InvalidRecordError as error:
        logger.warning("group %r: a member's subscription or assignment does not decode: %s", name, error)
        raise _refused(name, "the embedded consumer protocol is malformed.") from None
    parts = [part for each in found for part in each.assigned]
    if len({*parts}) < len(parts):
        raise _refused(name, _CUSTOM)
    return ConsumerGroup.founded(name, generation, found, catalog)


def _refused(name: str, reason: str) -> RequestError:
    text = f"Cannot upgrade classic group {name} to consumer group because {reason}"
    logger.info("%s", text)
    return RequestError(ErrorCode.group_id_not_found, text)


def _member(name: str, given: ClassicMember, generation: int, protocol: str | None, catalog: Catalog) -> ConsumerMember:
    assignment = decode_whole_assignment(given.assignment)
    if assignment.user_data:
        raise _refused(name, _CUSTOM)
    subscription = decode_whole_subscription(dict(given.protocols)[protocol or given.protocols[0][0]])
    parts = parts_among(assignment.assigned_partitions, catalog)
    return ConsumerMember(
        given.id,
        given.instance_id,
        subscription.rack_id or None,
        given.client_id,
        given.client_host,
        given.rebalance_timeout_ms,
        tuple(sorted(set(subscription.topics))),
        classic=given.metadata,
        epoch=generation,
        previous_epoch=generation,
        assigned=dict.fromkeys(parts, generation),
    )


def may_downgrade(group: ConsumerGroup, leaving: Collection[ConsumerMember], config: GatewayConfig, most: int) -> bool:
    """Whether a group becomes a classic one once the members ``leaving`` have left.

    They must be the last ones on the new protocol. ``most``: members that the classic group would have.
    """
    newer = [each.id for each in group.members.values() if not each.is_classic]
    if not newer or not {*newer} <= {each.id for each in leaving} or most < 1:
        return False
    if config.group_consumer_migration_policy not in (DOWNGRADE, BIDIRECTIONAL):
        logger.info("group %r stays a group of Kafka 4, because online downgrade is disabled", group.name)
        return False
    if most > config.group_max_size:
        logger.info("group %r stays a group of Kafka 4, because it has more members than group.max.size", group.name)
        return False
    return True
