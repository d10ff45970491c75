"""Names of files and directories, and what each suffix means after a crash (spec 4.1, 4.2, 9.2).

A file of a segment is named by its base offset in 20 digits and one suffix; one more suffix tells what was being done
with it when the process ended:

=============  ==============================================================================================
``.deleted``   the name is given up and the bytes are on their way out: remove it
``.cleaned``   output of a compaction or a split that was not finished: remove it, the originals are all there
``.swap``      finished output on its way in. With no ``.cleaned`` left it replaces every original in its range:
               remove those, then drop the suffix. A ``.swap`` whose base is not below the smallest ``.cleaned``
               belongs to an unfinished operation: remove it
``.tmp``       a checkpoint that was being written: remove it, the old one still has its name
=============  ==============================================================================================

Of the files without a second suffix, an index without its ``.log`` is a left-over, and a ``.snapshot`` above the
recovered log end speaks of records that are gone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from pyspark_commitlog.storage.errors import InvalidTopicError

# The names below are facts of Kafka's directories and must not change.
LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
TMP = ".tmp"

# In a log directory.
LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
META_PROPERTIES_FILE = "meta.properties"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS = (  # an offset for each partition, in the order of verify.CheckpointedOffsets
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
IGNORED_DIRECTORIES = ("__cluster_metadata-0", "remote-log-index-cache")  # a broker's own, no partitions of ours

# In a partition directory.
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"

OFFSET_DIGITS = 20
TOPIC_LENGTH_MAX = 249
NAME_LENGTH_MAX = 255
PARTITION_MAX = 2**31 - 1

Kind = Literal["plain", "delete", "future", "stray"]

_SEGMENT_FILE = re.compile(rf"([0-9]{{{OFFSET_DIGITS}}})\.[a-z.]+")
_TOPIC = re.compile(r"[A-Za-z0-9._-]+")
_MARKED_DIRECTORY = re.compile(r"(.+)\.[0-9a-f]{32}-(delete|future|stray)", re.DOTALL)


class PartitionDirectory(NamedTuple):
    """What the name of a partition's directory says."""

    topic: str  # shortened, perhaps, where kind is delete or stray
    partition: int
    kind: Kind  # plain: in use; delete: on its way out; future: a copy being filled; stray: of no known topic


def segment_file(base_offset: int, suffix: str) -> str:
    """``segment_file(5, LOG)`` is ``00000000000000000005.log``; ``suffix`` may be two, as ``LOG + SWAP``."""
    return f"{base_offset:0{OFFSET_DIGITS}d}{suffix}"


def base_offset_of(name: str) -> int | None:
    """The offset in the name of a segment's file or a snapshot, whatever its suffixes; None for any other name."""
    found = _SEGMENT_FILE.fullmatch(name)
    return int(found[1]) if found else None


def segment_files(listing: Iterable[str]) -> list[str]:
    """The names of segments' files and snapshots, whatever their suffixes."""
    return list(filter(_SEGMENT_FILE.fullmatch, listing))


def offset_in(segment_file: str) -> int:
    """The offset in a name that :func:`segment_files` lets through, read without another look at the rest."""
    return int(segment_file[:OFFSET_DIGITS])


def by_suffix(segment_files: Iterable[str]) -> Mapping[str, set[int]]:
    """Of segments' files and snapshots, the offsets in the names by suffix; none for a suffix that is not there.

    Quickest where the files of a segment are neighbours: to read the number takes longest.
    """
    found = defaultdict[str, list[int]](list)
    digits, offset = "", 0
    for name in segment_files:
        if name[:OFFSET_DIGITS] != digits:
            digits = name[:OFFSET_DIGITS]
            offset = offset_in(name)
        found[name[OFFSET_DIGITS:]].append(offset)
    return defaultdict(set, {suffix: set(offsets) for suffix, offsets in found.items()})


def parse_partition_directory(name: str) -> PartitionDirectory | None:
    """What a directory's name says, or None where no partition can have that name.

    The topic ends at the last ``-`` (``LocalLog.parseTopicPartitionName``); in a marked name (``-delete``,
    ``-future``, ``-stray``) the text before the last ``.`` is what counts.
    """
    marked = _MARKED_DIRECTORY.fullmatch(name)
    kind: Kind = "plain" if marked is None else marked[2]  # type: ignore[assignment]  # the pattern allows these three
    topic, dash, partition = (name if marked is None else marked[1]).rpartition("-")
    if not dash or not is_topic_name(topic) or not (partition.isascii() and partition.isdigit()):
        return None
    return PartitionDirectory(topic, int(partition), kind) if int(partition) <= PARTITION_MAX else None


def partition_directory(topic: str, partition: int) -> str:
    """The name of a partition's directory."""
    return f"{topic}-{partition}"


def marked_directory(topic: str, partition: int, kind: Literal["delete", "stray"], unique: str) -> str:
    """The name of a partition's directory that is given up; ``unique`` is 32 hex digits.

    The topic is shortened so that the name keeps within what file systems take (``LocalLog.logDeleteDirName``).
    """
    suffix = f"-{partition}.{unique}-{kind}"
    return topic[: NAME_LENGTH_MAX - len(suffix)] + suffix


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicError, with the reason, unless Kafka allows a topic of that name."""
    if not name:
        raise InvalidTopicError("a topic name is empty")
    if name in (".", ".."):
        raise InvalidTopicError(f"a topic cannot be named {name!r}")
    if len(name) > TOPIC_LENGTH_MAX:
        raise InvalidTopicError(
            f"topic name of {len(name)} characters, at most {TOPIC_LENGTH_MAX} are allowed: {name!r}"
        )
    if not _TOPIC.fullmatch(name):
        raise InvalidTopicError(f"topic name {name!r}: only ASCII letters, digits, '.', '_' and '-' are allowed")


def collides(topic: str, other: str) -> bool:
    """Whether two topics are one in Kafka's metrics, which write ``.`` as ``_``: brokers refuse the second."""
    return topic.replace(".", "_") == other.replace(".", "_")


def join(directory: str, *names: str) -> str:
    """The path of ``names`` below ``directory``."""
    return "/".join([directory.rstrip("/") if directory.rstrip("/") or not names else "", *names])


def is_topic_name(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidTopicError:
        return False
    return True
