"""Encoders: turn a program's objects into messages (``serializer.class``, ``key.serializer.class``)."""

from __future__ import annotations

from typing import Any, Protocol

from ..errors import InvalidMessageError
from .messages import Message, Record


class Encoder(Protocol):
    """Turns a program's objects into messages. For any thread."""

    def to_message(self, data: Any) -> Message:
        """Returns a record, or bytes for a record with only a value. An error makes only this message fail."""
        ...


class DefaultEncoder:
    """Passes on bytes, records, and None, which is a tombstone (kafka.serializer.DefaultEncoder)."""

    def to_message(self, data: object) -> Message:
        if data is None or isinstance(data, bytes | Record):
            return data
        if isinstance(data, bytearray | memoryview):
            return bytes(data)
        raise InvalidMessageError(
            f"the default encoder takes bytes and records, not {type(data).__name__}: encode it, or set "
            "serializer.class, and key.serializer.class for keys"
        )


class StringEncoder:
    """Writes text as UTF-8 (kafka.serializer.StringEncoder)."""

    def to_message(self, data: object) -> Message:
        if data is None:
            return None
        if not isinstance(data, str):
            raise InvalidMessageError(f"the string encoder takes text, not {type(data).__name__}")
        return data.encode()
