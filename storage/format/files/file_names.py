"""Names of files and directories, and what each suffix means after a crash.

A segment's file is named by its base offset in 20 digits and one suffix. A second suffix shows which operation was in
progress when the process ended:

=============  ==============================================================================================
``.deleted``   the file is about to be deleted: remove it
``.cleaned``   output of an unfinished compaction or split: remove it, all originals still exist
``.swap``      finished output about to replace its originals. If there is no ``.cleaned`` file, it replaces
               every original in its range: remove those, then drop the suffix. A ``.swap`` file whose base is
               not below the smallest ``.cleaned`` belongs to an unfinished operation: remove it
``.tmp``       a checkpoint or snapshot that was being written: remove it, the old one still has its name
=============  ==============================================================================================

Among files without a second suffix, an index without its ``.log`` is a leftover, and a ``.snapshot`` above the
recovered log end refers to records that no longer exist.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from ...errors import InvalidTopicError

# The names below are facts of Kafka's directories and must not change.
LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
EPOCHS = ".leader_epoch_checkpoint"  # leader epochs of a segment in a tier, as Kafka names them (KIP-405)
KEY_FILTER = ".keyfilter"  # ours: filters of the keys in this segment and later ones; Kafka ignores it

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
TMP = ".tmp"
UNFINISHED = ".unfinished"  # of a directory that is being filled, as by a copy, or an index that is being rebuilt

# In a log directory.
LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
META_PROPERTIES_FILE = "meta.properties"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS = (  # one offset per partition; in the order of verify.CheckpointedOffsets
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
IGNORED_DIRECTORIES = ("__cluster_metadata-0", "remote-log-index-cache")  # a broker's own; no partitions of ours

# In a partition directory.
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"

OFFSET_DIGITS = 20
TOPIC_LENGTH_MAX = 249
NAME_LENGTH_MAX = 255
PARTITION_MAX = 2**31 - 1
PARTITIONS_MAX = 100_000  # per topic: each is a directory; more is a typing error, or damage

Kind = Literal["plain", "delete", "future", "stray"]

_SEGMENT_FILE = re.compile(rf"([0-9]{{{OFFSET_DIGITS}}})\.[a-z.]+")
_TOPIC = re.compile(r"[A-Za-z0-9._-]+")
_MARKED_DIRECTORY = re.compile(r"(.+)\.[0-9a-f]{32}-(delete|future|stray)", re.DOTALL)


class TopicPartition(NamedTuple):
    """A partition of a topic. ``str`` returns the name of the partition's directory: ``flights-0``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return partition_directory(self.topic, self.partition)


class PartitionDirectory(NamedTuple):
    """The parts of a partition directory's name."""

    topic: str  # may be shortened if kind is delete or stray
    partition: int
    kind: Kind  # plain: in use; delete: being deleted; future: being copied to; stray: topic unknown


def segment_file(base_offset: int, suffix: str) -> str:
    """Returns the name of a segment's file, such as ``00000000000000000005.log`` for 5 and LOG.

    ``suffix`` may be a pair such as ``LOG + SWAP``.
    """
    return f"{base_offset:0{OFFSET_DIGITS}d}{suffix}"


def base_offset_of(name: str) -> int | None:
    """Returns the offset in the name of a segment's file or a snapshot, with any suffixes; None for another name."""
    found = _SEGMENT_FILE.fullmatch(name)
    return int(found[1]) if found else None


def segment_files(listing: Iterable[str]) -> list[str]:
    """Returns the names in ``listing`` that belong to files of segments or to snapshots, with any suffixes."""
    return list(filter(_SEGMENT_FILE.fullmatch, listing))


def offset_in(segment_file: str) -> int:
    """Returns the offset in a name from :func:`segment_files`; does not check the rest of the name again."""
    return int(segment_file[:OFFSET_DIGITS])


def by_suffix(segment_files: Iterable[str]) -> Mapping[str, set[int]]:
    """Returns the offsets in the names of segments' files and snapshots, by suffix; an empty set for a missing suffix.

    Fastest if the files of a segment are adjacent, since parsing the number takes longest.
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
    """Returns the parts of a directory's name; None if it cannot be the name of a partition's directory.

    The topic ends at the last ``-`` (``LocalLog.parseTopicPartitionName``). In a marked name (``-delete``,
    ``-future``, ``-stray``), only the text before the last ``.`` counts.
    """
    marked = _MARKED_DIRECTORY.fullmatch(name)
    kind: Kind = "plain" if marked is None else marked[2]  # type: ignore[assignment]  # the pattern allows these three
    topic, dash, partition = (name if marked is None else marked[1]).rpartition("-")
    if not dash or not is_topic_name(topic) or not (partition.isascii() and partition.isdigit()):
        return None
    return PartitionDirectory(topic, int(partition), kind) if int(partition) <= PARTITION_MAX else None


def partition_directory(topic: str, partition: int) -> str:
    """Returns the name of a partition's directory, such as ``topic-0``."""
    return f"{topic}-{partition}"


def unfinished_directory(topic: str, partition: int) -> str:
    """Returns the name of a partition's directory while it is being copied from another log."""
    return unfinished_path(partition_directory(topic, partition))


def unfinished_path(directory: str) -> str:
    """Returns the path that a partition's directory has while it is being copied from another log.

    If the name would not fit the limits of file systems, the topic is shortened, and a ``~``, which no topic's name
    has, and a hash of the topic follow it.
    """
    parent, slash, name = directory.rpartition("/")
    if len(name) + len(UNFINISHED) > NAME_LENGTH_MAX:
        topic, _, partition = name.rpartition("-")
        suffix = f"~{hashlib.sha256(topic.encode()).hexdigest()[:16]}-{partition}"
        name = topic[: NAME_LENGTH_MAX - len(UNFINISHED) - len(suffix)] + suffix
    return parent + slash + name + UNFINISHED


def is_unfinished_directory(name: str, topic: str) -> bool:
    """Whether a directory of that name is a copy of one of the topic's partitions that is not finished."""
    _, _, number = name.removesuffix(UNFINISHED).rpartition("-")
    return number.isascii() and number.isdigit() and name == unfinished_directory(topic, int(number))


def marked_directory(topic: str, partition: int, kind: Literal["delete", "stray"], unique: str) -> str:
    """Returns a new name for a partition's directory that is to be deleted or set aside; ``unique`` is 32 hex digits.

    Shortens the topic so that the name fits the limits of file systems (``LocalLog.logDeleteDirName``).
    """
    suffix = f"-{partition}.{unique}-{kind}"
    return topic[: NAME_LENGTH_MAX - len(suffix)] + suffix


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicError, with the reason, unless Kafka allows a topic of that name."""
    if not name:
        raise InvalidTopicError("a topic name must not be empty")
    if name in (".", ".."):
        raise InvalidTopicError(f"a topic cannot be named {name!r}")
    if len(name) > TOPIC_LENGTH_MAX:
        raise InvalidTopicError(
            f"the topic name has {len(name)} characters, at most {TOPIC_LENGTH_MAX} are allowed: {name!r}"
        )
    if not _TOPIC.fullmatch(name):
        raise InvalidTopicError(f"topic name {name!r}: only ASCII letters, digits, '.', '_' and '-' are allowed")


def collides(topic: str, other: str) -> bool:
    """Whether two topics have the same name in Kafka's metrics, which write ``.`` as ``_``.

    Brokers reject the second of such topics.
    """
    return topic.replace(".", "_") == other.replace(".", "_")


def join(directory: str, *names: str) -> str:
    """Returns the path of ``names`` below ``directory``."""
    root = directory.rstrip("/")
    return "/".join((root, *names)) if names else root or "/"


def is_topic_name(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidTopicError:
        return False
    return True
