"""Connection: one client's socket; reads frames, and sends answers in the order of the frames.

As on a broker, a request is served after the answers to earlier ones were sent. Produce requests are the exception:
several of one connection may be in progress together, so they can share a sync. While a request waits, the socket is
not read, so a client that does not read its answers takes the memory of only one of them.
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from .exchange import Exchange
from .file_slice import FileSlice, Part, release
from .frames import FrameError, FrameReader
from .tls_socket import TlsSocket

if TYPE_CHECKING:
    from .processor import Processor, Terms

FRAMES_A_TURN = 16  # then the other connections of the thread have theirs
BUFFERS_A_CALL = 64  # of one sendmsg
MORE: int = getattr(socket, "MSG_MORE", 0)  # the head of an answer goes into one packet with what follows from a file
OVERLAPPING_MAX = 64  # requests of one connection in progress together


class Connection:
    """One client. Belongs to its processor's thread."""

    def __init__(self, processor: Processor, client: socket.socket, host: str, terms: Terms) -> None:
        self.processor, self.terms = processor, terms
        self._tls = None if terms.tls is None else TlsSocket(client, terms.tls)
        self.socket = self._tls or client
        self.client_host = host
        self.session: Any = None  # what the server keeps with the connection
        self.quota, self.memory = processor.limits.quota, processor.limits.memory
        self.last_active_s = processor.now_s()
        self.is_closed = False
        self._reader = FrameReader(processor.limits.request_bytes_max, admit=self._admit, gives_all=self._tls is None)
        if terms.login_bytes_max is not None:
            self._reader.raise_limit(terms.login_bytes_max, "sasl.server.max.receive.size")
        self._exchanges: deque[Exchange] = deque()  # not sent yet, in order
        self._outbound: deque[Part] = deque()  # what the socket has not taken yet
        self._waiting: tuple[memoryview, bool] | None = None  # a frame that may not be served yet, and if it overlaps
        self._held = 0  # memory that the frame which waits has taken
        self._pauses, self._received = 0, 0  # looks without new bytes, and how many bytes there were at the last look
        self._reads_on = False  # a call that reads what TLS has decrypted is on its way
        self._is_flushed_soon = False
        self._ends = False  # closes once everything is sent

    @property
    def is_busy(self) -> bool:
        """Whether requests are in progress or answers not yet sent."""
        return bool(self._exchanges or self._outbound)

    @property
    def owes(self) -> bool:
        """Whether the client waits for an answer to a request that was read."""
        return self.is_busy or self._waiting is not None

    def trust(self) -> None:
        """Raises the request limit after the client has logged in. Only between two frames."""
        self._reader.raise_limit(self.processor.limits.request_bytes_max)

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The certificate that the client showed; None: it showed none."""
        return None if self._tls is None else self._tls.certificate

    @property
    def local_host(self) -> str:
        """The server's address that the client connected to."""
        return str(self.socket.getsockname()[0])

    # In

    def on_readable(self) -> None:
        """Serves what has arrived. Closes the connection if the client closed it or sent an invalid frame."""
        self.last_active_s = self.processor.now_s()
        try:
            for _ in range(FRAMES_A_TURN):
                if not self.may_read:
                    return
                frame = self._reader.read(self.socket)
                if frame is None:
                    if self._reader.waits_for_room or self._tls is not None:  # a handshake may wait to write
                        self.processor.watch(self)
                    return
                self._waiting = frame, self.processor.may_overlap(frame)
                self._held, self._reader.held = self._reader.held, 0
                self._serve_waiting()
                if self._reader.is_drained:
                    return
        except ssl.SSLError as error:
            self.processor.log_hostile(self, OSError(f"TLS: {error.reason or error}"))
            self.close()
        except (EOFError, OSError):
            self.close()
        except FrameError as error:
            self.processor.log_hostile(self, error)
            self.close()

    @property
    def may_read(self) -> bool:
        """Whether the socket may be read: no request that was read is waiting to be served."""
        waits = self._waiting is not None or self._reader.waits_for_room
        return not (self.is_closed or self._ends or waits or self.processor.is_stopping)

    def count_pause(self) -> int:
        """Returns how many calls of this in a row have found no new bytes, amid a larger request that holds memory."""
        before, self._received = self._received, self._reader.received
        is_paused = self._reader.held and before == self._received
        self._pauses = self._pauses + 1 if is_paused else 0
        return self._pauses

    def _admit(self, size: int) -> bool:
        return self.memory.take(self._when_room, size)

    def _when_room(self) -> None:
        self.processor.call_soon(self._on_room)

    def _on_room(self) -> None:
        if self._reader.waits_for_room and not self.is_closed:
            self._reader.go_on()
            self.processor.watch(self)
            self._read_on()

    def _read_on(self) -> None:
        """Schedules a read of data that TLS has already decrypted, after the turn of the thread's other connections."""
        if self._tls is not None and self.may_read and not self._reads_on and self._tls.has_read_ahead:
            self._reads_on = True
            self.processor.call_soon(self._go_on_reading)

    def _go_on_reading(self) -> None:
        self._reads_on = False
        if self.may_read:
            self.on_readable()

    def _serve_waiting(self) -> None:
        """Serves the waiting frame, if it may be served now; otherwise this is called again later."""
        if self._waiting is None or self.is_closed:
            return
        frame, overlaps = self._waiting
        if self.is_busy and not (overlaps and self._may_join()):
            self.processor.watch(self)
        elif self.quota.take(self._when_free):
            self._waiting = None
            exchange = Exchange(self, frame, overlaps=overlaps, held=self._held)
            self._held = 0
            self._exchanges.append(exchange)
            self.processor.watch(self)
            self.processor.serve(exchange)
            self._read_on()
        else:
            self.processor.watch(self)

    def _may_join(self) -> bool:
        return (
            not self._outbound
            and len(self._exchanges) < OVERLAPPING_MAX
            and all(each.overlaps for each in self._exchanges)
        )

    def _when_free(self) -> None:
        self.processor.call_soon(self._serve_waiting)

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
        while self._exchanges and self._exchanges[0].parts is not None:
            exchange = self._exchanges.popleft()
            self._outbound.extend(filter(len, exchange.parts or ()))
            self._ends = self._ends or exchange.is_last
        self.on_writable()

    def on_writable(self) -> None:
        """Sends as much as the socket accepts."""
        if self._tls is not None and self._tls.wants_to_write:  # its handshake does
            self.on_readable()
        try:
            while self._outbound:
                self._send_some()
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        if self._ends and not self._outbound:
            self.close()
            return
        self.processor.watch(self)
        self._serve_waiting()

    @property
    def wants_to_write(self) -> bool:
        """Whether bytes are waiting to be sent."""
        return bool(self._outbound) or (self._tls is not None and self._tls.wants_to_write)

    def _send_some(self) -> None:
        first = self._outbound[0]
        self.last_active_s = self.processor.now_s()
        if isinstance(first, FileSlice):
            self._drop_sent(first.send(self.socket))
            return
        buffers, flags = [], 0
        for part in islice(self._outbound, BUFFERS_A_CALL):
            if isinstance(part, FileSlice):
                flags = MORE
                break
            buffers.append(part)
        self._drop_sent(self.socket.sendmsg(buffers, (), flags))

    def _drop_sent(self, sent: int) -> None:
        while sent:
            part = self._outbound.popleft()
            if sent < len(part):
                self._outbound.appendleft(part.after(sent) if isinstance(part, FileSlice) else memoryview(part)[sent:])
                return
            sent -= len(part)
            release(part)

    # End

    def close(self) -> None:
        """Closes the socket. Answers that come later are dropped."""
        if self.is_closed:
            return
        self.is_closed = True
        self.processor.forget(self)
        with suppress(OSError):
            self.socket.close()
        self.memory.forget(self._when_room)
        self.memory.give(self._held + self._reader.held)
        self._held = 0
        self._reader = FrameReader(0)  # the last one has part of a request, perhaps, and refers to this connection
        for exchange in self._exchanges:
            exchange.drop()  # what is in progress goes on, and is answered to nobody
        for part in self._outbound:
            release(part)
        self._exchanges.clear()
        self._outbound.clear()
        self._waiting = None
