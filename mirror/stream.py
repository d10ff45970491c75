"""Stream: a thread that fetches some partitions of a source and prepares their batches for the target."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Any

from ..classic.upgrade.forwarding import PositionAnswer
from ..storage import FetchAnswer, Forwarded
from .arrivals import Arrivals, Piece
from .brokers.requests import EARLIEST, LATEST
from .errors import MirrorError, RetriableError
from .settings import EARLIEST as RESET_TO_EARLIEST, NONE, SourceSettings
from .sources.port import AnySource, SourcePartition
from .topics import TargetTopic

_PAUSE_S = 0.1


@dataclass
class Assigned:
    """A partition that a stream reads."""

    offset: int  # the next to fetch
    goal: int | None  # where to stop; None: nowhere
    target: TargetTopic
    topic_id: str | None = None


class Stream:
    """Fetches its partitions until it is stopped; puts results, and an error that ends it, into a queue."""

    def __init__(self, settings: SourceSettings, arrivals: Arrivals, report: Callable[[str], None]) -> None:
        """Starts the thread."""
        self._settings, self._arrivals, self._report = settings, arrivals, report
        self._lock, self._stopped = Lock(), Event()  # The lock guards what is assigned.
        self._assigned: dict[SourcePartition, Assigned] = {}
        self._thread = Thread(target=self._run, name=f"mirror of {settings.group}", daemon=True)
        self._thread.start()

    def assign(self, partitions: Mapping[SourcePartition, Assigned]) -> None:
        """Adds partitions."""
        with self._lock:
            self._assigned.update(partitions)

    def revoke(self, partitions: Collection[SourcePartition]) -> None:
        """Removes partitions that no longer exist."""
        with self._lock:
            self._assigned = {each: state for each, state in self._assigned.items() if each not in partitions}

    def stop(self) -> None:
        """Ends the thread after its current request."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            source = self._settings.sources.open()
            try:
                while not self._stopped.is_set():
                    self._fetch(source)
            finally:
                source.close()
        except BaseException as error:  # the thread that writes raises it
            self._put(error)

    def _fetch(self, source: AnySource[Any, Any]) -> None:
        with self._lock:
            waiting = {each: state for each, state in self._assigned.items() if not _is_done(state)}
        if not waiting:
            self._stopped.wait(_PAUSE_S)
            return
        ids = {each.topic: state.topic_id for each, state in waiting.items() if state.topic_id is not None}
        answers = source.fetch({each: state.offset for each, state in waiting.items()}, ids)
        for partition, answer in answers.items():
            self._take(source, partition, answer, waiting[partition])

    def _take(
        self,
        source: AnySource[Any, Any],
        partition: SourcePartition,
        answer: FetchAnswer | PositionAnswer | None,
        state: Assigned,
    ) -> None:
        if answer is None:
            state.offset = offset_to_go_on(self._settings, source, partition, state.offset, self._report)
            self._put(Piece(partition, Forwarded([], state.offset, 0)))  # its progress, for a restart and for the goal
            return
        forwarded = state.target.placed(partition, answer)
        if forwarded.next_offset == state.offset:
            raise MirrorError(
                f"{partition} of {self._settings.sources}: no complete batch contains offset {state.offset}"
            )
        state.offset = forwarded.next_offset
        self._put(Piece(partition, forwarded))

    def _put(self, arrived: Piece | BaseException) -> None:
        while not self._stopped.is_set() and not self._arrivals.put(arrived, _PAUSE_S):
            pass


def offset_to_go_on(
    settings: SourceSettings,
    source: AnySource[Any, Any],
    partition: SourcePartition,
    offset: int,
    report: Callable[[str], None],
) -> int:
    """Returns where to continue if the source does not have an offset, and reports it.

    Raises MirrorError if nobody said where, and RetriableError if the partition has no leader.
    """
    firsts, ends = source.offsets([partition], EARLIEST), source.offsets([partition], LATEST)
    if partition not in firsts or partition not in ends:
        raise RetriableError(f"{partition} of {settings.sources} has no leader")
    first, end = firsts[partition], ends[partition]
    what = f"{partition} of {settings.sources} has offsets {first} to {end}, but {offset} is next to mirror"
    if settings.reset == NONE:
        raise MirrorError(f"{what}: to go on, set auto.offset.reset to earliest or latest")
    chosen = first if settings.reset == RESET_TO_EARLIEST else end
    report(f"{what}; going on at {chosen} (auto.offset.reset)")
    return chosen


def _is_done(state: Assigned) -> bool:
    return state.goal is not None and state.offset >= state.goal
