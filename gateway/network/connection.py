"""Connection: one client's socket; reads frames, and sends answers in the order of the frames.

As on a broker, a request is served after the answers to earlier ones were sent. Produce requests are the exception:
several of one connection may be in progress together, so they can share a sync. While a request waits, the socket is
not read, so a client that does not read its answers takes the memory of only one of them; ``limits.untaken`` counts it.
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from math import ceil
from typing import Any

from .file_slice import Outbound
from .frames import FREE_BYTES, FrameError, FrameReader, unread
from .limits.clients import Terms
from .limits.memory import Held, Room
from .limits.pace import LeastRate, Pace
from .limits.quota import Quota
from .limits.untaken import Untaken
from .loop import Loop
from .tls_socket import TlsSocket, tls_text
from .together import InProgress, Trial

FRAMES_A_TURN = 16  # at most; then the other connections of the thread have theirs
FRAMES_TOGETHER = 64  # the same, of those that are served together
NEWCOMERS_FREE_BYTES = 4 << 10  # of a request before a login, which are not counted
OVERLAPPING_MAX = 64  # requests of one connection in progress together


class Connection:
    """One client. Belongs to its processor's thread."""

    def __init__(self, processor: Loop[Connection], client: socket.socket, host: str, terms: Terms) -> None:
        self.processor, self.terms = processor, terms
        self._tls = None if terms.tls is None else TlsSocket(client, terms.tls)
        self.socket = self._tls or client
        self.client_host = host
        self.session: Any = None  # what the server keeps with the connection
        limits, needs_login = processor.limits, terms.login_bytes_max is not None
        self.memory = limits.login_memory if needs_login else limits.memory
        self.is_newcomer = needs_login or terms.tls is not None  # it has not logged in, or not ended its handshake
        self.came_s = self.last_active_s = processor.now_s()
        self.is_closed = False
        self._reader = FrameReader(limits.request_bytes_max, room=Room(self), gives_all=self._tls is None)
        if terms.login_bytes_max is not None:
            self._reader.change_limit(terms.login_bytes_max, "sasl.server.max.receive.size", NEWCOMERS_FREE_BYTES)
        self.pace = Pace()
        self._exchanges: deque[InProgress] = deque()  # not sent yet, in order
        self._outbound, self.untaken = Outbound(self.socket), Untaken(limits.untaken)
        self._waiting: tuple[memoryview, bool] | None = None  # a frame that may not be served yet, and if it overlaps
        self._held: Held | None = None  # the bytes of the frame which waits, if the memory counts them
        self.looks_behind = 0  # in which a large request has waited for the answers to earlier ones
        self._reads_on = False  # a call that reads what TLS has decrypted, or was put back, is on its way
        self.trial = Trial()
        self._sends_large = False  # the last request was one whose bytes are counted
        self._is_flushed_soon = False
        self._ends = False  # closes once everything is sent
        self._muted_until_s = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether requests are in progress or answers not yet sent."""
        return bool(self._exchanges or self._outbound)

    @property
    def owes(self) -> bool:
        """Whether the client waits for an answer to a request that was read."""
        return self.is_busy or self._waiting is not None

    @property
    def is_unread(self) -> bool:
        """Whether the client has yet to take an answer that is ready."""
        return bool(self._outbound)

    def trust(self) -> None:
        """Gives a client that has logged in the limits of those that have; what has arrived behind its login, too."""
        limits, before = self.processor.limits, self.memory
        self._reader.change_limit(limits.request_bytes_max, "socket.request.max.bytes")
        self.memory, counted = limits.memory, self._reader.held
        self.memory.take(counted)
        before.give(counted)
        before.leave(self._when_room)
        if self._held is not None:
            self._held = self._held.moved_to(self.memory)
        self._be_known()
        self._on_room()

    def _be_known(self) -> None:
        self.is_newcomer = False
        self.processor.limits.admission.is_known(self)

    def send_away(self, why: str) -> None:
        """Closes the connection and logs why. For any thread."""
        self.processor.call_soon(lambda: self.fail(PermissionError(why)))

    def fail(self, error: Exception) -> None:
        """Closes the connection and logs why, unless it is closed."""
        if not self.is_closed:
            self.processor.log_hostile(self, error)
            self.close()

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The certificate that the client showed; None: it showed none."""
        return None if self._tls is None else self._tls.certificate

    @property
    def local_host(self) -> str:
        """The server's address that the client connected to."""
        return str(self.socket.getsockname()[0])

    # In

    def on_readable(self, frames_max: int = FRAMES_A_TURN) -> None:
        """Serves what has arrived. Closes the connection if the client closed it or sent an invalid frame."""
        self.last_active_s, self.looks_behind = self.processor.now_s(), 0
        try:
            for _ in range(frames_max):
                if not self.may_read or not self._read_frame():
                    return
        except ssl.SSLError as error:
            self._fail_in_tls(error)
        except FrameError as error:
            self.fail(error)
        except (EOFError, OSError):
            self.close()

    def _fail_in_tls(self, error: ssl.SSLError) -> None:
        self.fail(OSError(f"TLS: {tls_text(error)}"))

    def _read_frame(self) -> bool:
        """Reads, and serves a whole frame; returns whether there may be more."""
        frame = self._reader.read(self.socket)
        if self.is_newcomer and self.terms.login_bytes_max is None and self._reader.received:
            self._be_known()  # the handshake is complete
        if frame is None:
            if self._reader.waits_for_room or self._tls is not None:  # a handshake may wait to write
                self.processor.watch(self)
                self._read_on()
            return False
        overlaps = self.processor.may_overlap(frame)
        self._waiting = frame, overlaps
        self.trial.is_begun |= overlaps and self._is_eligible
        self.trial.served_apart()
        self._sends_large = len(frame) > FREE_BYTES
        if self._reader.held:
            self._held, self._reader.held = self.memory.hold(self._when_room, self._reader.held), 0
        self._serve_waiting()
        return not self._reader.is_drained and not self._is_tried

    @property
    def may_read(self) -> bool:
        """Whether the socket may be read: no request that was read is waiting to be served."""
        waits = self._waiting is not None or self._reader.waits_for_room
        return not (self.is_closed or self._ends or waits or self.is_muted or self.processor.is_stopping)

    # Quotas

    @property
    def is_muted(self) -> bool:
        """Whether nothing is read from the client, since it has exceeded its quota."""
        return self._muted_until_s > 0.0

    def mute(self, delay_s: float) -> None:
        """Serves no more requests of the client for a time; those in progress are answered."""
        until_s = self.processor.now_s() + delay_s
        if not self.is_closed and until_s > self._muted_until_s:
            self._muted_until_s = until_s
            self._reader.go_on()  # it asks for room again when it reads on; until then, others have the turn
            self.memory.leave(self._when_room)
            self.processor.watch(self)
            self.processor.call_later(delay_s, partial(self._unmute, until_s))

    def _unmute(self, until_s: float) -> None:
        if until_s == self._muted_until_s and not self.is_closed:  # no later one came in between
            self._muted_until_s = 0.0
            self.processor.watch(self)
            self._serve_waiting()
            self._read_on()

    # Together with other connections

    @property
    def _is_eligible(self) -> bool:
        """Whether its requests may be served together with others at all: those that no memory counts."""
        return not self.is_newcomer and self.processor.limits.request_bytes_max >= FREE_BYTES

    @property
    def is_for_together(self) -> bool:
        """Whether what has arrived may be taken now, to be served together with that of others."""
        is_free = not self._outbound and self.may_read and self._reader.may_take_back
        return is_free and self._is_tried and self._may_join()

    @property
    def _is_tried(self) -> bool:
        """Whether the next request is to be served together with others; after a large one, it is read first."""
        return not self._sends_large and self._may_be_tried

    @property
    def _may_be_tried(self) -> bool:
        together = self.processor.together
        return self.trial.is_on and together is not None and together.accepts(self)

    @property
    def overlapping_room(self) -> int:
        """How many more requests that overlap may be in progress."""
        return OVERLAPPING_MAX - self.requests

    @property
    def requests(self) -> int:
        """How many requests are in progress."""
        return sum(each.requests for each in self._exchanges)

    def fits(self, room: int) -> bool:
        """Whether what was received and not served has at most ``room`` bytes; if not, it is served alone, and soon."""
        return self._reader.begun <= room

    def take(self, into: memoryview) -> tuple[int, int]:
        """Takes what has arrived and is not served yet; returns how many bytes that are, and how many came just now.

        Closes the connection if the client has.
        """
        self.last_active_s = self.processor.now_s()
        is_ahead = self._reader.ahead > 0
        before = self._reader.take_back()
        into[: len(before)] = before
        if is_ahead:  # perhaps whole requests, for which nothing more need arrive
            return len(before), 0
        count = self._receive(into[len(before) :])
        return len(before) + count, count

    def _receive(self, into: memoryview) -> int:
        """Reads what has arrived, up to the room for it; closes the connection if the client has."""
        try:
            count = self.socket.recv_into(into) if self._tls is None else self._tls.fill(into)
        except BlockingIOError:
            return 0
        except ssl.SSLError as error:
            self._fail_in_tls(error)
            return 0
        except OSError:
            count = 0
        if not count:
            self.close()
        return count

    def put_back(self, rest: bytes, received: int, *, is_whole: bool) -> None:
        """Puts back what was taken and not served. ``received``: how many bytes came with it.

        ``is_whole``: it may have a whole request.
        """
        self._reader.put_back(rest, received)
        if not is_whole:
            self._reader.begin()
        self.processor.watch(self)  # TLS may wait to write
        self._read_on()

    def add(self, exchange: InProgress) -> None:
        """Adds requests in progress, whose answers follow those before them."""
        self._exchanges.append(exchange)

    # The memory of what arrives

    def may_read_on(self, missing: int) -> bool:
        """Whether a larger request may be read on now."""
        return self.memory.may_read(self._when_room, missing, is_next=not self.is_busy)

    @property
    def held(self) -> int:
        """The bytes of a request that is arriving which the memory counts."""
        return self._reader.held

    @property
    def holds_up_others(self) -> bool:
        """Whether others wait for a request that arrives: for the bytes it has taken, or its turn to take some."""
        may_take = not (self._reader.waits_for_room or self._reader.may_take_back)
        return self.memory.is_waited_for and (self.held > 0 or may_take)

    @property
    def held_behind(self) -> int:
        """The bytes that the memory counts of a request, whole or not, which waits for the answers to earlier ones."""
        if not self.is_busy or self.is_muted:
            return 0
        return (self._held.size if self._held else 0) + (self._reader.held if self._reader.waits_for_room else 0)

    def look(self, least: LeastRate) -> None:
        """Updates the pace of the request that is arriving, and for how long it waits."""
        self.looks_behind = self.looks_behind + 1 if self.held_behind else 0
        missing, received = self._reader.missing, self._reader.received
        if not missing or not (self.may_read or self._reader.waits_for_room):
            self.pace.rest(received)
            return
        pending = self._pending() if self._reader.waits_for_room else 0
        self.pace.look(received, ceil(least.bytes_per_look) if pending >= missing else pending, least)

    def _pending(self) -> int:
        """Returns the number of bytes that have arrived and were not read, because there was no room."""
        return unread(self.socket.fileno()) + self._reader.ahead

    def _when_room(self) -> None:
        self.processor.call_soon(self._on_room)

    def _on_room(self) -> None:
        if self._reader.waits_for_room and not self.is_closed:
            self._reader.go_on()
            self.processor.watch(self)
            self._read_on()

    def _read_on(self) -> None:
        """Schedules a read of what TLS has decrypted or was put back, after the turn of other connections."""
        if self._is_ahead and self.may_read and not self._reads_on:
            self._reads_on = True
            self.processor.call_soon(self._go_on_reading)

    @property
    def _is_ahead(self) -> bool:
        """Whether there are bytes that the selector does not report."""
        return self._reader.ahead > 0 or (self._tls is not None and self._tls.has_read_ahead)

    def _go_on_reading(self) -> None:
        self._reads_on = False
        if not self.may_read or not self._is_ahead:
            return
        if self.processor.together is not None and self.is_for_together:
            self.processor.together.serve([self], FRAMES_TOGETHER)
        else:
            self.on_readable()

    def _serve_waiting(self) -> None:
        """Serves the waiting frame, if it may be served now; otherwise this is called again later."""
        if self._waiting is None or self.is_closed or self.is_muted:
            return
        (frame, overlaps), places_of = self._waiting, self.processor.limits.places_of
        if self.is_busy and not (overlaps and self._may_join()):
            self.processor.watch(self)
        elif overlaps and self._sends_large and self._may_be_tried and self._is_served_whole(frame):
            self.processor.watch(self)
            self._read_on()
        elif (places := places_of(frame, self.is_newcomer)).take(partial(self._when_free, places)):
            held, self._held, self._waiting = self._held, None, None
            self.processor.begin(self, frame, places, overlaps=overlaps, held=held)
            self._read_on()
        else:
            self.processor.watch(self)

    def _is_served_whole(self, frame: memoryview) -> bool:
        """Has a large request served without an exchange, if that is possible; then its memory is free."""
        assert self.processor.together is not None
        waiting, held = self._waiting, self._held
        self._waiting, self._held = None, None  # before its answer is sent, after which the next one is served
        is_served = self.processor.together.serve_one(self, frame)
        if not is_served:
            self._waiting, self._held = waiting, held
        elif held is not None:
            held.give()
        return is_served

    def _may_join(self) -> bool:
        return not self._outbound and self.overlapping_room > 0 and all(each.overlaps for each in self._exchanges)

    def _when_free(self, places: Quota) -> None:
        self.processor.call_soon(lambda: self._on_place(places))

    def _on_place(self, places: Quota) -> None:
        self._serve_waiting()
        places.wake()

    # Out

    def flush_soon(self) -> None:
        """Calls :meth:`flush` in the thread of the connection, once for all answers that come until then."""
        if not self._is_flushed_soon:
            self._is_flushed_soon = True
            self.processor.call_soon(self.flush)

    def flush(self) -> None:
        """Sends the answers whose turn it is, as far as the socket accepts them; then serves the waiting frame."""
        self._is_flushed_soon = False  # before the answers are looked at: one that comes later calls this again
        if self.is_closed:
            return
        if not self._outbound:
            self.last_active_s = self.processor.now_s()  # the client has had nothing to take until now
        while self._exchanges and self._exchanges[0].parts is not None:
            exchange = self._exchanges.popleft()
            self._outbound.add(exchange.parts or ())
            self._ends = self._ends or exchange.is_last
        self.on_writable()

    def on_writable(self) -> None:
        """Sends as much as the socket accepts."""
        if self._tls is not None and self._tls.wants_to_write:  # its handshake does
            self.on_readable()
        try:
            if sent := self._outbound.send():
                self.last_active_s = self.processor.now_s()
        except OSError:
            self.close()
            return
        if self._outbound.held or self.untaken.count:
            self.untaken.change(self._outbound.held, sent, self.processor.now_s())
        if self._ends and not self._outbound:
            self.close()
            return
        self.processor.watch(self)
        self._serve_waiting()
        if self._reader.waits_for_room and not self.is_busy:  # it may have a turn now
            self._on_room()

    @property
    def wants_to_write(self) -> bool:
        """Whether bytes are waiting to be sent."""
        return bool(self._outbound) or (self._tls is not None and self._tls.wants_to_write)

    # End

    def close(self) -> None:
        """Closes the socket. Answers that come later are dropped."""
        if self.is_closed:
            return
        self.is_closed = True
        self.processor.forget(self)
        with suppress(OSError):
            self.socket.close()
        self.processor.limits.admission.is_known(self)
        self.processor.limits.admission.left(self.client_host)
        self.memory.give(self._reader.held)
        self.memory.leave(self._when_room)
        if self._held is not None:
            self._held.give()
        self._reader = FrameReader(0)  # the last one has part of a request, perhaps, and refers to this connection
        for exchange in self._exchanges:
            exchange.drop()  # what is in progress goes on, and is answered to nobody
        self._outbound.drop()
        self.untaken.change(0, 0, self.processor.now_s())
        self._exchanges.clear()
        self._waiting = None
