"""FileSlice: bytes of a file, which are sent without a copy through this process (sendfile) unless they are few.

Outbound: what a connection has not sent yet.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeGuard

from .tls_socket import CHUNK_BYTES, TlsSocket

FEW_BYTES = 16 << 10  # are read, and sent with the bytes around them: one call and one packet in place of three
BUFFERS_A_CALL = 64  # of one sendmsg
READ_A_CALL = 64 << 10  # bytes for one sendmsg, after which no more are read for it
MORE: int = getattr(socket, "MSG_MORE", 0)  # the head of an answer goes into one packet with what follows from a file


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class FileSlice:
    """``length`` bytes of an open file from ``position`` on. ``release`` is called after they were sent or dropped."""

    descriptor: int
    position: int
    length: int
    release: Callable[[], None] = _nothing

    def __len__(self) -> int:
        return self.length

    def read(self, most: int) -> bytes:
        """Returns the first bytes, up to ``most``. Raises OSError if the file became shorter."""
        wanted = min(self.length, most)
        data = os.pread(self.descriptor, wanted, self.position)
        if len(data) < wanted:
            raise _became_shorter()
        return data

    def send(self, connection: socket.socket | TlsSocket) -> int:
        """Sends what the socket accepts now; returns the number of bytes. Raises OSError if the file became shorter."""
        if isinstance(connection, TlsSocket):
            return connection.sendmsg([self.read(CHUNK_BYTES)])
        sent = os.sendfile(connection.fileno(), self.descriptor, self.position, self.length)
        if not sent:
            raise _became_shorter()
        return sent

    def after(self, sent: int) -> FileSlice:
        """Returns the slice without its first ``sent`` bytes."""
        return replace(self, position=self.position + sent, length=self.length - sent)


@dataclass(frozen=True)
class HeldBytes(FileSlice):
    """Bytes in memory that are counted until they were sent or dropped; in the place of a file, which is not there."""

    data: memoryview = field(default_factory=lambda: memoryview(b""))

    def send(self, connection: socket.socket | TlsSocket) -> int:
        return connection.sendmsg([self.data[self.position : self.position + self.length]])


def _became_shorter() -> OSError:
    return OSError("a segment became shorter while it was sent")


Bytes = bytes | bytearray | memoryview
Part = Bytes | FileSlice  # of an answer


def release(part: Part) -> None:
    """Releases a part that was sent, or will not be sent."""
    if isinstance(part, FileSlice):
        part.release()


class Outbound:
    """The parts that a socket has not taken yet, in order. Each is released once."""

    def __init__(self, connection: socket.socket | TlsSocket) -> None:
        """``connection`` does not block."""
        self._connection = connection
        self._parts: deque[Part] = deque()
        self.held = 0  # bytes of parts in memory, which keep all of theirs until the last one was sent
        self._begun = 0  # bytes of the first part that were sent

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, parts: Iterable[Part]) -> None:
        """Adds parts behind the others."""
        for part in filter(len, parts):
            self._parts.append(part)
            self.held += _bytes_held(part)

    def send(self) -> int:
        """Sends as much as the socket accepts now; returns the number of bytes.

        Raises OSError if the connection has failed, or a file became shorter.
        """
        total = 0
        try:
            while self._parts:
                sent, offered = self._send_some()
                total += sent
                self._drop_sent(sent)
                if sent < offered and not isinstance(self._connection, TlsSocket):  # which takes a part at a time
                    break
        except BlockingIOError:
            pass
        return total

    def drop(self) -> None:
        """Releases all parts, as they will not be sent."""
        for each in self._parts:
            release(each)
        self._parts.clear()
        self.held = self._begun = 0

    def _send_some(self) -> tuple[int, int]:
        """Returns how many bytes were sent, and how many were offered to the socket."""
        first = self._parts[0]
        if isinstance(first, FileSlice) and not _is_short(first):
            return first.send(self._connection), len(first)
        buffers, flags, size = list[Bytes](), 0, 0
        read_max = CHUNK_BYTES if isinstance(self._connection, TlsSocket) else READ_A_CALL
        for part in islice(self._parts, BUFFERS_A_CALL):
            if not isinstance(part, FileSlice):
                buffers.append(part)
            elif _is_short(part) and size < read_max:
                buffers.append(part.read(FEW_BYTES))  # kept by nobody: a client that reads nothing costs no memory
            else:
                flags = MORE
                break
            size += len(part)
        return self._connection.sendmsg(buffers, (), flags), size

    def _drop_sent(self, sent: int) -> None:
        while sent:
            part = self._parts.popleft()
            if sent < len(part):
                self._begun += sent
                self._parts.appendleft(part.after(sent) if isinstance(part, FileSlice) else memoryview(part)[sent:])
                return
            sent -= len(part)
            if _bytes_held(part):
                self.held -= self._begun + len(part)
            self._begun = 0
            release(part)


def _bytes_held(part: Part) -> int:
    """Returns how many bytes a part has in memory."""
    return 0 if isinstance(part, FileSlice) and not isinstance(part, HeldBytes) else len(part)


def _is_short(part: Part) -> TypeGuard[FileSlice]:
    """Whether a part is better read than sent from its file; held bytes are counted until they were sent."""
    return isinstance(part, FileSlice) and part.length <= FEW_BYTES and not isinstance(part, HeldBytes)
