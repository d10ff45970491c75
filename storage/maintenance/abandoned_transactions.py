"""Ends abandoned transactions, before retention: no record after the start of an open one is deleted or compacted.

Also deletes transactional ids that were not used for seven days, which would otherwise be kept for ever.
"""

from __future__ import annotations

import logging

from ..directory.manager import LogManager
from ..directory.topics_file import Known
from ..errors import LogStoreError
from ..format.internal.internal_topics import TRANSACTION_STATE_TOPIC
from ..transactions.abandoned import (
    Resolution,
    ResolvedTransaction,
    expire_transactional_ids,
    resolve_dead_transactions,
)
from .outcome import PartitionOutcome, of_directory
from .run import MaintenanceRun

logger = logging.getLogger(__name__)


def resolve(run: MaintenanceRun, manager: LogManager) -> PartitionOutcome | None:
    """Ends the directory's abandoned transactions, deletes idle transactional ids, and logs each.

    Returns None, or a failed outcome: of an error that ended this, or of the first partition that could not be read;
    such partitions are skipped.

    Does nothing in a directory without __transaction_state, where the right end of a transaction is unknown; retention
    then reports the offset from which a transaction is open.
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
        logger.info("deleted transactional id %r, which was not used for seven days", transactional_id)
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
