"""``commitlog find``: searches a topic for records by key, value or header."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ... import storage
from ..arguments import settings_given
from ..flags import TOPIC, AsJson, Layout, LogLayout, MaybeLogDir, TierKeys, TierUrl, complete_topic, located
from ..maintenance.bars import bar
from ..schemas import Registry, RegistryHeaders, SchemaFolder, framing_of
from . import record_text
from .cat import Format, Isolation, IsolationLevel

if TYPE_CHECKING:
    from ...arrow.values.avro.serde import Framing
    from ...classic.log_0_7.topics import PositionTopics

    Topics = storage.LogManager | PositionTopics

Lines = Callable[["storage.FoundRecords"], Iterable[bytes]]  # quoted, so that importing this loads no engine

Topic = Annotated[str, typer.Option(*TOPIC, autocompletion=complete_topic, help="The topic.")]
Partitions = Annotated[
    list[int] | None, typer.Option("--partition", "-p", help="Search only this partition. Repeatable.")
]
Key = Annotated[str | None, typer.Option(help="Find records with this key, in the partition of the key.")]
KeyPrefix = Annotated[str | None, typer.Option(help="Find records whose key begins with this.")]
ValueContains = Annotated[str | None, typer.Option(help="Find records whose value contains this, byte by byte.")]
Header = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Find records with this header. Repeatable: a record must have all."),
]
Start = Annotated[
    list[str] | None,
    typer.Option(
        help="Search from here on: an offset, or a time, in ISO 8601 or as ms after an @ (@1700000000000). May be "
        "given once for each; then both count."
    ),
]
End = Annotated[list[str] | None, typer.Option(help="Search up to here, without it: an offset or a time, as --start.")]
NewestFirst = Annotated[bool, typer.Option("--newest-first", help="Search from the end of the log, backwards.")]
Max = Annotated[int | None, typer.Option("--max", min=1, help="Stop after this many records.")]
Where = Annotated[
    str | None,
    typer.Option(
        metavar="SQL",
        help="Find records for which this is true, with duckdb's functions: \"json->>'$.dest' = 'MIA'\". Columns: key, "
        'value, topic, partition, "offset", timestamp, headers, key_text, value_text, json. Prints JSON. Needs the '
        "extra [find].",
    ),
]
Select = Annotated[
    str | None,
    typer.Option(metavar="SQL", help="Print these columns or expressions as JSON: \"json->>'$.dest' AS dest\"."),
]
AllPartitions = Annotated[
    bool,
    typer.Option(
        "--all-partitions",
        help="Search for --key in all partitions, for producers that do not place keys as the Java producer does.",
    ),
]


class _Output(NamedTuple):
    """The function that formats found records, and the values that did not decode so far."""

    lines: Lines
    undecoded: Callable[[], list[storage.Unsearched]]


def find(
    *,
    log_dir: MaybeLogDir = None,
    tier: TierUrl = None,
    tier_key: TierKeys = None,
    topic: Topic,
    key: Key = None,
    key_prefix: KeyPrefix = None,
    value_contains: ValueContains = None,
    header: Header = None,
    where: Where = None,
    select: Select = None,
    registry: Registry = None,
    registry_headers: RegistryHeaders = None,
    schema_folder: SchemaFolder = None,
    start: Start = None,
    end: End = None,
    partition: Partitions = None,
    all_partitions: AllPartitions = False,
    newest_first: NewestFirst = False,
    max_records: Max = None,
    format: Format = None,
    as_json: AsJson = False,
    isolation_level: Isolation = IsolationLevel.READ_COMMITTED,
    layout: Layout = LogLayout.KAFKA,
) -> None:
    """Find the records of a topic by key, value or header, up to the log end; records must satisfy all that is given.

    The search is complete. If a part of the log cannot be read, stderr names it, and the exit code is 3. Takes no lock,
    so it is safe on a running broker's directory.
    """
    log_dir = located(log_dir, tier, tier_key)
    headers = tuple(map(_header, header or ()))
    condition = storage.Condition(_bytes(key), _bytes(key_prefix), _bytes(value_contains), headers)
    if condition == storage.Condition() and where is None:
        raise typer.BadParameter("give at least one of --key, --key-prefix, --value-contains, --header, --where")
    is_sql = where is not None or select is not None
    if format is not None and is_sql:
        raise typer.BadParameter("--where and --select print JSON: leave --format out")
    with settings_given():
        bounds = storage.Bounds.parse(start or [], end or [])
        schemas = framing_of(registry, registry_headers, schema_folder)
    if schemas is not None and not is_sql:
        raise typer.BadParameter("--registry and --schema-folder are for --where and --select")
    with (
        _output(where, select, schemas, _text(format, as_json=as_json)) as output,
        _opened(log_dir, layout) as topics,
        settings_given(),
        storage.Search(
            topics,
            topic,
            condition,
            bounds,
            partitions=partition,
            all_partitions=all_partitions,
            newest_first=newest_first,
            isolation=storage.Isolation(isolation_level.value),
            report=_report,
        ) as search,
        bar("find", search.log_bytes),
    ):
        _report_partitions(topics, search, is_chosen=bool(partition))
        _print(search, output.lines, max_records)
        undecoded = output.undecoded()
        for part in undecoded:
            _report(part)
    if search.unsearched or undecoded:
        raise typer.Exit(storage.EXIT_DAMAGED)


def _opened(log_dir: str, layout: LogLayout) -> AbstractContextManager[Topics]:
    if not layout.is_0_7:
        return storage.LogManager.open(log_dir)
    from ...classic.log_0_7.topics import PositionTopics  # noqa: PLC0415

    return nullcontext(PositionTopics(log_dir))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode(errors="surrogateescape")  # what the shell gave, byte by byte


def _header(text: str) -> tuple[bytes, bytes]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"--header {text!r} is not of the form NAME=VALUE")
    return name.encode(errors="surrogateescape"), value.encode(errors="surrogateescape")


def _text(format: str | None, *, as_json: bool) -> record_text.Text:
    if format is not None:
        return record_text.formatted(format, null=b"NULL")
    return record_text.as_json if as_json else _line


def _line(message: record_text.Message) -> bytes:
    time = "-" if message.timestamp < 0 else storage.instant(message.timestamp)
    key, value = (
        "NULL" if data is None else storage.printable(data.decode(errors="backslashreplace"))
        for data in (message.key, message.value)
    )
    return f"{message.topic}-{message.partition}\t{message.offset}\t{time}\t{key}\t{value}\n".encode(
        errors="backslashreplace"
    )


@contextmanager
def _output(
    where: str | None, select: str | None, schemas: Framing | None, text: record_text.Text
) -> Iterator[_Output]:
    """Yields the formatter of found records: by SQL, or ``text`` for each record."""
    if where is None and select is None:
        yield _Output(lambda found: map(text, record_text.messages(*found.partition, found.records)), list)
        return
    with storage.needs_extra("--where or --select", extra="find"):
        from ...arrow.sql import RecordQuery  # noqa: PLC0415  needs pyarrow

    with settings_given(), RecordQuery(where, select, schemas) as query:
        yield _Output(lambda found: map(_as_json, query.rows(found)), lambda: query.unsearched)


def _as_json(row: Mapping[str, Any]) -> bytes:
    """Returns a line of JSON; bytes that are not UTF-8 become a member with ``_base64`` after its name."""
    members: dict[str, Any] = {}
    for name, value in row.items():
        members |= record_text.member(name, value) if isinstance(value, bytes) else {name: value}
    return json.dumps(members, ensure_ascii=False, default=_plain).encode() + b"\n"


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _print(search: storage.Search, lines: Lines, max_records: int | None) -> None:
    """Prints records as they are found, at most ``max_records``."""
    output, remaining = typer.get_binary_stream("stdout"), max_records
    for found in search:
        printed = 0
        for line in islice(lines(found), remaining):
            output.write(line)
            printed += 1
        output.flush()
        if max_records is not None and remaining is not None:
            remaining -= printed
            if not remaining:
                typer.echo(
                    f"commitlog: stopped after {storage.counted(max_records, 'record')}, as --max asks", err=True
                )
                return


def _report(part: storage.Unsearched) -> None:
    typer.echo(f"commitlog: not searched: {storage.printable(str(part))}", err=True)


def _report_partitions(topics: Topics, search: storage.Search, *, is_chosen: bool) -> None:
    """Reports that only some partitions are searched, because the key determines them."""
    count = len(topics.topic(search.partitions[0].topic).partitions)
    if not is_chosen and len(search.partitions) < count:
        typer.echo(
            f"commitlog: searching partition {search.partitions[0].partition} of {count}, where the Java producer puts "
            "this key; --all-partitions searches all",
            err=True,
        )
