"""Takes snapshots of logs of either kind, and restores them to either; all have the form of a directory's snapshots."""

from __future__ import annotations

from ..bucket.commit_log import CommitLog
from ..bucket.files.filesystem import BucketFileSystem, open_files
from ..bucket.root import open_root
from ..directory.manager import LogManager
from ..directory.snapshots.filling import fill_snapshot
from ..directory.snapshots.manifest import LOG_FOLDER, Snapshot
from ..directory.snapshots.restoring import read_snapshot, restore_snapshot
from ..directory.snapshots.taking import take_snapshot
from ..errors import SnapshotError
from ..format.files import file_names
from ..groups.offsets import GroupOffsets
from ..paths import is_store_url
from .groups import commit_groups, copy_groups
from .to_bucket import copy_to_bucket
from .to_directory import copy_to_directory


def snapshot_log(source: LogManager, target: str) -> Snapshot:
    """Takes a snapshot: see :func:`take_snapshot`, and for a log on an object store :func:`take_bucket_snapshot`."""
    return take_snapshot(source, target) if source.bucket is None else take_bucket_snapshot(source, target)


def restore_log(directory: str, target: str) -> Snapshot:
    """Restores a snapshot to a local path, or to the URL of a log on an object store, which is made if it is missing.

    Raises as :func:`restore_snapshot`, or as :func:`restore_to_bucket` and :func:`open_files`.
    """
    if not is_store_url(target):
        return restore_snapshot(directory, target)
    return restore_to_bucket(directory, open_files(target, create=True).log)


def take_bucket_snapshot(source: LogManager, target: str) -> Snapshot:
    """Copies a log on an object store, as it is after one commit, to a snapshot; ``target`` is missing or empty.

    Writers do not wait for it. Raises SnapshotError if ``target`` is not empty, CorruptionError, ObjectStoreError.
    """
    assert source.bucket is not None
    store = source.bucket.store
    alone = BucketFileSystem(open_root(store.url, store=store))  # others of this process may move the one they share
    with LogManager.open(alone.root, filesystem=alone, clock=source.clock) as still:
        groups = GroupOffsets(still).groups()  # the last update: topics and records are as of this commit

        def fill(folder: str) -> None:
            with LogManager.open(folder, create=True) as copy:
                list(copy_to_directory(still, copy))
                commit_groups(groups, copy)

        return fill_snapshot(target, source.directory, fill, source.clock)


def restore_to_bucket(directory: str, target: CommitLog) -> Snapshot:
    """Copies a snapshot to a log on an object store that has no topic yet; run again, it continues.

    Returns the snapshot. Raises SnapshotError if ``directory`` is not a complete snapshot, or ``target`` has other
    topics.
    """
    snapshot = read_snapshot(directory)
    with LogManager.open(file_names.join(snapshot.directory, LOG_FOLDER)) as source:
        if others := sorted(target.state.topic_ids.keys() - source.topics().keys()):
            raise SnapshotError(f"{target.store.url} has topic {others[0]!r}: restore to a log without topics")
        list(copy_to_bucket(source, target))
        copy_groups(source, target)
    return snapshot
