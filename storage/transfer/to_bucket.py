"""Copies a log directory to an object store: each piece of a log becomes a segment object, with Kafka's own bytes.

The commit that creates a topic marks the copies of all its partitions as unfinished, so that no one reads or writes
them: they are shown as ``orders-0.unfinished``. The commits of a partition follow, in this order; if the process is
killed after any of them and the copy is run again, it continues:

1. all offsets up to the log's end exist, but are empty;
2. the log start offset is that of the source;
3. the pieces replace the empty offsets, one after the other;
4. the copy is finished: readers and writers see it.

So a partition is complete or visibly not there. One that is damaged in the source stays unfinished.

Two copies of one topic may run at once: each skips what the other has committed, if it has the source's bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from uuid import uuid4

import numpy as np

from ..bucket.commit_log import CommitLog
from ..bucket.commits.commit import DataChange, PartitionSlices, Segment, SwapChange, TopicChange
from ..bucket.commits.state import State
from ..bucket.filler import encode_filler, is_filler
from ..bucket.upkeep import Part, finish_copy, parts_of, raise_log_start
from ..directory.admin import check_whole
from ..directory.manager import LogManager
from ..directory.topics_file import TopicDescription
from ..errors import CorruptionError, StorageError, TopicExistsError, UnknownTopicOrPartitionError
from ..format.constants import INT32_MAX
from ..format.files import checkpoints, file_names as names
from ..reading.reader import LogReader
from ..topic_rules import check_free, check_new_name
from .choosing import OnDamage, raise_damage, topics_to_copy
from .indexes import aborted_in, indexes_of
from .new_names import SAME_NAMES, NewNames
from .pieces import PIECE_BYTES_MAX, CopiedPartition, Piece, end_to_copy, pieces_of


def copy_to_bucket(
    source: LogManager,
    target: CommitLog,
    topics: Collection[str] | None = None,
    on_damage: OnDamage = raise_damage,
    *,
    new_names: NewNames = SAME_NAMES,
    limit: int = PIECE_BYTES_MAX,
) -> Iterator[CopiedPartition]:
    """Copies topics, by default :func:`topics_to_copy`, and yields each partition when it is complete.

    Passes damage in a partition of the source, which stays unfinished in ``target``, to ``on_damage``, and continues
    with the next one. Skips partitions that an earlier copy of this topic has completed, if others are unfinished,
    because producers may have written to them. ``limit``: bytes of an object. Raises UnknownTopicOrPartitionError for a
    topic that is missing or has only some partitions here, InvalidTopicError for a reserved name, TopicExistsError for
    another topic of that name in ``target``, StorageError if it has other records, and ObjectStoreError.
    """
    for topic in map(source.topic, topics_to_copy(source) if topics is None else topics):
        check_whole(source, topic)
        new_topic, wanted_id = new_names.described(source, topic)
        id_ = _make_topic(target, new_topic, wanted_id)
        for partition in topic.topic_partitions:
            if id_ == wanted_id and _is_passed_over(target.state, id_, partition.partition):
                continue
            try:
                with source.open_reader(*partition) as reader:
                    copied = _Copy(target, id_, *new_names.partition(partition), limit).run(reader, end_to_copy(reader))
            except CorruptionError as error:
                on_damage(partition, error)
            else:
                yield copied


def _make_topic(target: CommitLog, topic: TopicDescription, id_: str | None) -> str:
    """Creates the topic with its id, or finds the one of a killed copy; returns its id."""

    def propose(state: State) -> TopicChange | None:
        known = state.topics.get(id_ or state.topic_ids.get(topic.name, ""))
        if known is not None and (known.name, known.partitions) == (topic.name, len(topic.partitions)):
            return None
        if topic.name in state.topic_ids:
            raise TopicExistsError(f"{target.store.url} has another topic {topic.name!r} already")
        check_new_name(topic.name)
        check_free(topic.name, state.topic_ids)
        new_id = id_ or checkpoints.encode_id(uuid4())
        return TopicChange("create", topic.name, new_id, len(topic.partitions), dict(topic.configs), is_copied=True)

    target.commit(propose)
    return target.state.topic_ids[topic.name]


def _is_passed_over(state: State, topic: str, partition: int) -> bool:
    """Whether the copy of a partition is finished while that of another one is not."""
    unfinished = {number for (of, number), each in state.partitions.items() if of == topic and each.is_unfinished}
    return bool(unfinished) and partition not in unfinished


class _Copy:
    """The copy of one partition."""

    def __init__(self, target: CommitLog, topic: str, name: str, partition: int, limit: int) -> None:
        self._log, self._topic, self._name, self._partition, self._limit = target, topic, name, partition, limit

    def run(self, reader: LogReader, end: int) -> CopiedPartition:
        start = reader.log_start_offset
        if end < start:
            raise StorageError(
                f"{self._place}: the source has an open transaction that began below its log start offset {start}: "
                "run the copy again when the transaction has ended"
            )
        pieces = pieces_of(reader, self._limit, end)
        self._make_room([piece.base for piece in pieces], end)
        self._log.commit(lambda state: raise_log_start(state, self._topic, self._partition, start))
        for piece in pieces:
            self._put(reader, piece, is_last=piece is pieces[-1])
        self._log.commit(lambda state: finish_copy(state, self._topic, self._partition))
        size = sum(piece.stop - piece.start for piece in pieces)
        return CopiedPartition(self._name, self._partition, start, end, len(pieces), size)

    def _make_room(self, bases: list[int], end: int) -> None:
        """Adds empty offsets up to ``end``, which the pieces will replace."""
        if not self._needs_room(self._log.catch_up(), end):
            return
        write, spans = uuid4().hex, list(_spans([0, *bases, end]))
        staged, data, rows = encode_filler(write, self._topic, self._partition, spans)
        self._log.patient_store.put_unique(staged.key(write), data)
        change = DataChange(write, [staged], [PartitionSlices(self._topic, self._partition, 0, rows)])
        self._log.commit(lambda state: change if self._needs_room(state, end) else None)

    def _needs_room(self, state: State, end: int) -> bool:
        """Whether the partition is still empty. Raises StorageError if it ends elsewhere than the source."""
        there = state.partitions.get((self._topic, self._partition))
        if there is None:
            raise UnknownTopicOrPartitionError(f"{self._place}: the topic was deleted while it was copied")
        if there.end not in (0, end):
            raise self._other_records(f"ends at {there.end}, and the source at {end}")
        return there.end != end

    def _put(self, reader: LogReader, piece: Piece, *, is_last: bool) -> None:
        """Puts the objects of a piece, and then commits it; does nothing if a copy has committed the same bytes."""
        data = piece.read()
        sha256 = hashlib.sha256(data).hexdigest()
        put = Segment(piece.base, piece.end, uuid4().hex, len(data), piece.records, piece.max_timestamp, sha256)
        if self._replaced(self._log.state, put) is None:
            return
        files = indexes_of(data, piece.base, reader.context.config.index_interval_bytes)
        files |= aborted_in(piece.segment, piece.base, piece.end)
        epochs = [entry for entry in reader.epochs.entries if entry.start_offset < piece.end]
        files[names.EPOCHS] = checkpoints.encode_leader_epochs(epochs)
        if is_last:
            files[names.SNAPSHOT] = reader.producers.to_bytes()
        for kind, content in {**files, names.LOG: data}.items():
            self._log.patient_store.put_unique(put.key(self._topic, self._partition) + kind, content)
        self._log.commit(lambda state: self._replaced(state, put))

    def _replaced(self, state: State, put: Segment) -> SwapChange | None:
        """Proposes a piece to replace empty offsets; None if a segment with the same bytes did so already.

        Raises StorageError if the offsets have other records.
        """
        there = parts_of(state, self._topic, self._partition, put.base, put.end)
        if [_bytes_of(part) for part in there] == [_bytes_of(put)]:
            return None
        if not all(map(is_filler, there)):
            raise self._other_records(f"has other records between offsets {put.base} and {put.end}")
        return SwapChange(self._topic, self._partition, put)

    @property
    def _place(self) -> str:
        return f"{self._log.store.url}: {self._name}-{self._partition}"

    def _other_records(self, what: str) -> StorageError:
        return StorageError(
            f"{self._place} {what}: if another copy of the topic runs, wait for its end and run this one again; "
            "otherwise delete the topic there, and copy it again"
        )


def _bytes_of(part: Part) -> tuple[object, ...] | None:
    """Returns a value that identifies the bytes and offsets of a segment; None for slices."""
    return (part.base, part.end, part.size, part.sha256) if isinstance(part, Segment) else None


def _spans(bounds: list[int]) -> Iterator[int]:
    """Yields the number of offsets of each empty batch: no batch spans a bound or exceeds a batch's limit."""
    for missing in np.diff(bounds).tolist():
        for taken in range(0, missing, INT32_MAX):
            yield min(INT32_MAX, missing - taken)
