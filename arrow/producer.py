"""Producer: appends rows of a Python program to topics, and returns when they are synced."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import NamedTuple, Self

from ..storage import (
    BatchFields,
    BinaryColumn,
    Codec,
    IdempotentProducer,
    InvalidConfigError,
    LogManager,
    LogStoreError,
    Records,
    RecordValidationError,
    TopicDescription,
    UnfinishedAppendError,
    appended_before,
    check_takes_records,
    check_whole,
    find_refused,
    partitions_of,
    target_compression,
)
from .rows import Row, checked, to_records

# The bytes and rows that are appended and synced at once, and so kept in memory.
PORTION_BYTES = 16 * 2**20
PORTION_ROWS = 100_000

Path = str | PathLike[str]


class Appended(NamedTuple):
    """The offsets that a call appended to a partition. Other writers may have appended some offsets in between."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    records: int


def append(
    path: Path, topic: str, rows: Iterable[object], *, partitions: int | None = None, compression: str = "none"
) -> list[Appended]:
    """Appends rows to a topic and returns when they are synced: by :meth:`Producer.append` of a new producer.

    A program that appends often keeps a :class:`Producer`: opening one reads the log's end.

    >>> append("data/log", "orders", [{"key": "a", "value": "1"}, ("b", "2")])  # doctest: +SKIP
    """
    with Producer(path, compression=compression) as producer:
        return producer.append(topic, rows, partitions=partitions)


class Producer:
    """Appends rows to the topics of a log directory, without transactions; a context manager that closes it.

    An append that failed on the disk is repeated without duplicating records. If the process dies during a call, some
    of the call's rows may be in the log. For one thread at a time; other processes may append to the same topics.
    """

    def __init__(self, path: Path, *, compression: str = "none") -> None:
        """``path`` is the log directory; it is created if it is missing. ``compression`` is Kafka's compression.type.

        It is one of none, gzip, snappy, lz4 and zstd, for topics that leave it to producers. Raises InvalidConfigError
        for another one, NotALogDirError, and LogDirLockedError while a broker runs on the directory.
        """
        self._codec = _codec(compression)
        self._manager = LogManager.open(os.fspath(path), create=True)
        self._turn = random.randrange(2**16)  # random, or short programs would all begin at one partition
        try:
            self._producer = IdempotentProducer(self._manager)
        except BaseException:
            self._manager.close()
            raise

    def append(self, topic: str, rows: Iterable[object], *, partitions: int | None = None) -> list[Appended]:
        """Appends rows, and returns when they are synced; the result has the offsets in each partition.

        A row is a dict with ``value`` and, if wanted, ``key``, ``headers``, ``timestamp`` and ``partition``; or a tuple
        of some of (key, value, headers, timestamp, partition), at least the first two; or a :class:`Record`. Keys and
        values are bytes, text (written as UTF-8) or None. Headers are a dict or a list of pairs. The timestamp is a
        datetime with a time zone or milliseconds since 1970, by default the time of the append. Rows without a
        partition go where Kafka's producer would send them: by the hash of the key; rows without a key all go to one
        partition, which changes with each portion.

        A missing topic is created, with ``partitions`` partitions (default 1). ``rows`` may be any iterable: it is read
        and appended in portions of 16 MiB or 100,000 rows, in order for each partition.

        Raises RecordValidationError for a row that is not as described, or that the topic refuses: nothing of its
        portion was appended, and a note of the error states how many rows of earlier portions were. Raises
        InvalidTopicError for an internal topic, TopicExistsError if the topic has another number of partitions, and
        StorageError if the disk failed repeatedly; then some rows of the portion may be in the log.
        """
        check_takes_records(topic)
        if isinstance(rows, str | bytes | dict) or not isinstance(rows, Iterable):
            raise InvalidConfigError(f"rows is a {type(rows).__name__}; it must be a list of dicts or tuples")
        target = _Target(self._manager, self._manager.ensure_topic(topic, partitions=partitions), self._codec)
        appended: dict[int, Appended] = {}
        number = 0
        try:
            for portion in _portions(rows):
                for partition, records in target.divided(portion, number, self._turn).items():
                    self._append(topic, partition, records, appended)
                self._turn += 1
                number += len(portion)
        except (LogStoreError, OSError) as error:
            if appended or isinstance(error, UnfinishedAppendError):
                error.add_note(appended_before(error, sum(each.records for each in appended.values()), "row"))
            raise
        return [appended[partition] for partition in sorted(appended)]

    def _append(self, topic: str, partition: int, records: Records, appended: dict[int, Appended]) -> None:
        info = self._producer.append(topic, partition, records, BatchFields(codec=self._codec))
        before = appended.get(partition, Appended(topic, partition, info.first_offset, info.last_offset, 0))
        appended[partition] = before._replace(last_offset=info.last_offset, records=before.records + len(records))

    def close(self) -> None:
        """Closes the logs. All rows of earlier calls are synced already."""
        self._manager.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Target:
    """Divides rows among the partitions of a topic, and finds those that the topic refuses."""

    def __init__(self, manager: LogManager, topic: TopicDescription, codec: Codec) -> None:
        check_whole(manager, topic)
        self._topic = topic
        self._config = manager.config(topic.name)
        self._compression = target_compression(self._config, codec)
        self._clock = manager.clock

    def divided(self, rows: Sequence[Row], before: int, turn: int) -> dict[int, Records]:
        """Returns the records of each partition. ``before``: the number of rows before these, for messages.

        Raises RecordValidationError if the topic refuses any of the rows.
        """
        now_ms = self._clock.now_ms()
        chosen = self._chosen(rows, turn)
        places: dict[int, list[int]] = {}
        for place, partition in enumerate(chosen):
            places.setdefault(partition, []).append(place)
        divided = {partition: to_records([rows[place] for place in mine], now_ms) for partition, mine in places.items()}
        refused = {place: f"it names partition {chosen[place]}; {self._has}" for place in self._elsewhere(chosen)}
        for partition, records in divided.items():
            found = find_refused(records, now_ms=now_ms, config=self._config, compression=self._compression)
            refused |= {places[partition][each.row]: each.reason for each in found}
        if refused:
            raise self._error({before + place: refused[place] for place in sorted(refused)})
        return divided

    def _chosen(self, rows: Sequence[Row], turn: int) -> list[int]:
        there = self._topic.partitions
        by_key = partitions_of(BinaryColumn.from_list([row.key for row in rows]), len(there)).tolist()
        return [
            row.partition if row.partition is not None else there[turn % len(there) if index < 0 else index]
            for row, index in zip(rows, by_key, strict=True)
        ]

    def _elsewhere(self, chosen: Sequence[int]) -> Iterator[int]:
        there = frozenset(self._topic.partitions)
        return (place for place, partition in enumerate(chosen) if partition not in there)

    @property
    def _has(self) -> str:
        return f"the topic has {list(self._topic.partitions)}"

    def _error(self, refused: dict[int, str]) -> RecordValidationError:
        number, reason = next(iter(refused.items()))
        more = f" (and {len(refused) - 1:,} more rows)" if len(refused) > 1 else ""
        message = f"row {number} cannot be written to topic {self._topic.name!r}: {reason}{more}"
        return RecordValidationError(message, tuple(refused.items()))


def _portions(rows: Iterable[object]) -> Iterator[list[Row]]:
    portion: list[Row] = []
    size = 0
    for number, given in enumerate(rows):
        row = checked(number, given)
        portion.append(row)
        size += row.size
        if size >= PORTION_BYTES or len(portion) >= PORTION_ROWS:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _codec(compression: str) -> Codec:
    known = {codec.name.lower(): codec for codec in Codec}
    if compression not in known:
        raise InvalidConfigError(f"compression is {compression!r}; it must be one of {', '.join(known)}")
    return known[compression]
