"""Content: the bytes of a message set, in memory or in a file, with methods to write them elsewhere."""

from __future__ import annotations

import mmap
import socket
from typing import Protocol


class Writable(Protocol):
    """Anything with ``write`` for bytes, such as a file opened for writing."""

    def write(self, data: memoryview, /) -> int | None: ...


class Content:
    """Bytes in memory or in a file, without copying; a file's bytes are read when they are needed."""

    def __init__(self, data: bytes | bytearray | memoryview | mmap.mmap, path: str | None = None) -> None:
        self.data, self.path = memoryview(data), path

    @classmethod
    def of_file(cls, path: str, start: int = 0, end: int | None = None) -> Content:
        """The bytes [start, end) of a file, which may still grow; ``end`` None: its present size. Raises OSError."""
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            stop = size if end is None else min(end, size)
            if stop <= start:
                return cls(b"", path)
            mapped = mmap.mmap(file.fileno(), stop, prot=mmap.PROT_READ)
        return cls(memoryview(mapped)[start:stop], path)

    def __len__(self) -> int:
        return len(self.data)

    def part(self, start: int, stop: int) -> Content:
        """The part [start, stop) of these bytes."""
        return Content(self.data[start:stop], self.path)

    def write_to(self, target: Writable | socket.socket) -> int:
        """Writes all bytes to a file or a socket, and returns their number."""
        left = self.data
        if isinstance(target, socket.socket):
            target.sendall(left)
            return len(left)
        while left:
            written = target.write(left)
            left = left[len(left) if written is None else written :]
        return len(self.data)
