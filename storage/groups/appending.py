"""Appends few records to a coordinator's log by plain numbers, and syncs several of its partitions at once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ..errors import LogStoreError, StorageError
from ..format import v2
from ..writing import AppendInfo, Log, check_batch
from .offsets import keyed_batches

SYNCS_AT_ONCE = 16  # of partitions


def append_entries(log: Log, entries: Sequence[tuple[bytes, bytes | None]], now_ms: int) -> AppendInfo:
    """Appends records with keys and values, in one batch if they fit; not synced. Raises as :meth:`Log.append`."""
    config = log.context.config
    batch = v2.encode_small(entries, now_ms)
    if len(batch) > config.batch_size_max:
        return log.append_encoded(keyed_batches(entries, now_ms, config), sync=False)
    (appended,) = log.append_checked([check_batch(batch, config)], sync=False)
    if isinstance(appended, LogStoreError):
        raise appended
    return appended


def sync_at_once(logs: Sequence[Log]) -> list[StorageError | None]:
    """Syncs logs at once, which costs a file system with a journal little more than one sync; returns the failures."""

    def synced(log: Log) -> StorageError | None:
        try:
            log.sync_appended()
        except StorageError as error:
            return error
        return None

    if len(logs) < 2:
        return [synced(log) for log in logs]
    with ThreadPoolExecutor(min(len(logs), SYNCS_AT_ONCE), thread_name_prefix="commitlog sync") as threads:
        return list(threads.map(synced, logs))
