"""Rows of Python programs as records, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from ..storage import BinaryColumn, HeadersColumn, Records, RecordValidationError, TopicPartition, did_you_mean

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_INT64_MAX = 2**63 - 1

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record that was read. It can be appended, too; then its topic and offset are ignored."""

    key: bytes | None
    value: bytes | None  # None: a tombstone in a compacted topic
    headers: Headers
    timestamp: int | None  # ms since 1970; None if the record has none
    partition: int
    offset: int
    topic: str


class Row(NamedTuple):
    """A checked row; the fields are those that a program may give, in the order of a tuple."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None  # ms since 1970; None: the time of the append
    partition: int | None = None  # None: by the key

    @property
    def size(self) -> int:
        """The bytes of key, value and headers."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


GIVEN = Row._fields
# Further columns of a read; they are ignored, so that what read_table and follow return can be appended.
_ONLY_READ = ("topic", "offset", "timestampType")


def checked(number: int, row: object) -> Row:
    """Returns row ``number`` of an append as it will be written; text becomes UTF-8.

    Raises RecordValidationError with the number, and with what to give instead.
    """
    given = _fields(number, row)
    if "value" not in given:
        raise _refused(number, "has no value; give None for a tombstone")
    timestamp, partition = given.get("timestamp"), given.get("partition")
    return Row(
        key=_bytes(number, "key", given.get("key")),
        value=_bytes(number, "value", given["value"]),
        headers=_headers(number, given.get("headers")),
        timestamp=None if timestamp is None else _time_ms(number, timestamp),
        partition=None if partition is None else _whole(number, "partition", partition),
    )


def _fields(number: int, row: object) -> Mapping[str, object]:
    if isinstance(row, Record):
        return row._asdict()
    if isinstance(row, tuple) and 2 <= len(row) <= len(GIVEN):
        return dict(zip(GIVEN, row, strict=False))
    if not isinstance(row, Mapping):
        raise _refused(
            number, f"is {_shown(row)}; give a dict with some of {', '.join(GIVEN)}, or a tuple of them in this order"
        )
    unknown = [name for name in row if name not in GIVEN and name not in _ONLY_READ]
    if unknown:
        raise _refused(
            number, f"has a field {unknown[0]!r}{did_you_mean(str(unknown[0]), GIVEN)}; there are {', '.join(GIVEN)}"
        )
    return row


def _bytes(number: int, name: str, given: object) -> bytes | None:
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    if not isinstance(given, str):
        raise _refused(number, f"has the {name} {_shown(given)}; it must be bytes, text or None")
    try:
        return given.encode()
    except UnicodeEncodeError as error:
        raise _refused(number, f"has the {name} {_shown(given)}, which is not UTF-8: {error.reason}") from None


def _headers(number: int, given: object) -> Headers:
    if given is None:
        return ()
    if isinstance(given, Mapping):
        given = given.items()
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise _refused(number, f"has the headers {_shown(given)}; {_HEADERS}")
    return tuple(_header(number, each) for each in given)


_HEADERS = "they must be a dict, or a list of pairs of a name and a value"


def _header(number: int, given: object) -> tuple[str, bytes | None]:
    if isinstance(given, Mapping) and given.keys() == {"key", "value"}:  # as read_table returns it
        given = (given["key"], given["value"])
    if not isinstance(given, Sequence) or isinstance(given, str | bytes) or len(given) != 2:
        raise _refused(number, f"has the header {_shown(given)}; {_HEADERS}")
    name, value = given
    if not isinstance(name, str):
        raise _refused(number, f"has a header with the name {_shown(name)}; it must be text")
    _bytes(number, "header name", name)
    return name, _bytes(number, f"header {name!r}", value)


def _time_ms(number: int, given: object) -> int:
    if not isinstance(given, datetime):
        return _whole(number, "timestamp", given)
    if given.tzinfo is None:
        raise _refused(number, f"has the timestamp {given} without a time zone; give it one, such as datetime.UTC")
    return _whole(number, "timestamp", (given - _EPOCH) // timedelta(milliseconds=1))


def _whole(number: int, name: str, given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or not 0 <= given <= _INT64_MAX:
        what = "a partition's number" if name == "partition" else "milliseconds since 1970 or a datetime"
        raise _refused(number, f"has the {name} {_shown(given)}; it must be {what}")
    return int(given)


def _shown(given: object) -> str:
    text = repr(given)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(given).__name__})"


def _refused(number: int, reason: str) -> RecordValidationError:
    return RecordValidationError(f"row {number} {reason}", ((number, reason),))


def to_records(rows: Sequence[Row], now_ms: int) -> Records:
    """Returns the rows as records; those without a time get ``now_ms``."""
    headers = [[(name.encode(), value) for name, value in row.headers] for row in rows]
    return Records(
        offsets=np.arange(len(rows), dtype=np.int64),
        timestamps=np.array([now_ms if row.timestamp is None else row.timestamp for row in rows], dtype=np.int64),
        timestamp_types=np.zeros(len(rows), dtype=np.int8),
        keys=BinaryColumn.from_list([row.key for row in rows]),
        values=BinaryColumn.from_list([row.value for row in rows]),
        headers=HeadersColumn.from_list(headers) if any(headers) else None,
    )


def from_records(records: Records, source: TopicPartition) -> Iterator[Record]:
    """Yields the records of a table that has all columns."""
    assert records.keys is not None
    assert records.values is not None
    headers: list[Headers] = [()] * len(records)
    if records.headers is not None:
        pairs = records.headers.to_list()
        headers = [tuple((name.decode(errors="replace"), value) for name, value in each) for each in pairs]
    times = [None if time < 0 else time for time in records.timestamps.tolist()]
    columns = (records.keys.to_list(), records.values.to_list(), headers, times, records.offsets.tolist())
    for key, value, header, time, offset in zip(*columns, strict=True):
        yield Record(key, value, header, time, source.partition, offset, source.topic)
