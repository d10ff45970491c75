"""find: searches a topic for records by key, value, header or SQL, without Spark."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from ..storage import (
    Bounds,
    Condition,
    FoundRecords,
    IncompleteSearchError,
    InvalidConfigError,
    Isolation,
    LogManager,
    Search,
    Unsearched,
)
from .follower import Path
from .rows import Record, from_records
from .table import isolation_of

if TYPE_CHECKING:
    import pyarrow as pa

    from .sql import RecordQuery
    from .values.avro.serde import Framing

Text = bytes | str
INT64_MAX = 2**63 - 1
Bound = int | str | datetime | tuple[int, str | datetime] | None


class Sought(TypedDict, total=False):
    """The conditions of a search, with or without SQL: see :func:`find`."""

    key: Text | None
    key_prefix: Text | None
    value_contains: Text | None
    headers: Mapping[str, Text] | None
    start: Bound
    end: Bound
    partition: int | Collection[int] | None
    all_partitions: bool
    newest_first: bool
    max_records: int | None
    isolation: Isolation | str
    unsearched: list[Unsearched] | None


@overload
def find(path: Path, topic: str, **sought: Unpack[Sought]) -> Iterator[Record]: ...


@overload
def find(
    path: Path,
    topic: str,
    *,
    where: str,
    select: str | None = None,
    schemas: Framing | None = None,
    **sought: Unpack[Sought],
) -> Iterator[pa.RecordBatch]: ...


@overload
def find(
    path: Path, topic: str, *, select: str, schemas: Framing | None = None, **sought: Unpack[Sought]
) -> Iterator[pa.RecordBatch]: ...


def find(
    path: Path,
    topic: str,
    *,
    key: Text | None = None,
    key_prefix: Text | None = None,
    value_contains: Text | None = None,
    headers: Mapping[str, Text] | None = None,
    where: str | None = None,
    select: str | None = None,
    schemas: Framing | None = None,
    start: Bound = None,
    end: Bound = None,
    partition: int | Collection[int] | None = None,
    all_partitions: bool = False,
    newest_first: bool = False,
    max_records: int | None = None,
    isolation: Isolation | str = Isolation.READ_COMMITTED,
    unsearched: list[Unsearched] | None = None,
) -> Iterator[Any]:
    """Yields the records of a topic that satisfy all conditions, as they are found, up to the current log end.

    ``path`` is the log directory, or the URL of a log on an object store. ``key``, ``key_prefix`` and
    ``value_contains`` are compared byte by byte; text is UTF-8. A record must have all of ``headers``. ``start`` and
    ``end`` (exclusive) are each an offset, a time (a datetime with a time zone, or ISO 8601 text, in UTC unless it has
    a zone), or a pair of both.

    A ``key`` is searched in the partition where the Java producer puts it, anything else in all, unless
    ``all_partitions`` or ``partition`` says otherwise. Records come by partition and offset; with ``newest_first`` from
    the ends of all partitions, by time. ``isolation``: ``read_committed`` or ``read_uncommitted``.

    ``where`` is a condition in duckdb's SQL, and ``select`` lists columns or expressions, as those of ``commitlog
    find``; with either, Arrow record batches are yielded instead of records. ``schemas`` decodes values of Avro, such
    as ``Confluent(SchemaRegistry(url))``, so that ``json`` has them too; needs the extra ``avro``.

    The search is complete, or names the parts that it could not read: damaged, deleted, only in a broker's remote
    storage, or not decodable. The list ``unsearched`` gets these parts; without it, IncompleteSearchError with them is
    raised after the last record. Takes no lock and changes nothing. Raises InvalidConfigError for an invalid argument,
    NotALogDirError, UnknownTopicOrPartitionError, and MissingExtraError without the extra ``find`` for SQL.

    >>> for record in find("data/log", "orders", key="anna", newest_first=True):  # doctest: +SKIP
    ...     print(record.partition, record.offset, record.value)
    """
    condition = _condition(key, key_prefix, value_contains, headers or {})
    if max_records is not None and max_records < 0:
        raise InvalidConfigError(f"max_records is {max_records}; it must be 0 or more, or None for all")
    bounds = Bounds.parse(_texts("start", start), _texts("end", end), start="start", end="end")
    level = isolation_of(isolation)
    with (
        LogManager.open(os.fspath(path)) as manager,
        Search(
            manager,
            topic,
            condition,
            bounds,
            partitions={partition} if isinstance(partition, int) else partition,
            all_partitions=all_partitions,
            newest_first=newest_first,
            isolation=level,
        ) as search,
        _query(where, select, schemas) as query,
    ):
        try:
            yield from _records(search, max_records) if query is None else _batches(search, query, max_records)
        finally:
            missing = search.unsearched + ([] if query is None else query.unsearched)
            if unsearched is not None:
                unsearched += missing
        if missing and unsearched is None:
            raise IncompleteSearchError("; ".join(map(str, missing)))


def _condition(
    key: Text | None, key_prefix: Text | None, value_contains: Text | None, headers: Mapping[str, Text]
) -> Condition:
    pairs = tuple((name.encode(), _bytes(value) or b"") for name, value in headers.items())
    return Condition(_bytes(key), _bytes(key_prefix), _bytes(value_contains), pairs)


def _query(
    where: str | None, select: str | None, schemas: Framing | None
) -> AbstractContextManager[RecordQuery | None]:
    if where is None and select is None:
        return nullcontext()
    from .sql import RecordQuery  # noqa: PLC0415  needs pyarrow

    return RecordQuery(where, select, schemas, named=("where", "select"))


def _records(search: Iterable[FoundRecords], most: int | None) -> Iterator[Record]:
    return islice(chain.from_iterable(from_records(found.records, found.partition) for found in search), most)


def _batches(search: Iterable[FoundRecords], query: RecordQuery, most: int | None) -> Iterator[pa.RecordBatch]:
    remaining = INT64_MAX if most is None else most
    batches = (batch for found in search for batch in query.table(found).to_batches())
    for batch in batches if remaining else ():
        yield batch.slice(0, remaining)
        remaining -= len(batch)
        if remaining <= 0:
            return


def _bytes(text: Text | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def _texts(name: str, bound: Bound) -> list[str]:
    """Returns the parts of a bound as :meth:`Bounds.parse` takes them. Raises InvalidConfigError."""
    parts = bound if isinstance(bound, tuple) else () if bound is None else (bound,)
    return [_text_of(name, part) for part in parts]


def _text_of(name: str, part: object) -> str:
    if isinstance(part, datetime):
        if part.tzinfo is None:
            raise InvalidConfigError(f"{name} {part} has no time zone; give it one, such as datetime.UTC")
        return part.isoformat()
    if isinstance(part, str) or (isinstance(part, int) and not isinstance(part, bool) and part >= 0):
        return f"@{part}" if isinstance(part, str) and not part.startswith("@") else str(part)
    raise InvalidConfigError(f"{name} is {part!r}; it must be an offset of 0 or more, a time, or a pair of both")
