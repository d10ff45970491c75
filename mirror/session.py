"""Session: copies one source into the target until the first error."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any
from zlib import crc32

from ..storage import EncodedBatches, TopicIds, TopicPartition, find_made_again, joined_batches, made_again
from .arrivals import Arrivals, Piece
from .brokers.connections import ListedTopic
from .brokers.requests import EARLIEST, LATEST
from .errors import MirrorError, RetriableError
from .progress import NextOffset
from .same_log import check_not_same_log
from .settings import EARLIEST as RESET_TO_EARLIEST, NONE, SourceSettings
from .sources.port import AnySource, SourcePartition
from .stream import Assigned, Stream, offset_to_go_on
from .targets.port import Batches, Targets, TargetWriter
from .topics import BY_KEY, TargetTopic, TopicChoice, number_of

TRANSACTION_BYTES = 16 << 20  # of batches; the last piece may exceed it
_PAUSE_S = 0.1


@dataclass(frozen=True)
class Work:
    """The state that all sessions of a mirror share."""

    targets: Targets
    choice: TopicChoice
    streams: int  # threads that fetch from each source
    queue_size: int | None  # records of each source that may wait in memory; None: two fetches of each stream
    refresh_s: float | None  # the pause between two looks for new topics; None: stop at the ends found at first
    stop: Event
    report: Callable[[str], None]  # takes a sentence for people


@dataclass
class SourceState:
    """What the sessions of one source have done so far."""

    next: dict[SourcePartition, int] = field(default_factory=dict)  # offsets in the source
    ids: dict[SourcePartition, str] = field(default_factory=dict)  # of topics, for targets that do not keep them
    kept: int = 0  # batches whose bytes stayed
    is_complete: bool = False  # up to the ends that the topics had


class Session:
    """Mirrors a source until the mirror stops or an error occurs; the next session continues exactly there.

    Its streams fetch, and its own thread writes. Each transaction of the target has records and the resulting progress,
    so after an error or a kill at any time, the progress in the target states which records come next.
    """

    def __init__(self, settings: SourceSettings, work: Work, mirrored: SourceState) -> None:
        self._settings, self._work, self._mirrored = settings, work, mirrored
        self._arrivals = Arrivals(work.streams, work.queue_size)
        self._streams: list[Stream] = []
        self._known: set[SourcePartition] = set()  # those that are mirrored
        self._targets: dict[str, TargetTopic] = {}
        self._ids: TopicIds = {}  # as listed when this session first saw the topics
        self._waiting: set[SourcePartition] = set()  # to begin with, once they have a leader
        self._gone: set[SourcePartition] = set()  # those that were
        self._goals: dict[SourcePartition, int] = {}

    def run(self) -> None:
        """Mirrors until the mirror stops or, without refreshes, everything is mirrored.

        Raises the error that ended it, and InvalidConfigError if the source is the target itself.
        """
        check_not_same_log(self._settings.sources, self._work.targets)
        writer = self._work.targets.open(self._settings.group)
        try:
            source = self._settings.sources.open()
            try:
                self._streams = [
                    Stream(self._settings, self._arrivals, self._work.report) for _ in range(self._work.streams)
                ]
                self._run(source, writer)
            finally:
                source.close()
        finally:
            for stream in self._streams:
                stream.stop()
            writer.close()

    def _run(self, source: AnySource[Any, Any], writer: TargetWriter) -> None:
        refresh_s = self._work.refresh_s
        looked_s: float | None = None
        while not self._work.stop.is_set():
            if looked_s is None or (refresh_s is not None and time.monotonic() - looked_s > refresh_s):
                self._look_for_topics(source, writer)
                looked_s = time.monotonic()
            if refresh_s is None and not self._goals:
                self._check_none_waits()
                self._mirrored.is_complete = True
                return
            if pieces := self._arrived():
                self._write(writer, pieces)

    # Topics

    def _look_for_topics(self, source: AnySource[Any, Any], writer: TargetWriter) -> None:
        listed = {each: source.partitions(each) for each in source.topics() if self._work.choice.allows(each.name)}
        there = {each for partitions in listed.values() for each in partitions}
        self._check_none_is_back(there)
        self._check_same_topics({each.name: each.topic_id for each in listed if each.topic_id is not None})
        if gone := self._known - there:
            self._forget(gone)
        for topic, partitions in listed.items():
            if new := set(partitions) - self._known:
                self._targets[topic.name] = self._prepared(source, writer, topic)
                self._waiting |= new
                self._known |= new
        if self._waiting:
            self._begin(source, writer, sorted(self._waiting))

    def _forget(self, partitions: Collection[SourcePartition]) -> None:
        self._known.difference_update(partitions)
        self._gone.update(partitions)
        self._waiting.difference_update(partitions)
        for stream in self._streams:
            stream.revoke(partitions)

    def _check_none_is_back(self, there: Collection[SourcePartition]) -> None:
        """Raises RetriableError, which starts another session, if a partition that had disappeared exists again.

        This session knows the progress only as it was at its start. A broker that has just started may list no topics
        for a moment.
        """
        if back := sorted(self._gone.intersection(there)):
            raise RetriableError(f"{back[0]} of {self._settings.sources} had disappeared and exists again")

    def _check_same_topics(self, now: TopicIds) -> None:
        """Raises RetriableError, which starts another session, if a topic was deleted and made again."""
        if text := find_made_again(self._ids, now):
            raise RetriableError(f"{self._settings.sources}: {text}")
        self._ids = {**now, **self._ids}

    def _check_none_waits(self) -> None:
        if self._waiting:
            raise RetriableError(f"{min(self._waiting)} of {self._settings.sources} has no leader")

    def _begin(self, source: AnySource[Any, Any], writer: TargetWriter, partitions: Sequence[SourcePartition]) -> None:
        """Assigns partitions to streams; those without a leader wait for the next look, and the others go on."""
        positions = self._positions(source, writer, partitions)
        goals: Mapping[SourcePartition, int] = {}
        if self._work.refresh_s is None:
            goals = source.offsets(positions, LATEST)
            positions = {each: position for each, position in positions.items() if each in goals}
            positions |= self._set_back(source, writer, positions, goals)
            self._goals |= {each: goal for each, goal in goals.items() if positions[each] < goal}
        for each, position in positions.items():
            stream = self._streams[(crc32(each.topic.encode()) + number_of(each)) % len(self._streams)]
            target, topic_id = self._targets[each.topic], self._ids.get(each.topic)
            stream.assign({each: Assigned(position, goals.get(each), target, topic_id)})
        self._waiting -= positions.keys()

    def _positions(
        self, source: AnySource[Any, Any], writer: TargetWriter, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        """Returns the first offset to mirror of each partition; partitions without a leader are left out.

        Partitions that were never mirrored get progress at once, so that after a restart, ``latest`` still means the
        offset of today. So do those of a topic that was made again, whose progress is of other records; and progress
        without the topic's id gets it.
        """
        known = writer.progress(partitions)
        again = {each: text for each, at in known.items() if (text := self._made_again(each, at))}
        never = {
            each: f"{each} of {self._settings.sources} was never mirrored" for each in partitions if each not in known
        }
        starts = self._starts(source, never | again)
        for each in sorted(again.keys() & starts.keys()):
            self._work.report(f"{again[each]}; going on at {starts[each]} (auto.offset.reset)")
            self._mirrored.next[each] = starts[each]
        same = {each: at.offset for each, at in known.items() if each not in again}
        unnamed = {each: same[each] for each in same if known[each].topic_id is None and each.topic in self._ids}
        if starts or unnamed:
            self._write_to(writer, {}, unnamed | starts)
        return same | starts

    def _made_again(self, partition: SourcePartition, at: NextOffset) -> str | None:
        """Returns a text about a topic that has another id than the one with which it was mirrored."""
        known = at.topic_id or self._mirrored.ids.get(partition)
        before = {} if known is None else {partition.topic: known}
        text = made_again(before, self._ids).get(partition.topic)
        return None if text is None else f"{partition} of {self._settings.sources}: {text}"

    def _set_back(
        self,
        source: AnySource[Any, Any],
        writer: TargetWriter,
        positions: Mapping[SourcePartition, int],
        goals: Mapping[SourcePartition, int],
    ) -> dict[SourcePartition, int]:
        """Returns where to continue partitions whose progress is above the source's log end, because it is another log.

        Raises RetriableError if a log seems to end before its progress only for now.
        """
        beyond = {each: position for each, position in positions.items() if position > goals[each]}
        answers = source.fetch(beyond, self._ids) if beyond else {}
        for each, position in beyond.items():
            if each not in answers:
                raise RetriableError(
                    f"{each} of {self._settings.sources} ends at {goals[each]} for now, but {position} is next to "
                    "mirror"
                )
        outside = {each: position for each, position in beyond.items() if answers[each] is None}
        chosen = {
            each: offset_to_go_on(self._settings, source, each, position, self._work.report)
            for each, position in outside.items()
        }
        if chosen:
            self._write_to(writer, {}, chosen)
            self._mirrored.next |= chosen
        return chosen

    def _prepared(self, source: AnySource[Any, Any], writer: TargetWriter, topic: ListedTopic) -> TargetTopic:
        choice = self._work.choice
        by_key = choice.partitions == BY_KEY
        configs = {**source.configs(topic.name), **choice.configs}
        count = choice.partition_count or topic.partitions
        return TargetTopic(writer.prepare(topic.name, count, configs, grow=not by_key), by_key)

    def _starts(self, source: AnySource[Any, Any], wanted: Mapping[SourcePartition, str]) -> dict[SourcePartition, int]:
        """Returns the first offset of partitions without progress; ``wanted`` has a text about each.

        Raises MirrorError without auto.offset.reset.
        """
        if wanted and self._settings.reset == NONE:
            raise MirrorError(f"{wanted[min(wanted)]}: to go on, set auto.offset.reset to earliest or latest")
        at = EARLIEST if self._settings.reset == RESET_TO_EARLIEST else LATEST
        return source.offsets(wanted, at) if wanted else {}

    # Records

    def _arrived(self) -> list[Piece]:
        """Returns pieces for one transaction; an empty list if nothing arrives soon. Raises the error of a stream."""
        pieces: list[Piece] = []
        size = 0
        while size < TRANSACTION_BYTES:
            arrived = self._arrivals.get(0 if pieces else _PAUSE_S)
            if arrived is None:
                break
            if isinstance(arrived, BaseException):
                raise arrived
            pieces.append(arrived)
            size += sum(len(batches.buffer) for _, batches in arrived.forwarded.shares)
        return pieces

    def _write(self, writer: TargetWriter, pieces: Sequence[Piece]) -> None:
        """Writes pieces and their progress in one transaction; for a piece without records, only its progress."""
        divided: dict[TopicPartition, list[EncodedBatches]] = {}
        for source, forwarded in pieces:
            for number, batches in forwarded.shares:
                divided.setdefault(TopicPartition(source.topic, number), []).append(batches)
        progress = {each.partition: each.forwarded.next_offset for each in pieces}
        written = {each: some[0] if len(some) == 1 else joined_batches(some) for each, some in divided.items()}
        self._write_to(writer, written, progress)
        self._mirrored.kept += sum(each.forwarded.kept for each in pieces)
        self._mirrored.next |= progress
        self._goals = {each: goal for each, goal in self._goals.items() if progress.get(each, 0) < goal}

    def _write_to(self, writer: TargetWriter, batches: Batches, offsets: Mapping[SourcePartition, int]) -> None:
        """Writes batches and progress, which has the ids of the topics as this session knows them."""
        ids = {each: self._ids[each.topic] for each in offsets if each.topic in self._ids}
        writer.write(batches, {each: NextOffset(offset, ids.get(each)) for each, offset in offsets.items()})
        self._mirrored.ids |= ids
