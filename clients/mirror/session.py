"""Session: copies one source into the target until the first error."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, Queue
from threading import Event
from zlib import crc32

from ...storage import EncodedBatches, TopicPartition, joined_batches
from ..brokers import EARLIEST, LATEST, ListedTopic
from ..errors import MirrorError, RetriableError
from ..sources import Source
from .settings import EARLIEST as RESET_TO_EARLIEST, NONE, SourceSettings
from .stream import QUEUED_MAX, Arrivals, Assigned, Piece, Stream, offset_to_go_on
from .targets import Targets, TargetWriter
from .topics import BY_KEY, TargetTopic, TopicChoice

TRANSACTION_BYTES = 16 << 20  # of batches; the last piece may exceed it
_PAUSE_S = 0.1


@dataclass(frozen=True)
class Work:
    """The state that all sessions of a mirror share."""

    targets: Targets
    choice: TopicChoice
    streams: int  # threads that fetch from each source
    refresh_s: float | None  # the pause between two looks for new topics; None: stop at the ends found at first
    stop: Event
    report: Callable[[str], None]  # takes a sentence for people


@dataclass
class Mirrored:
    """What the sessions of one source have done so far."""

    next: dict[TopicPartition, int] = field(default_factory=dict)  # offsets in the source
    kept: int = 0  # batches whose bytes stayed
    batches: int = 0


class Session:
    """Mirrors a source until the mirror stops or an error occurs; the next session continues exactly there.

    Its streams fetch, and its own thread writes. Each transaction of the target has records and the resulting progress,
    so after an error or a kill at any time, the progress in the target states which records come next.
    """

    def __init__(self, settings: SourceSettings, work: Work, mirrored: Mirrored) -> None:
        self._settings, self._work, self._mirrored = settings, work, mirrored
        self._arrivals: Arrivals = Queue(QUEUED_MAX * work.streams)
        self._streams: list[Stream] = []
        self._topics: dict[str, int] = {}  # those that are mirrored, with the number of partitions known
        self._targets: dict[str, TargetTopic] = {}
        self._waiting: set[TopicPartition] = set()  # to begin with, once they have a leader
        self._gone: set[str] = set()  # those that were
        self._goals: dict[TopicPartition, int] = {}

    def run(self) -> None:
        """Mirrors until the mirror stops or, without refreshes, everything is mirrored.

        Raises the error that ended it.
        """
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

    def _run(self, source: Source, writer: TargetWriter) -> None:
        refresh_s = self._work.refresh_s
        looked_s: float | None = None
        while not self._work.stop.is_set():
            if looked_s is None or (refresh_s is not None and time.monotonic() - looked_s > refresh_s):
                self._look_for_topics(source, writer)
                looked_s = time.monotonic()
            if refresh_s is None and not self._goals:
                self._check_none_waits()
                return
            if pieces := self._arrived():
                self._write(writer, pieces)

    # Topics

    def _look_for_topics(self, source: Source, writer: TargetWriter) -> None:
        listed = {each.name: each for each in source.topics() if self._work.choice.allows(each.name)}
        self._check_none_is_back(listed)
        for gone in self._topics.keys() - listed.keys():
            self._forget(gone)
        for each in listed.values():
            known = self._topics.get(each.name, 0)
            if each.partitions > known:
                self._targets[each.name] = self._prepared(source, writer, each)
                self._waiting |= {TopicPartition(each.name, number) for number in range(known, each.partitions)}
                self._topics[each.name] = each.partitions
        if self._waiting:
            self._begin(source, writer, sorted(self._waiting))

    def _forget(self, topic: str) -> None:
        del self._topics[topic]
        self._gone.add(topic)
        self._waiting = {each for each in self._waiting if each.topic != topic}
        for stream in self._streams:
            stream.revoke(topic)

    def _check_none_is_back(self, listed: Collection[str]) -> None:
        """Raises RetriableError, which starts another session, if a topic that had disappeared exists again.

        This session knows the progress only as it was at its start. A broker that has just started may list no topics
        for a moment.
        """
        if back := sorted(self._gone.intersection(listed)):
            raise RetriableError(f"topic {back[0]!r} of {self._settings.sources} had disappeared and exists again")

    def _check_none_waits(self) -> None:
        if self._waiting:
            raise RetriableError(f"{min(self._waiting)} of {self._settings.sources} has no leader")

    def _begin(self, source: Source, writer: TargetWriter, partitions: Sequence[TopicPartition]) -> None:
        """Assigns partitions to streams; those without a leader wait for the next look, and the others go on."""
        positions = self._positions(source, writer, partitions)
        goals: Mapping[TopicPartition, int] = {}
        if self._work.refresh_s is None:
            goals = source.offsets(positions, LATEST)
            positions = {each: position for each, position in positions.items() if each in goals}
            positions |= self._set_back(source, writer, positions, goals)
            self._goals |= {each: goal for each, goal in goals.items() if positions[each] < goal}
        for each, position in positions.items():
            stream = self._streams[(crc32(each.topic.encode()) + each.partition) % len(self._streams)]
            stream.assign({each: Assigned(position, goals.get(each), self._targets[each.topic])})
        self._waiting -= positions.keys()

    def _positions(
        self, source: Source, writer: TargetWriter, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Returns the first offset to mirror of each partition; partitions without a leader are left out.

        Partitions that were never mirrored get progress at once, so that after a restart, ``latest`` still means the
        offset of today.
        """
        known = {each: writer.progress[each] for each in partitions if each in writer.progress}
        starts = self._starts(source, [each for each in partitions if each not in known])
        if starts:
            writer.write({}, starts)
        return known | starts

    def _set_back(
        self,
        source: Source,
        writer: TargetWriter,
        positions: Mapping[TopicPartition, int],
        goals: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        """Returns where to continue partitions whose progress is above the source's log end, because it is another log.

        Raises RetriableError if a log seems to end before its progress only for now.
        """
        beyond = {each: position for each, position in positions.items() if position > goals[each]}
        answers = source.fetch(beyond) if beyond else {}
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
            writer.write({}, chosen)
            self._mirrored.next |= chosen
        return chosen

    def _prepared(self, source: Source, writer: TargetWriter, topic: ListedTopic) -> TargetTopic:
        choice = self._work.choice
        by_key = choice.partitions == BY_KEY
        configs = {**source.configs(topic.name), **choice.configs}
        count = choice.partition_count or topic.partitions
        return TargetTopic(writer.prepare(topic.name, count, configs, grow=not by_key), by_key)

    def _starts(self, source: Source, wanted: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the first offset of partitions that were never mirrored.

        Raises MirrorError without auto.offset.reset.
        """
        if wanted and self._settings.reset == NONE:
            raise MirrorError(
                f"{wanted[0]} of {self._settings.sources} was never mirrored: set auto.offset.reset to "
                "earliest or latest"
            )
        at = EARLIEST if self._settings.reset == RESET_TO_EARLIEST else LATEST
        return source.offsets(wanted, at) if wanted else {}

    # Records

    def _arrived(self) -> list[Piece]:
        """Returns pieces for one transaction; an empty list if nothing arrives soon. Raises the error of a stream."""
        pieces: list[Piece] = []
        size = 0
        while size < TRANSACTION_BYTES:
            try:
                arrived = self._arrivals.get(block=not pieces, timeout=_PAUSE_S)
            except Empty:
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
        writer.write(written, progress)
        self._mirrored.batches += sum(len(each.headers) for each in written.values())
        self._mirrored.kept += sum(each.forwarded.kept for each in pieces)
        self._mirrored.next |= progress
        self._goals = {each: goal for each, goal in self._goals.items() if progress.get(each, 0) < goal}
