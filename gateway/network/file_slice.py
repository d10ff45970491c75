"""FileSlice: bytes of a file that are sent without a copy through this process (sendfile), except over TLS."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from .tls_socket import CHUNK_BYTES, TlsSocket


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

    def send(self, connection: socket.socket | TlsSocket) -> int:
        """Sends what the socket accepts now; returns the number of bytes. Raises OSError if the file became shorter."""
        if isinstance(connection, TlsSocket):
            data = os.pread(self.descriptor, min(self.length, CHUNK_BYTES), self.position)
            sent = connection.sendmsg([data]) if data else 0
        else:
            sent = os.sendfile(connection.fileno(), self.descriptor, self.position, self.length)
        if not sent:
            raise OSError("a segment became shorter while it was sent")
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


Part = bytes | bytearray | memoryview | FileSlice  # of an answer


def release(part: Part) -> None:
    """Releases a part that was sent, or will not be sent."""
    if isinstance(part, FileSlice):
        part.release()
