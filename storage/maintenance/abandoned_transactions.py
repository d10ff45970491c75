"""Ends abandoned transactions, before retention: no record after the start of an open one is deleted or compacted.

Also deletes transactional ids that were not used for seven days, which would otherwise be kept forever.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

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
from .outcome import Ended, PartitionOutcome, of_directory, of_transactions
from .run import MaintenanceRun

logger = logging.getLogger(__name__)


def resolve(run: MaintenanceRun, manager: LogManager) -> Iterator[PartitionOutcome]:
    """Ends the directory's abandoned transactions, deletes idle transactional ids, and logs what stays open.

    Yields the outcome for the transactions that were ended, or would be, and a failed outcome for an error that ended
    this or for the first unreadable partition; such partitions are skipped.

    Does nothing in a directory without __transaction_state, where the right end of a transaction is unknown; retention
    then reports the offset from which a transaction is open.
    """
    if manager.find_topic(TRANSACTION_STATE_TOPIC) is None:
        return
    failures: list[LogStoreError] = []
    try:
        found = resolve_dead_transactions(manager, now_ms=run.now_ms(), dry_run=run.dry_run, failures=failures)
        is_ours = manager.topic(TRANSACTION_STATE_TOPIC).known is Known.ALL  # a broker may keep ids for longer
        may_forget = is_ours and not run.dry_run
        forgotten = expire_transactional_ids(manager, now_ms=run.now_ms(), failures=failures) if may_forget else []
    except (LogStoreError, OSError) as error:
        yield of_directory("open transactions", error)
        return
    counts = Counter(each.resolution for each in found)
    for each in found:
        if each.resolution is Resolution.KEPT:
            logger.warning("%s", _described(each, dry_run=run.dry_run))
    if ended := [each for each in found if each.resolution is not Resolution.KEPT]:
        done = Ended(run.dry_run, counts[Resolution.ABORTED], counts[Resolution.COMMITTED])
        yield of_transactions([_described(each, dry_run=run.dry_run) for each in ended], done)
    for transactional_id in forgotten:
        logger.info("deleted transactional id %r, which was not used for seven days", transactional_id)
    if failures:
        yield of_directory("open transactions", failures[0])


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
