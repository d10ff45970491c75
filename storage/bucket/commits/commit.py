"""The kinds of commits and their fields. A commit takes effect as a whole, in the order of the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ...format.tables import Int64s

VERSION = 3  # the format of commits; 1 lacks open transactions, 2 lacks partitions that are being copied
DIGITS = 20

# Columns of a commit's slices, shape (slices, 6).
OBJECT, POSITION, BYTES, RECORDS, BATCHES, MAX_TIMESTAMP = range(6)
SLICE_COLUMNS = 6


def commit_key(number: int) -> str:
    """Returns the name of a commit's object below the log's URL."""
    return f"commits/{number:0{DIGITS}}"


class StagedObject(NamedTuple):
    """An object that a task wrote; a later commit names it."""

    task: int  # the partition of Spark's stage
    attempt: int  # Spark's task attempt id
    sequence: int  # among the objects of this attempt
    size: int  # bytes, footer included

    def key(self, write: str) -> str:
        return f"staged/{write}/{self.task}-{self.attempt}-{self.sequence}.data"


@dataclass(frozen=True, eq=False)
class PartitionSlices:
    """The part of a commit for one partition: slices of staged objects, in the order of their offsets."""

    topic_id: str
    partition: int
    base_offset: int  # of the first slice
    slices: Int64s  # (slices, 6): object (index in the commit's), position, bytes, records, batches, max timestamp
    producers: Int64s | None = None  # (batches, 6): batches of idempotent producers, columns as in ``producers``
    transactions: Sequence[int] = ()  # per slice an index into the commit's transactions, -1: none; (): all none


class GroupOffset(NamedTuple):
    """An offset that a consumer group committed."""

    offset: int
    metadata: str


GroupOffsets = Mapping[str, Mapping[str, GroupOffset | None]]
"""By group, then by partition (``topic-0``); None deletes."""


APP_PREFIX = "__transaction."  # of the apps that are transactional ids


class ClientTransaction(NamedTuple):
    """An open transaction of a client. Its transactional id is an app, whose version rises when it ends."""

    app: str
    epoch: int  # the app's current one
    version: int  # one more than the app's last epoch
    producer_id: int
    producer_epoch: int
    timeout_ms: int  # the age at which anyone may abort it

    @property
    def name(self) -> str:
        """The transactional id."""
        return self.app.removeprefix(APP_PREFIX)


@dataclass(frozen=True, eq=False)
class DataChange:
    """Records for any number of partitions, with offsets of groups. ``app``: the app of an exactly-once writer."""

    write: str  # 32 hex digits, in the names of its objects
    objects: Sequence[StagedObject] = ()
    parts: Sequence[PartitionSlices] = ()
    app: str | None = None
    version: int | None = None  # larger than the app's last version; None: ``offsets`` have the app's progress
    epoch: int | None = None  # the app's current one
    query: str | None = None
    run: str | None = None
    offsets: GroupOffsets | None = None
    transactions: Sequence[ClientTransaction] = ()  # the transactions of some slices


class StagedOffsets(NamedTuple):
    """Offsets of a group in an open transaction."""

    transaction: ClientTransaction
    group: str
    offsets: Mapping[str, GroupOffset]  # by partition


@dataclass(frozen=True)
class StageChange:
    """Offsets of groups, in open transactions: they count when those are committed."""

    stages: Sequence[StagedOffsets]


class TransactionEnd(NamedTuple):
    """The end of a transaction: either its records and group offsets count, or nothing is at its offsets."""

    app: str
    epoch: int
    version: int
    is_commit: bool


@dataclass(frozen=True)
class EndChange:
    """The ends of transactions, each of another app."""

    ends: Sequence[TransactionEnd]


@dataclass(frozen=True)
class OffsetsChange:
    """Offsets of groups, without records."""

    offsets: GroupOffsets


@dataclass(frozen=True)
class TopicChange:
    """A topic is created, altered (with all of its new settings), given partitions, or deleted."""

    op: Literal["create", "alter", "partitions", "delete"]
    name: str
    topic_id: str
    partitions: int = 0  # create, partitions: how many there shall be
    configs: Mapping[str, str] | None = None  # create, alter
    is_copied: bool = False  # create: its partitions are unfinished copies, until a commit finishes each


@dataclass(frozen=True)
class FinishChange:
    """The copy of a partition into this log is finished: from now on readers and writers see it."""

    topic_id: str
    partition: int


@dataclass(frozen=True)
class OpenChange:
    """A writer's claim of an app: earlier epochs are fenced, and their open transactions are aborted."""

    app: str
    epoch: int  # one more than the last
    query: str | None = None
    run: str | None = None


class Segment(NamedTuple):
    """A segment object with Kafka's own bytes, which covers the offsets from ``base`` to below ``end``."""

    base: int
    end: int
    uuid: str  # 32 hex digits, in the names of its objects
    size: int  # bytes of the .log
    records: int
    max_timestamp: int
    sha256: str  # of the .log, 64 hex digits
    is_compacted: bool = False  # compaction reads it as clean

    def key(self, topic_id: str, partition: int) -> str:
        """Returns the name of its objects without their suffixes."""
        return f"segments/{topic_id}/{partition}/{self.base:0{DIGITS}}-{self.uuid}"


@dataclass(frozen=True)
class SwapChange:
    """A segment replaces all slices and segments that cover its offsets."""

    topic_id: str
    partition: int
    segment: Segment


@dataclass(frozen=True)
class RetainChange:
    """The log start offset of a partition is raised."""

    topic_id: str
    partition: int
    log_start: int


@dataclass(frozen=True)
class VoidChange:
    """Writes and segments whose objects are about to be deleted.

    They can never be committed later. Those that the log once had are forgotten; they cannot be committed twice.
    """

    writes: Sequence[str]  # ids of writes and segments


Change = (
    DataChange
    | StageChange
    | EndChange
    | OffsetsChange
    | TopicChange
    | FinishChange
    | OpenChange
    | SwapChange
    | RetainChange
    | VoidChange
)


@dataclass(frozen=True, eq=False)
class Commit:
    """A change, its number in the log's sequence, and the commit before it."""

    number: int  # from 1 on, without a gap
    uid: str  # 32 hex digits, random
    previous: str  # uid of the previous commit; for the first one: the log's id
    time_ms: int  # by the writer's clock, for people
    by: str  # host, process, user; for people
    change: Change
