"""KnownPartitions: the partitions of one thread's turns, by their rows in the table, and which of them are at hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from ...storage import INTERNAL_TOPICS, Codec, LogConfig, ProduceTables, is_reserved, keeps_codec
from ..partitions.led_partition import LedPartition
from ..security.acls import Client

FORGET_S = 60.0

Look = Callable[[str, int], LedPartition | Exception]
MayWrite = Callable[[Client, str], bool]
L = TypeVar("L", bound=LedPartition)


class _Known(Generic[L]):
    """A partition with a row, and the object and the settings by which its batches are checked."""

    def __init__(self, topic: str, number: int, led: L) -> None:
        self.topic, self.number = topic, number
        self.led, self.config = led, led.config


class KnownPartitions(Generic[L]):
    """Belongs to one thread. A partition is known once a request named it that went the usual way."""

    def __init__(self, tables: ProduceTables, kind: type[L], look: Look, may_write: MayWrite) -> None:
        """``kind``: of the partitions that may be known.

        ``look`` returns a partition that this node leads and has open, or an error.

        ``may_write``: whether a client may write to a topic.
        """
        self._tables, self._kind, self._look, self._may_write = tables, kind, look, may_write
        self._known: list[_Known[L]] = []
        self._changed: set[int] = set()  # rows whose batches of this turn were checked by what no longer holds
        self._forgotten_s = 0.0

    def learn(self, name: bytes, number: int) -> bool:
        """Gives a partition a row; False if it gets none: it is not open, no topic of clients, or one too many."""
        try:
            topic = name.decode()
        except UnicodeDecodeError:
            return False
        if topic in INTERNAL_TOPICS or is_reserved(topic):
            return False
        led = self._look(topic, number)
        if not isinstance(led, self._kind):
            return False
        row = self._tables.add_partition(name, number)
        if row is None:
            self._forget()
            return False
        self._known.append(_Known(topic, number, led))
        self._take_up(row, led)
        return True

    def _forget(self) -> None:
        """Forgets all partitions, of which most may be deleted or unused, but seldom: each is then learned again."""
        now_s = time.monotonic()
        if now_s - self._forgotten_s > FORGET_S:
            self._forgotten_s = now_s
            self._known.clear()
            self._tables.forget_partitions()

    def begin(self) -> None:
        """Begins a turn: its batches are checked by the limits of now."""
        self._changed.clear()

    def last(self, row: int) -> L:
        """Returns a partition as it was when it was last current."""
        return self._known[row].led

    def may_write(self, client: Client, row: int) -> bool:
        """Whether a client may write to a partition."""
        return self._may_write(client, self._known[row].topic)

    def config(self, row: int) -> LogConfig:
        """Returns the settings by which the batches of a partition are checked."""
        return self._known[row].config

    def _take_up(self, row: int, led: L) -> None:
        """Notes with which object and settings a partition is used; the next batches are checked by these."""
        config, known = led.config, self._known[row]
        known.led, known.config = led, config
        self._tables.set_limits(
            row,
            batch_bytes_max=config.batch_size_max,
            needs_keys=config.compact,
            before_ms=config.message_timestamp_before_max_ms,
            after_ms=config.message_timestamp_after_max_ms,
            codecs=[codec for codec in Codec if keeps_codec(config, codec)],
        )

    def current(self, row: int) -> L | None:
        """Returns a partition for appends; None: its batches go the usual way.

        All of a turn do so if the object or its settings are others than those that the batches were checked by.
        """
        known = self._known[row]
        led = self._look(known.topic, known.number)
        if row in self._changed or not isinstance(led, self._kind):
            return None
        if led is not known.led or led.config is not known.config:
            self._changed.add(row)
            self._take_up(row, led)
            return None
        return led
