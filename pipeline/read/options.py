"""The options of the data source: parsed and checked before anything is read.

Names, defaults, JSON formats, precedence and rejections are those of Spark's Kafka source (KafkaSourceProvider), except
the isolation level: the default is ``read_committed``, which is safe; Spark's source reads uncommitted records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeVar

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from ...arrow.columns import READ_TYPES
from ...storage import (
    InvalidConfigError,
    Isolation,
    LogConfig,
    did_you_mean,
    parse_instant,
)
from ..locations import read_location, table_location
from ..rows.catalog_tables import VIEW, missing_path, refuse_table
from ..rows.kafka_options import BROKERS, KAFKAS, check_names, log_once, notice_of
from ..rows.offsets import (
    EARLIEST,
    LATEST,
    LONG_MAX,
    AtEnd,
    AtTimestamp,
    AtTimestamps,
    Bound,
    DataLoss,
    bound_at_offsets,
    check_order,
    timestamps_from_json,
)
from ..rows.read_mode import ReadMode
from ..rows.spark_schema import arrow_schema, nullable_as, read_schema, schema_with
from .internal_topics import Decode
from .rate_limits import MAX_TRIGGER_DELAY_MS, TriggerLimits, time_string_ms
from .subscription import WAYS, Subscription
from .task_ranges import TaskLimits

T = TypeVar("T")

MAX_DECOMPRESSED_BYTES = "max.decompressed.bytes"

_OURS = (
    "path",
    "subscribe",
    "assign",
    "subscribePattern",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "includeHeaders",
    "columns",
    "pushFilters",
    "keyPartitioner",
    "mode",
    "decode",
    "isolation.level",
    "kafka.isolation.level",
    "kafka.group.id",
    "groupIdPrefix",
    MAX_DECOMPRESSED_BYTES,
    "layout",
    "tier",
    "tierKeys",
    "table",
)
# Settings of a consumer that Spark's source rejects too, and why.
_REFUSED = {
    "kafka.auto.offset.reset": "set the option startingOffsets instead",
    "kafka.key.deserializer": "keys are read as bytes; cast the column key",
    "kafka.value.deserializer": "values are read as bytes; cast the column value",
    "kafka.enable.auto.commit": "with kafka.group.id a streaming query commits when Spark does",
    "kafka.interceptor.classes": "there is no consumer to intercept",
}
_OF_WRITES = ("topic", "topics")
_ENDING = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_LIMITS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger")

INT_MAX = 2**31 - 1
_FLAG = {"true": True, "false": False}
_ISOLATION = {level.value: level for level in Isolation}


class Use(Enum):
    """Whether the options are for a batch or a streaming read: decides defaults, and which options are rejected."""

    BATCH = "batch"
    STREAM = "streaming"


class Columns(NamedTuple):
    """The columns of a read, by the options ``includeHeaders``, ``columns``, ``decode`` and ``table``."""

    include_headers: bool
    names: tuple[str, ...] | None  # None: all of them
    decode: Decode | None
    table: str | None = None  # a table, whose columns these are

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Columns:
        """Parses the options that the DataFrame's schema depends on.

        Raises InvalidConfigError for an invalid value, and for any option that does not exist.
        """
        given = Given.of(options)
        text = given.text("columns")
        names = None if text is None else tuple(dict.fromkeys(name.strip() for name in text.split(",")))
        decode = given.choice("decode", None, {each.value: each for each in Decode})
        table = given.text("table")
        there = list(READ_TYPES if decode is None else decode.columns)
        for name in names or () if table is None else ():
            if name not in there:
                hint = did_you_mean(name, there)
                raise InvalidConfigError(f"option columns: no column {name!r}{hint}; there are {', '.join(there)}")
        return cls(given.flag("includeHeaders", False), names, decode, table and table_location(table))

    def schema(self) -> StructType:
        """Returns the DataFrame's schema if the user gives none; not for a table, which this package cannot read."""
        if self.decode is not None:
            columns = self.decode.columns
            return from_arrow_schema(pa.schema([(name, columns[name]) for name in self.names or columns]))
        return read_schema(self.include_headers) if self.names is None else schema_with(self.names)

    def arrow_schema(self, schema: StructType) -> pa.Schema:
        """Returns the schema of Arrow batches for a DataFrame with ``schema``.

        Raises InvalidConfigError for a column that does not exist, or that has another type.
        """
        if self.decode is None:
            return arrow_schema(schema)
        columns = self.decode.columns
        every = from_arrow_schema(pa.schema(list(columns.items())))
        for field in schema.fields:
            if field.name not in columns or field.dataType != every[field.name].dataType:
                raise InvalidConfigError(
                    f"with option decode there is no column {field.name} of type {field.dataType.simpleString()}; "
                    f"there are {every.simpleString()}"
                )
        return nullable_as(schema, pa.schema([(field.name, columns[field.name]) for field in schema.fields]))


@dataclass(frozen=True)
class ReadOptions:
    """The parsed options of a read."""

    directory: str  # absolute, since workers may have another working directory; or the URL of an object store
    subscription: Subscription
    starting: Bound
    ending: Bound  # for a stream: latest
    loss: DataLoss  # from option failOnDataLoss
    tasks: TaskLimits
    limits: TriggerLimits  # of a stream's micro-batches
    columns: Columns
    isolation: Isolation
    group_id: str | None  # from option kafka.group.id: the group for which a stream commits its progress
    push_filters: bool
    keys_by_murmur2: bool  # from option keyPartitioner: a pushed key is only in the partition that its hash chooses
    mode: ReadMode
    overrides: tuple[tuple[str, str], ...] = ()  # settings that override those of the topics
    notices: tuple[str, ...] = ()  # texts about options that have no effect
    is_kafka_0_7: bool = False  # from option layout
    table: str | None = None  # a table that has the topic's older records, for a stream; a URI, or an absolute path

    @classmethod
    def parse(cls, options: Mapping[str, str], use: Use = Use.BATCH) -> ReadOptions:
        """Parses options, ignoring the case of names.

        Raises InvalidConfigError for an unknown option, which it names with the most similar known one, and for an
        invalid value.
        """
        given = Given.of(options)
        path, tier = given.text("path"), given.text("tier")
        if path is None and tier is None:
            raise missing_path("load", options, VIEW)
        directory = read_location(path, tier, given.text("tierKeys"))
        starting, ending = _bounds(given, use)
        return cls(
            directory=directory,
            subscription=_subscription(given),
            starting=starting,
            ending=ending,
            loss=DataLoss(fails=given.flag("failOnDataLoss", True)),
            tasks=TaskLimits(given.whole("minPartitions", INT_MAX), given.whole("maxRecordsPerPartition", LONG_MAX)),
            limits=_limits(given),
            columns=Columns.parse(options),
            isolation=_isolation(given),
            group_id=_group_id(given),
            push_filters=given.flag("pushFilters", False),
            keys_by_murmur2=_keys_by_murmur2(given),
            mode=given.choice("mode", ReadMode.FAIL_FAST, {each.value: each for each in ReadMode}),
            overrides=_overrides(given),
            notices=tuple(_notices(given, use)),
            is_kafka_0_7=given.choice("layout", False, {"kafka": False, "kafka-0.7": True}),
            table=_table(given, use),
        )

    def log_notices(self) -> None:
        """Logs each notice, once per process."""
        for notice in self.notices:
            log_once(notice)


class Given:
    """The options that a user gave, found by name ignoring case; parses their values."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Given:
        """Returns the options of a read. Raises InvalidConfigError for an option that is unknown or rejected."""
        refuse_table(options)
        of_write = next((name for name in options if name.lower() in _OF_WRITES), None)
        if of_write is not None:
            raise InvalidConfigError(f"option {of_write} is for writes (did you mean 'subscribe'?)")
        check_names(options, _OURS, "the commitlog source")
        values = {name.lower(): value for name, value in options.items()}
        for name, why in _REFUSED.items():
            if name in values:
                raise InvalidConfigError(f"option {name} is not supported: {why}")
        return cls(values)

    def text(self, option: str) -> str | None:
        """Returns the value of an option without surrounding blanks; None if it is not given."""
        value = self.values.get(option.lower())
        return None if value is None else value.strip()

    def whole(self, option: str, largest: int, least: int = 1) -> int | None:
        """Returns the value of an option as a whole number; None if it is not given.

        Raises InvalidConfigError unless it is from ``least`` to ``largest``.
        """
        text = self.text(option)
        if text is None:
            return None
        number = int(text) if re.fullmatch("[+-]?[0-9]{1,20}", text) else None
        if number is None or not least <= number <= largest:
            raise InvalidConfigError(
                f"option {option} is {text!r}; it must be a whole number from {least} to {largest}"
            )
        return number

    def instant(self, option: str) -> int | None:
        """Returns the value of an option as a time in ms; None if it is not given. Raises InvalidConfigError."""
        text = self.text(option)
        try:
            return None if text is None else parse_instant(text, least_ms=0)
        except ValueError as error:
            raise InvalidConfigError(f"option {option}: {error}") from None

    def flag(self, option: str, default: bool) -> bool:
        return self.choice(option, default, _FLAG)

    def choice(self, option: str, default: T, values: Mapping[str, T]) -> T:
        """Returns the entry of ``values`` for the option's value, ignoring case; ``default`` without the option."""
        text = self.text(option)
        if text is None:
            return default
        if text.lower() not in values:
            raise InvalidConfigError(f"option {option} is {text!r}; it must be {' or '.join(values)}")
        return values[text.lower()]


# Where a read begins and ends


def _bounds(given: Given, use: Use) -> tuple[Bound, Bound]:
    is_batch = use is Use.BATCH
    latest_without_match = given.choice("startingOffsetsByTimestampStrategy", False, {"error": False, "latest": True})
    starting = _bound(
        given, "starting", refused=LATEST if is_batch else None, latest_without_match=latest_without_match
    )
    if not is_batch:
        for option in _ENDING:
            if given.text(option) is not None:
                raise InvalidConfigError(f"option {option} is not valid in a streaming query: it has no end; remove it")
    ending = _bound(given, "ending", refused=EARLIEST, latest_without_match=True)
    ending = ending or AtEnd("endingOffsets", LATEST)
    starting = starting or AtEnd("startingOffsets", EARLIEST if is_batch else LATEST)
    check_order(starting, ending)
    return starting, ending


def _bound(given: Given, side: str, *, refused: int | None, latest_without_match: bool) -> Bound | None:
    """Returns the bound from the first of these options that is given; None if none of them is.

    They are: one time for all partitions, a time per partition, offsets. ``side`` is ``starting`` or ``ending``.
    """
    one, each, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    timestamp_ms = given.instant(one)
    if timestamp_ms is not None:
        return AtTimestamp(one, timestamp_ms, latest_without_match)
    text = given.text(each)
    if text is not None:
        return AtTimestamps(each, timestamps_from_json(text, each), latest_without_match)
    text = given.text(offsets)
    return None if text is None else bound_at_offsets(offsets, text, refused=refused)


# Other groups of options


def _limits(given: Given) -> TriggerLimits:
    delay = given.text("maxTriggerDelay")
    limits = TriggerLimits(
        max_offsets=given.whole("maxOffsetsPerTrigger", LONG_MAX),
        min_offsets=given.whole("minOffsetsPerTrigger", LONG_MAX),
        max_delay_ms=MAX_TRIGGER_DELAY_MS if delay is None else time_string_ms(delay, "maxTriggerDelay"),
        max_bytes=given.whole("maxBytesPerTrigger", LONG_MAX),
    )
    if limits.min_offsets and limits.max_offsets and limits.min_offsets > limits.max_offsets:
        raise InvalidConfigError(
            f"option minOffsetsPerTrigger is {limits.min_offsets}, above maxOffsetsPerTrigger, {limits.max_offsets}: "
            "lower the first, or raise the second"
        )
    return limits


def _table(given: Given, use: Use) -> str | None:
    """Returns the location of the table in which a stream begins.

    Raises InvalidConfigError for options that need a log.
    """
    table = given.text("table")
    if table is None:
        return None
    if use is Use.BATCH:
        raise InvalidConfigError("option table is for streams: topic_table reads a table and its log in a batch")
    if given.text("subscribe") is None or "," in given.values["subscribe"]:
        raise InvalidConfigError("option table needs the option subscribe with one topic, whose rows the table has")
    for option in ("maxBytesPerTrigger", "decode", "layout"):
        if given.text(option) is not None:
            raise InvalidConfigError(f"option {option} cannot be used with option table, whose rows are no log's bytes")
    return table_location(table)


def _group_id(given: Given) -> str | None:
    group = given.text("kafka.group.id")
    if group == "":
        raise InvalidConfigError(
            "option kafka.group.id is empty: name the group for which offsets are committed, or remove the option"
        )
    return group


def _keys_by_murmur2(given: Given) -> bool:
    is_murmur2 = given.choice("keyPartitioner", False, {"any": False, "murmur2": True})
    if is_murmur2 and not given.flag("pushFilters", False):
        raise InvalidConfigError("option keyPartitioner needs pushFilters = true: only then is a key searched for")
    return is_murmur2


def _overrides(given: Given) -> tuple[tuple[str, str], ...]:
    text = given.text(MAX_DECOMPRESSED_BYTES)
    overrides = {} if text is None else {MAX_DECOMPRESSED_BYTES: text}
    LogConfig.from_mapping(overrides)
    return tuple(overrides.items())


def _isolation(given: Given) -> Isolation:
    kafkas = given.choice("kafka.isolation.level", None, _ISOLATION)
    ours = given.choice("isolation.level", None, _ISOLATION)
    if kafkas and ours and kafkas is not ours:
        raise InvalidConfigError(
            f"options kafka.isolation.level and isolation.level differ ({kafkas.value} and {ours.value}): give only one"
        )
    return kafkas or ours or Isolation.READ_COMMITTED


def _notices(given: Given, use: Use) -> list[str]:
    known = {"kafka.isolation.level", "kafka.group.id"}
    unused = [name for name in given.values if name.startswith(KAFKAS) and name not in known]
    notices = notice_of(unused + [name for name in BROKERS if given.text(name) is not None])
    if use is Use.BATCH:
        notices += [f"option {name} is ignored in batch queries" for name in _LIMITS if given.text(name) is not None]
    if use is Use.BATCH and given.text("kafka.group.id") is not None:
        notices.append("option kafka.group.id is ignored in batch queries: nothing is committed")
    return notices


def _subscription(given: Given) -> Subscription:
    found = [Subscription(how, text) for how in WAYS if (text := given.text(how)) is not None]
    if len(found) != 1:
        given_ways = " and ".join(each.how for each in found) or "none"
        raise InvalidConfigError(f"exactly one of the options {', '.join(WAYS)} must be given, not {given_ways}")
    found[0].check()
    return found[0]
