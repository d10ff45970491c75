"""``commitlog produce``: appends lines of standard input to a topic, with the flags of ``kcat -P``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Protocol, cast

import typer

from .. import storage
from .flags import TOPIC, LogDir, complete_topic
from .output import fail, print_json
from .reading.record_text import escaped

READ_BYTES = 1024 * 1024  # the most that is appended and synced at once
LINE_BYTES_MAX = 1024 * 1024 * 1024  # the limit of a column of records; more than a topic accepts

Topic = Annotated[str, typer.Option(*TOPIC, autocompletion=complete_topic, help="An existing topic.")]
Partition = Annotated[
    int | None,
    typer.Option(
        "--partition", "-p", help="Append all records to this partition; default: by the hash of the key, as in Java."
    ),
]
KeyDelimiter = Annotated[
    str | None,
    typer.Option("--key-delimiter", "-K", help="Split each record into key and value at the first of these."),
]
Delimiter = Annotated[str, typer.Option("--delimiter", "-D", help="Split the input into records at this delimiter.")]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME=VALUE", help="Add a header to each record. Repeatable."),
]
Null = Annotated[
    bool, typer.Option("--null", "-Z", help="Append empty keys and values as null; a null value is a tombstone.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print partition and offsets, one JSON object per append.")]


class Codecs(StrEnum):
    """The values of a producer's compression.type."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


Codec = Annotated[
    Codecs, typer.Option("--compression", "-z", help="Compress with this codec, unless the topic sets one.")
]


def produce(  # the flags are those of kcat -P
    *,
    log_dir: LogDir,
    topic: Topic,
    partition: Partition = None,
    key_delimiter: KeyDelimiter = None,
    delimiter: Delimiter = "\\n",
    header: Header = None,
    null: Null = False,
    compression: Codec = Codecs.NONE,
    as_json: AsJson = False,
) -> None:
    """Append each line of standard input to a topic as a record, and sync before reading more.

    Lines are appended as soon as they are complete. A line without a key delimiter has no key. After a disk error the
    append is retried without duplicating records.
    """
    reading = _Reading(
        escaped(delimiter), None if key_delimiter is None else escaped(key_delimiter), empty_is_none=null
    )
    storage.check_takes_records(topic)  # before a line is read
    with storage.LogManager.open(log_dir) as manager:
        described = _existing(manager, topic)
        target = _Target.of(described, partition)
        if partition is None:
            storage.check_whole(manager, described)
        fields = storage.BatchFields(codec=storage.Codec[compression.value.upper()])
        headers = [_header(text) for text in header or []]
        producer, written = storage.IdempotentProducer(manager), 0
        for rows in reading.chunks(cast("Input", sys.stdin.buffer)):
            try:
                for number, records in target.tables(rows, headers, manager.clock.now_ms()):
                    info = producer.append(topic, number, records, fields)
                    written += len(records)
                    if as_json:
                        print_json([{"topic": topic, "partition": number, **_where(info)}])
            except storage.LogStoreError as error:
                fail(f"{error}; {storage.appended_before(error, written, 'record')}")


def _existing(manager: storage.LogManager, topic: str) -> storage.TopicDescription:
    try:
        return manager.topic(topic)
    except storage.UnknownTopicOrPartitionError as error:
        fail(f"{error}; to create it: commitlog topics --create --topic {topic} --log-dir {manager.directory}")


def _where(info: storage.AppendInfo) -> dict[str, int]:
    return {"first_offset": info.first_offset, "last_offset": info.last_offset}


def _header(text: str) -> tuple[bytes, bytes | None]:
    name, equals, value = text.partition("=")
    return name.encode(errors="surrogateescape"), value.encode(errors="surrogateescape") if equals else None


Row = tuple[bytes | None, bytes | None]


class Input(Protocol):
    """A binary input stream."""

    def read1(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class _Reading:
    """Splits bytes into keys and values."""

    delimiter: bytes
    key_delimiter: bytes | None
    empty_is_none: bool

    def __post_init__(self) -> None:
        if not self.delimiter or self.key_delimiter == b"":
            raise typer.BadParameter("--delimiter and --key-delimiter cannot be empty")

    def chunks(self, source: Input) -> Iterator[list[Row]]:
        """Yields the rows of all complete lines after each read of ``source``. The last line needs no delimiter."""
        rest = bytearray()
        while data := source.read1(READ_BYTES):
            rest += data
            if len(rest) > LINE_BYTES_MAX:
                fail(f"{LINE_BYTES_MAX:,} bytes without {self.delimiter!r}; give the delimiter with --delimiter")
            if self.delimiter[-1] in data:
                *lines, rest = rest.split(self.delimiter)
                yield [self._row(bytes(line)) for line in lines]
        if rest:
            yield [self._row(bytes(rest))]

    def _row(self, line: bytes) -> Row:
        key, delimiter, value = line.partition(self.key_delimiter or self.delimiter)
        row = (key, value) if delimiter else (None, line)
        return (row[0] or None, row[1] or None) if self.empty_is_none else row


@dataclass
class _Target:
    """Assigns rows to partitions: by key, and without a key to one partition per chunk, in turn."""

    partitions: Sequence[int]
    only: int | None
    turn: int = 0

    @classmethod
    def of(cls, topic: storage.TopicDescription, partition: int | None) -> _Target:
        if partition is not None and partition not in topic.partitions:
            fail(f"topic {topic.name!r} has partitions {list(topic.partitions)}, but not {partition}")
        return cls(topic.partitions, partition)

    def tables(
        self, rows: Sequence[Row], headers: Sequence[tuple[bytes, bytes | None]], now_ms: int
    ) -> Iterator[tuple[int, storage.Records]]:
        """Yields (partition, table of its records) for each partition that gets rows, ascending."""
        for number, chosen in sorted(self._split(rows).items()):
            yield number, _table(chosen, headers, now_ms)

    def _split(self, rows: Sequence[Row]) -> Mapping[int, list[Row]]:
        if self.only is not None:
            return {self.only: list(rows)}
        chosen = storage.partitions_of(storage.BinaryColumn.from_list([key for key, _ in rows]), len(self.partitions))
        self.turn += 1
        split: dict[int, list[Row]] = {}
        for row, index in zip(rows, chosen.tolist(), strict=True):
            split.setdefault(self.partitions[self.turn % len(self.partitions) if index < 0 else index], []).append(row)
        return split


def _table(rows: Sequence[Row], headers: Sequence[tuple[bytes, bytes | None]], now_ms: int) -> storage.Records:
    keys, values = [key for key, _ in rows], [value for _, value in rows]
    return storage.Records.to_append(keys, values, now_ms, headers)
