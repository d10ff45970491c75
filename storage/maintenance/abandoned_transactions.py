"""Ends abandoned transactions: until then, no record after their start is deleted or compacted.

Also forgets transactional ids that nobody used for seven days, which would otherwise be kept for ever.
"""

from __future__ import annotations

import logging

from ..directory import Known, LogManager
from ..errors import LogStoreError
from ..format.internal.internal_topics import TRANSACTION_STATE_TOPIC
from ..transactions import Resolution, ResolvedTransaction, expire_transactional_ids, resolve_dead_transactions
from .outcome import PartitionOutcome, of_directory
from .run import MaintenanceRun

logger = logging.getLogger(__name__)


def resolve(run: MaintenanceRun, manager: LogManager) -> PartitionOutcome | None:
    """End the abandoned transactions of the whole directory and log each; forget idle ids. Returns a failed outcome.

    An unreadable partition hides no other; the first such error is returned.

    In a directory without coordinators, nobody knows how a transaction should end, so none is searched for; retention
    reports the offset of an open one.
    """
    if manager.find_topic(TRANSACTION_STATE_TOPIC) is None:
        return None
    failures: list[LogStoreError] = []
    try:
        found = resolve_dead_transactions(manager, now_ms=run.now_ms(), dry_run=run.dry_run, failures=failures)
        is_ours = manager.topic(TRANSACTION_STATE_TOPIC).known is Known.ALL  # a broker may keep ids for longer
        may_forget = is_ours and not run.dry_run
        forgotten = expire_transactional_ids(manager, now_ms=run.now_ms(), failures=failures) if may_forget else []
    except (LogStoreError, OSError) as error:
        return of_directory("open transactions", error)
    for each in found:
        logger.warning("%s", _described(each, dry_run=run.dry_run))
    for transactional_id in forgotten:
        logger.info("transactional id %r was not used for seven days: forgotten", transactional_id)
    return of_directory("open transactions", failures[0]) if failures else None


def _described(found: ResolvedTransaction, *, dry_run: bool) -> str:
    transaction = found.transaction
    done = f"{'would be ' if dry_run and found.resolution is not Resolution.KEPT else ''}{found.resolution.value}"
    where = ", ".join(
        f"{each.topic}-{each.partition} from offset {each.first_offset}" + (" (held back)" if each.holds_back else "")
        for each in transaction.partitions
    )
    return (
        f"open transaction of {transaction.transactional_id!r}, producer {transaction.producer_id}, epoch "
        f"{transaction.epoch}, state {transaction.state}: {done}: {found.reason}; {where or 'no records'}"
    )
