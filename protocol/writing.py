"""AnswerWriter: writes the primitive types of Kafka's protocol to an answer."""

from __future__ import annotations

import struct
from uuid import UUID

from ..storage import unsigned_varint

_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")


class AnswerWriter:
    """Appends values to :attr:`data`."""

    def __init__(self, *, is_flexible: bool) -> None:
        self.data = bytearray()
        self._is_flexible = is_flexible

    def pack(self, kind: struct.Struct, *values: int) -> None:
        """Adds numbers."""
        self.data += kind.pack(*values)

    def uuid(self, value: UUID) -> None:
        """Adds an id of 16 bytes."""
        self.data += value.bytes

    def string(self, text: str | None) -> None:
        """Adds a text, or null."""
        encoded = None if text is None else text.encode()
        length = -1 if encoded is None else len(encoded)
        self.data += unsigned_varint(length + 1) if self._is_flexible else _INT16.pack(length)
        self.data += encoded or b""

    def length(self, count: int) -> None:
        """Adds the length of an array or of bytes, -1 for null."""
        self.data += unsigned_varint(count + 1) if self._is_flexible else _INT32.pack(count)

    def tags(self) -> None:
        """Adds an empty list of tagged fields, in flexible versions."""
        if self._is_flexible:
            self.data += b"\0"
