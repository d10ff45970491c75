"""ProduceTurn: serves the plain Produce requests that have arrived at the connections of one thread.

A turn takes what has arrived, finds the plain requests, and takes their batches in order. A request is looked
at as a whole before anything of it is taken; from the first one of a connection that is not plain, or that a log would
not append at once, everything goes the usual way. Then each partition is written, and after that the answers are sent,
or wait for syncs; on an object store, they wait for a commit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, NamedTuple

from ...protocol.apis import ApiKey
from ...storage import Found, FoundConnection, ProduceTables
from ..figures import Figures
from ..network.connection import Connection
from ..network.limits.quota import Quota
from ..security.session import Stage
from .answers import TurnAnswer
from .appends import Arrived, Done, End, Served, TurnAppends
from .compressed import CompressedChecks
from .known import KnownPartitions, L, Look, MayWrite
from .loading import LOADING

ONE_BYTES_MAX = 1 << 20  # of a request that is served by itself; a larger one is appended by another thread
PRODUCE = ApiKey.PRODUCE.to_bytes(2, "big")  # the kind at the head of a request

logger = logging.getLogger(__name__)


class Shared(NamedTuple, Generic[L]):
    """What the turns of all threads share."""

    end: End[L]
    look: Look
    figures: Figures
    now_ms: Callable[[], int]
    may_write: MayWrite
    quick_bytes: int  # that the batches of one request may decompress to in the thread of its connection


class _Taken(NamedTuple):
    """A connection whose bytes were taken."""

    connection: Connection
    received: int  # bytes that came just now


class ProduceTurn(Generic[L]):
    """Of one thread; implements ``network.together.Together``."""

    def __init__(self, shared: Shared[L]) -> None:
        """Reserves nothing before a client produces."""
        self._shared = shared
        self._tables: ProduceTables | None = None
        self._known: KnownPartitions[L] | None = None

    def accepts(self, connection: Connection) -> bool:
        """Whether requests of a connection may be served here: its client has logged in, and the kernels are loaded.

        The first Produce request of a connection goes the usual way, where all of it is checked. Nothing in a turn
        reads the client id.
        """
        if not LOADING.is_done:
            LOADING.begin()
            return False
        session = connection.session
        return session is not None and session.stage is Stage.DONE and not session.has_expired

    def serve(self, connections: Sequence[Connection], frames_max: int) -> None:
        """Serves what has arrived at connections, in this order; the rest is put back. Raises nothing."""
        try:
            for first in range(0, len(connections), ProduceTables.CONNECTIONS_MAX):
                self._serve(connections[first : first + ProduceTables.CONNECTIONS_MAX], frames_max)
        except Exception:  # of ours: nobody knows how far the turn got
            logger.exception("requests could not be served together; their connections are closed")
            for each in connections:
                each.close()

    def serve_one(self, connection: Connection, frame: memoryview) -> bool:
        """Serves a request that was read as a whole; returns whether. Keeps nothing of it. Raises nothing.

        While those of other clients wait for a sync, its write may wait for that: the appender's thread has more time.
        """
        is_for_turns = self._shared.end.takes_large and len(frame) <= ONE_BYTES_MAX
        if not is_for_turns or self._quota(connection).taken > connection.requests:
            return False
        began_s = time.perf_counter()
        try:
            with self._ready().reading(frame):
                return self._serve_one(connection, began_s)
        except Exception:  # of ours: nobody knows how far the turn got
            logger.exception("a request could not be served; its connection is closed")
            connection.close()
            return True

    def _ready(self) -> ProduceTables:
        if self._tables is None or self._known is None:
            self._tables = ProduceTables()
            shared = self._shared
            self._known = KnownPartitions(self._tables, shared.end.kind, shared.look, shared.may_write)
        self._known.begin()
        return self._tables

    def _serve_one(self, connection: Connection, began_s: float) -> bool:
        assert self._tables is not None
        now_ms = self._shared.now_ms()
        found = self._tables.find_one(now_ms)
        (served,), answers, appends = self._append([connection], found, now_ms, began_s)
        if answers:
            connection.trial.served()
        else:
            may_be_next = served.is_busy or self._has_learned(found.connections[0])
            connection.trial.left(0, may_be_next=may_be_next)
            connection.trial.served_apart()
        appends.finish(answers)
        return bool(answers)

    def _serve(self, connections: Sequence[Connection], frames_max: int) -> None:
        began_s = time.perf_counter()
        tables = self._ready()
        taken = self._take(tables, connections, frames_max)
        if not taken:
            return
        now_ms = self._shared.now_ms()
        found = tables.find(now_ms)
        served, answers, appends = self._append([each.connection for each in taken], found, now_ms, began_s)
        for number, (each, at) in enumerate(zip(taken, found.connections, strict=True)):
            self._put_back(each, at, served[number])
        appends.finish(answers)

    def _append(
        self, connections: Sequence[Connection], found: Found, now_ms: int, began_s: float
    ) -> tuple[list[Served], list[TurnAnswer], TurnAppends[L]]:
        """Appends what may be appended now of each connection, and adds the answers to it."""
        assert self._tables is not None
        assert self._known is not None
        shared, tables = self._shared, self._tables
        checks = CompressedChecks(tables, self._known, found, now_ms, shared.quick_bytes)
        stops = checks.run(each.session.client for each in connections)
        quota = self._quota(connections[0])
        places = quota.take_some(len(found.frames))
        appends = shared.end.begin(Arrived(tables, self._known, found, stops, checks.passed))
        served: list[Served] = []
        try:
            for number, (each, at) in enumerate(zip(connections, found.connections, strict=True)):
                served.append(appends.append(each, at, places))
                tables.set_frame_stop(number, at.frame_first + len(served[-1].frames))
            appends.write()
        except BaseException:
            quota.give(places)
            raise
        finally:
            appends.end()
        count = sum(len(each.frames) for each in served)
        quota.give(places - count)
        shared.figures.together(count)
        answers = self._answers(connections, served, appends, partial(self._done, quota, began_s))
        return served, answers, appends

    @staticmethod
    def _quota(connection: Connection) -> Quota:
        return connection.processor.limits.places_of(memoryview(PRODUCE), connection.is_newcomer)

    def _take(self, tables: ProduceTables, connections: Sequence[Connection], frames_max: int) -> list[_Taken]:
        """Takes what has arrived; leaves out connections that end, or had more put back than their share has room for.

        A turn of fewer connections has put that back, and the connection has a call to come that serves it alone.
        """
        tables.begin(len(connections))
        taken = []
        for each in connections:
            if not each.fits(len(tables.room)):
                continue
            size, received = each.take(tables.room)
            if not each.is_closed:
                tables.add_connection(size, min(frames_max, each.overlapping_room))
                taken.append(_Taken(each, received))
        return taken

    def _put_back(self, taken: _Taken, found: FoundConnection, served: Served) -> None:
        """Puts back what follows the last served request of a connection."""
        assert self._tables is not None
        memory, count = self._tables.memory, len(served.frames)
        stop = served.frames[-1].end if count else found.start
        is_left = found.state == ProduceTables.OTHER or count < found.frame_stop - found.frame_first
        if is_left:
            may_be_next = served.is_busy or (stop == found.stop and self._has_learned(found))
            taken.connection.trial.left(count, may_be_next=may_be_next)
        elif count:
            taken.connection.trial.served()
        is_whole = is_left or found.state == ProduceTables.FULL
        taken.connection.put_back(bytes(memory[stop : found.end]), taken.received, is_whole=is_whole)

    def _has_learned(self, found: FoundConnection) -> bool:
        """Whether a request was left for a partition that was not in the table, and now is."""
        assert self._tables is not None
        assert self._known is not None
        name = bytes(self._tables.memory[found.name_at : found.name_at + found.name_bytes])
        return bool(name) and self._known.learn(name, found.number)

    def _answers(
        self,
        connections: Sequence[Connection],
        served: Sequence[Served],
        appends: TurnAppends[L],
        done: Done,
    ) -> list[TurnAnswer]:
        """Adds the answers to the connections."""
        assert self._tables is not None
        answers = []
        for each, (frames, _), data in zip(connections, served, self._tables.answers(), strict=True):
            if frames:
                answer = appends.answer(each, data, frames, done)
                each.add(answer)
                answers.append(answer)
        return answers

    def _done(self, quota: Quota, began_s: float, answer: TurnAnswer) -> None:
        """Counts requests that have their answers."""
        quota.give(answer.requests)
        self._shared.figures.answered(ApiKey.PRODUCE, time.perf_counter() - began_s, answer.requests)
        if answer.failed:
            self._shared.figures.failed(produces=answer.failed)
