"""MessageSet: the result of a fetch, or the content of a file, as an iterator over messages; for each Kafka generation.

A set is a thin layer over bytes or a file: nothing is copied, and messages are found, checked and decompressed when the
iterator reaches them.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

from ...storage import CorruptionError, LogStoreError
from .content import Content, Writable
from .messages import Message

T = TypeVar("T")
E = TypeVar("E")  # the element of a set whose compressed messages are not expanded

NONE = 0  # the code of an answer without an error


class MessageSet(ABC, Generic[E]):
    """Messages of one partition, from ``initial_offset`` on. Each iteration begins there.

    An incomplete message at the end is skipped. Iterating yields the messages before damage, then raises
    CorruptionError. If the broker refused the fetch, iterating raises ``error``.
    """

    def __init__(
        self,
        content: Content | bytes | bytearray | memoryview,
        initial_offset: int = 0,
        error: LogStoreError | None = None,
        error_code: int = NONE,
    ) -> None:
        self._content = content if isinstance(content, Content) else Content(content)
        self.initial_offset, self.error, self.error_code = initial_offset, error, error_code

    @property
    def size_in_bytes(self) -> int:
        """The size of the set in bytes, including an incomplete message at its end."""
        return len(self._content)

    @property
    @abstractmethod
    def valid_bytes(self) -> int:
        """The size of the complete messages in bytes."""

    @property
    @abstractmethod
    def next_offset(self) -> int:
        """The offset to fetch next, after this set."""

    @property
    @abstractmethod
    def first_size(self) -> int:
        """The stated length of the first message in bytes; 0 if not even the length is complete."""

    @property
    def is_too_small(self) -> bool:
        """Whether there are bytes, but no complete message; then fetch again with a larger size."""
        return self.size_in_bytes > 0 and not self.valid_bytes and self._is_cut

    @property
    @abstractmethod
    def _is_cut(self) -> bool:
        """Whether the bytes end within a message."""

    def __iter__(self) -> Iterator[Message]:
        return self._checked(self._messages())

    def shallow(self) -> Iterator[E]:
        """Yields the stored messages; a compressed message is one. Raises like the iterator."""
        return self._checked(self._stored())

    @abstractmethod
    def _messages(self) -> Iterator[Message]: ...

    @abstractmethod
    def _stored(self) -> Iterator[E]: ...

    def _checked(self, found: Iterator[T]) -> Iterator[T]:
        if self.error is not None:
            raise self.error
        try:
            yield from found
        except CorruptionError as error:
            if self._content.path is None:
                raise
            raise error.located(self._content.path) from error

    def write_to(self, target: Writable | socket.socket) -> int:
        """Writes the bytes of the set, including an incomplete last message, and returns their number."""
        return self._content.write_to(target)
