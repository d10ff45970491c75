"""Whole log directories for maintenance: a broker's before a pass of its cleaner, and what must come of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pyspark_commitlog.storage.format.files import checkpoints, file_names
from tests.support.logs.compaction import Pass, passes

# Compressed by other libraries: the batches are the same, their bytes and so their positions are not.
OTHER_BYTES = ("c-gzip-0", "c-snappy-0", "c-zstd-0")

# Retention ran as well and deleted what lies below this offset (retention.bytes of compact,delete).
DELETED_BELOW = {"compaction/after-1/c-delete-0": 282}

# Kafka 3.9.1 begins a round that starts inside a segment with all aborted transactions of that segment's index, also
# with those that ended before. Until its producer's next abort marker it takes committed records for aborted ones and
# leaves them out of the map, so that older records of their keys stay, and come back when a tombstone left out in this
# way goes. We do not; tests/storage/compaction/test_rounds_kafka.py puts the mistake in and then finds Kafka's files.
STALE_TRANSACTIONS = "compaction-small-buffers/after-1/c-txn-0"

EXACT = [each for each in passes() if str(each) != STALE_TRANSACTIONS]


def topic_of(each: Pass) -> tuple[str, int]:
    """Topic and number of a pass's partition."""
    topic, _, number = each.partition.rpartition("-")
    return topic, int(number)


def lay_out_directory(each: Pass, directory: Path) -> None:
    """A log directory with the partition of a pass as the cleaner found it, and what the checkpoints said of it."""
    directory.mkdir()
    each.lay_out(directory / each.partition)
    offsets = {
        file_names.RECOVERY_POINT_CHECKPOINT: each.recovery_point,
        file_names.LOG_START_OFFSET_CHECKPOINT: each.log_start_offset,
        file_names.CLEANER_OFFSET_CHECKPOINT: each.first_dirty_offset,
    }
    for name, offset in offsets.items():
        told = {} if offset is None else {topic_of(each): offset}
        (directory / name).write_bytes(checkpoints.encode_offsets(told))


def left_by(each: Pass) -> dict[str, bytes]:
    """The files that the real cleaner left, without those on their way out."""
    return {name: content for name, content in each.files_after.items() if not name.endswith(file_names.DELETED)}


def segment_files(directory: Path, from_offset: int = 0) -> dict[str, bytes]:
    """The files of a partition's segments, and its snapshots, without what is on its way out."""
    found = {}
    for path in sorted(directory.iterdir()):
        base_offset = file_names.base_offset_of(path.name)
        if base_offset is not None and base_offset >= from_offset and not path.name.endswith(file_names.DELETED):
            found[path.name] = path.read_bytes()
    return found


def tree(directory: Path) -> dict[str, tuple[int, int, str]]:
    """Every file and directory below: size, time of modification in ns, and hash of what is in it."""
    return {
        str(path.relative_to(directory)): (
            path.stat().st_size if path.is_file() else 0,
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted(directory.rglob("*"))
    }
