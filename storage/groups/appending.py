"""Appends few records to a coordinator's log without tables, and syncs several of its partitions at once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ..errors import LogStoreError, StorageError
from ..format import v2
from ..writing.append_info import AppendInfo
from ..writing.checks.checked_batch import encoded_batch
from ..writing.log import Log
from .offsets import keyed_batches

SYNCS_AT_ONCE = 16  # of partitions


def append_entries(log: Log, entries: Sequence[tuple[bytes, bytes | None]], now_ms: int) -> AppendInfo:
    """Appends records with keys and values, in one batch if they fit; not synced.

    Raises the errors of :meth:`Log.append`.
    """
    config = log.context.config
    batch = v2.encode_small(entries, now_ms)
    if len(batch) > config.batch_size_max:
        return log.append_encoded(keyed_batches(entries, now_ms, config), sync=False)
    (appended,) = log.append_checked([encoded_batch(batch, config)], sync=False)
    if isinstance(appended, LogStoreError):
        raise appended
    return appended


class SyncThreads:
    """Threads that sync several logs at once.

    They are kept, because starting them takes longer than a sync on a busy machine. They begin at the first use and end
    when this is dropped. A process must not fork after that and use this in the child.
    """

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    def sync(self, logs: Sequence[Log]) -> list[StorageError | None]:
        """Syncs logs, which costs a file system with a journal little more than one sync; returns the failures."""
        if len(logs) < 2:
            return [_synced(log) for log in logs]
        if self._threads is None:
            self._threads = ThreadPoolExecutor(SYNCS_AT_ONCE, thread_name_prefix="commitlog sync")
        others = [self._threads.submit(_synced, log) for log in logs[1:]]
        return [_synced(logs[0]), *(each.result() for each in others)]  # to wake one more thread takes longer


def _synced(log: Log) -> StorageError | None:
    try:
        log.sync_appended()
    except StorageError as error:
        return error
    return None
