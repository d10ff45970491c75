"""Processor: a thread that reads the requests of its connections and sends their answers."""

from __future__ import annotations

import heapq
import logging
import re
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from math import inf
from threading import get_ident

from ..threads.counted import Counted
from ..threads.kept import KeptThread
from .connection import FRAMES_A_TURN, FRAMES_TOGETHER, Connection
from .exchange import Exchange
from .limits.clients import Limits, Terms
from .limits.memory import Held
from .limits.pace import LOOK_S, SLOW_LOOKS
from .limits.quota import Quota
from .limits.untaken import SOON_S
from .loop import Timer
from .together import Together

Serve = Callable[[Exchange], None]  # answers at once or later; raises nothing
PASSES_A_TURN = 3  # through the calls: appends are done, then sent, and then what waited for them
CHUNK = 32  # connections whose requests are served together, and then those of others
CROWD = 64  # connections; if more have something to say, they have it in several turns
TURN_S = 0.05  # of a crowd
NEWCOMERS_S = 0.02  # of a crowd that has not logged in
FREED_SHARE = 16  # of the memory; if nothing frees it, requests that wait or are slow make room for so much
STOP_S = 10.0  # how long a stop waits for answers that are owed

_NUMBERS = re.compile(r"\d+")

logger = logging.getLogger(__name__)


class Processor:
    """Serves some of the connections in one thread, with a selector: their :class:`Loop`.

    Methods are for that thread unless noted otherwise.
    """

    def __init__(self, name: str, serve: Serve, may_overlap: Callable[[memoryview], bool], limits: Limits) -> None:
        self._serve, self.may_overlap, self.limits = serve, may_overlap, limits
        self.together: Together[Connection] | None = None  # serves requests of several connections at once
        self.is_stopping = False
        self._counted = Counted(logger)
        self._stop_by_s = float("inf")
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._selector.register(self._wake_in, selectors.EVENT_READ)
        self._is_woken = False
        self._calls: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = count()
        self._events: dict[Connection, int] = {}  # what each connection is watched for
        self._look_at_s = 0.0
        self._thread = KeptThread(name, self._run)

    def start(self) -> None:
        """Starts the thread. For any thread."""
        self._thread.start()

    # From other threads

    def call(self, task: Callable[[], None]) -> None:
        """Calls ``task`` in the thread of the processor: at once if this is that thread. For any thread."""
        if get_ident() == self._thread.ident:
            task()
        else:
            self.call_soon(task)

    def call_soon(self, task: Callable[[], None]) -> None:
        """Calls ``task`` in the thread of the processor, after what it is doing. For any thread."""
        self._calls.append(task)
        if not self._is_woken and get_ident() != self._thread.ident:
            self._is_woken = True
            with suppress(OSError):  # full: it is awake; closed: it has ended
                self._wake_out.send(b"\0")

    def adopt(self, client: socket.socket, host: str, terms: Terms) -> None:
        """Takes over a new connection. For any thread."""
        self.call_soon(lambda: self._adopt(client, host, terms))

    def close_later(self, client: socket.socket, host: str, delay_s: float) -> None:
        """Closes a new connection, of which nothing is read, after a time. For any thread."""

        def close() -> None:
            client.close()
            self.limits.admission.left(host)

        def wait() -> None:
            self.call_later(delay_s, close)

        self.call_soon(wait)

    def stop(self) -> None:
        """Stops reading requests, sends the pending answers, and ends the thread. For any thread."""
        self.call_soon(self._begin_stop)
        self._thread.join()

    # In its thread

    def now_s(self) -> float:
        """Returns the monotonic clock, in seconds."""
        return time.monotonic()

    def call_later(self, delay_s: float, task: Callable[[], None]) -> Timer:
        """Calls ``task`` after ``delay_s`` seconds, or earlier if the processor stops, unless it is cancelled."""
        timer = Timer(task)
        heapq.heappush(self._timers, (self.now_s() + delay_s, next(self._numbers), timer))
        return timer

    def watch(self, connection: Connection) -> None:
        """Registers a connection in the selector for reading or writing, as it needs now."""
        wanted = (selectors.EVENT_READ if connection.may_read else 0) | (
            selectors.EVENT_WRITE if connection.wants_to_write else 0
        )
        watched = self._events.get(connection)
        if connection.is_closed or watched == wanted or watched is None:
            return
        if not watched:
            self._selector.register(connection.socket, wanted, connection)
        elif wanted:
            self._selector.modify(connection.socket, wanted, connection)
        else:
            self._selector.unregister(connection.socket)
        self._events[connection] = wanted

    def begin(
        self, connection: Connection, frame: memoryview, places: Quota, *, overlaps: bool, held: Held | None
    ) -> None:
        """Has a request served, and adds it to those in progress of its connection; as :meth:`Loop.begin`."""
        exchange = Exchange(connection, frame, places, overlaps=overlaps, held=held)
        connection.add(exchange)
        self.watch(connection)
        self._serve(exchange)

    def forget(self, connection: Connection) -> None:
        """Removes a connection that is being closed from the selector."""
        if self._events.pop(connection, 0):
            self._selector.unregister(connection.socket)

    def log_hostile(self, connection: Connection, error: Exception) -> None:
        """Logs why a client is disconnected."""
        kind = connection.client_host, type(error), _NUMBERS.sub("", str(error))
        self._counted.warn(kind, f"{connection.client_host}: {error}; the connection is closed")

    def _adopt(self, client: socket.socket, host: str, terms: Terms) -> None:
        if self.is_stopping:
            client.close()
            self.limits.admission.left(host)
            return
        try:
            connection = Connection(self, client, host, terms)
        except OSError:  # the client has left
            client.close()
            self.limits.admission.left(host)
            return
        self._events[connection] = 0
        if connection.is_newcomer:
            self.limits.admission.came(connection)
        self.watch(connection)

    def _begin_stop(self) -> None:
        self.is_stopping = True
        self._stop_by_s = self.now_s() + STOP_S
        for connection in list(self._events):
            self.watch(connection)

    def _run(self) -> None:
        while not self._is_done():
            self._serve_ready(self._selector.select(self._timeout_s()))
            for _ in range(PASSES_A_TURN):
                for _ in range(len(self._calls)):  # not those that come in between, without end from many threads
                    self._guarded(self._calls.popleft())
            self._run_timers()
        self._end()

    def _serve_ready(self, ready: Sequence[tuple[selectors.SelectorKey, int]]) -> None:
        """Reads and writes what can be, for connections that have logged in first.

        Of a crowd, those are first that have waited longest; of those without a login, the newest, as the others may
        have given up.
        """
        known, newcomers = list[tuple[Connection, int]](), list[tuple[Connection, int]]()
        for key, events in ready:
            if key.data is None:
                self._on_wake()
            else:
                (newcomers if key.data.is_newcomer else known).append((key.data, events))
        if len(ready) > CROWD:
            known.sort(key=lambda each: each[0].last_active_s)
            newcomers.sort(key=lambda each: -each[0].came_s)
        self._serve_in_turn(known, TURN_S)
        self._serve_in_turn(newcomers, NEWCOMERS_S)

    def _serve_in_turn(self, ready: Sequence[tuple[Connection, int]], crowd_s: float) -> None:
        """Serves connections in this order; of a crowd, as many as a short time allows, and the others later.

        In between, answers of other threads are sent.
        """
        frames_max, together_max, until_s = FRAMES_A_TURN, FRAMES_TOGETHER, inf
        if len(ready) > CROWD:
            frames_max, together_max, until_s = 1, FRAMES_A_TURN, self.now_s() + crowd_s
        for first in range(0, len(ready), CHUNK):
            chunk = ready[first : first + CHUNK]
            for connection, events in self._serve_together(chunk, together_max):
                self._guarded(partial(_on_event, connection, events, frames_max))
                if until_s < inf and self.now_s() > until_s:
                    return
            if until_s < inf and self.now_s() > until_s:
                return

    def _serve_together(
        self, ready: Sequence[tuple[Connection, int]], frames_max: int
    ) -> Sequence[tuple[Connection, int]]:
        """Serves at once what several connections have sent and may be served so; returns the others."""
        if self.together is None:
            return ready
        taken, others = list[Connection](), list[tuple[Connection, int]]()
        for connection, events in ready:
            if events == selectors.EVENT_READ and connection.is_for_together:
                taken.append(connection)
            else:
                others.append((connection, events))
        if taken:
            self.together.serve(taken, frames_max)
        return others

    def _is_done(self) -> bool:
        if not self.is_stopping:
            return False
        owing = any(connection.owes for connection in self._events)
        return not owing or self.now_s() > self._stop_by_s

    def _timeout_s(self) -> float:
        if self._calls:
            return 0
        while self._timers and self._timers[0][2].task is None:  # this thread need not wake for it
            heapq.heappop(self._timers)
        due_s = self._timers[0][0] - self.now_s() if self._timers else LOOK_S
        return max(0.0, min(due_s, LOOK_S))

    def _on_wake(self) -> None:
        with suppress(BlockingIOError):
            self._wake_in.recv(64)
        # After the byte was taken, or the next one could be taken with it; before the calls are looked at, since a call
        # that comes until here wakes nobody.
        self._is_woken = False

    def _guarded(self, task: Callable[[], None]) -> None:
        """Calls ``task``, and logs its errors: a bug must not end the thread that serves many connections."""
        try:
            task()
        except Exception:
            logger.exception("a task of a network thread failed")

    def _run_timers(self) -> None:
        now_s = self.now_s()
        while self._timers and (self.is_stopping or self._timers[0][0] <= now_s):
            task = heapq.heappop(self._timers)[2].task
            if task is not None:
                self._guarded(task)
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + LOOK_S
            self._look(now_s)

    def _look(self, now_s: float) -> None:
        """Closes connections that were idle for too long, do not log in, take no answer, or send too slowly."""
        limits = self.limits
        idle_before_s = -inf if limits.idle_s is None else now_s - limits.idle_s
        came_before_s = -inf if limits.login_s is None else now_s - limits.login_s
        for each in list(self._events):
            each.look(limits.least_rate)
            is_idle = each.last_active_s < idle_before_s
            if is_idle and not each.owes:
                each.close()
            elif is_idle and each.is_unread:
                each.fail(TimeoutError("the client takes no byte of its answer (connections.max.idle.ms)"))
            elif each.is_newcomer and each.came_s < came_before_s:
                each.fail(TimeoutError("the client has not logged in for too long"))
            elif each.pace.behind > limits.least_rate.behind_max:
                each.fail(TimeoutError("a request arrives too slowly"))
            elif each.holds_up_others and each.pace.behind > limits.least_rate.pressed_behind_max:
                each.fail(TimeoutError("a large request stopped arriving, and others wait for its memory"))
        self._make_room()
        self._end_untaken(now_s)

    def _make_room(self) -> None:
        """If requests still wait for memory, closes connections that hold it, until a share is free.

        First those whose request has waited for earlier ones of its connection for long, the longest first; then the
        slowest of those that have been arriving for long.
        """
        found = [each for each in self._events if each.memory.is_waited_for]
        behind = [each for each in found if each.looks_behind >= SLOW_LOOKS]
        slow = [each for each in found if each.held and not each.looks_behind and each.pace.speed is not None]
        behind.sort(key=lambda each: -each.looks_behind)
        slow.sort(key=lambda each: each.pace.speed or 0.0)
        why = {**dict.fromkeys(behind, "waits for earlier ones of its client"), **dict.fromkeys(slow, "arrives slowly")}
        freed = 0
        for each, reason in why.items():
            if freed > each.memory.limit // FREED_SHARE:
                return
            freed += each.held_behind or each.held
            each.fail(TimeoutError(f"a large request {reason}, and others wait for its memory"))

    def _end_untaken(self, now_s: float) -> None:
        """If answers hold too much memory, closes the connections whose clients would need longest for theirs."""
        if not self.limits.untaken.is_exceeded:
            return
        needed_s = {each: each.untaken.needed_s(now_s) for each in self._events}
        for each in sorted((each for each in needed_s if needed_s[each] > SOON_S), key=lambda each: -needed_s[each]):
            if not self.limits.untaken.is_exceeded:
                return
            each.fail(TimeoutError("the client takes its answer too slowly (commitlog.queued.max.answer.bytes)"))

    def _end(self) -> None:
        for connection in list(self._events):
            connection.close()
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()


def _on_event(connection: Connection, events: int, frames_max: int) -> None:
    if events & selectors.EVENT_WRITE:
        connection.on_writable()
    if events & selectors.EVENT_READ and connection.may_read:
        connection.on_readable(frames_max)
