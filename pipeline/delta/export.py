"""The command line of the export job: a topic to a Delta table, or the changes of a table to a topic."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

from pyspark.sql import DataFrame, SparkSession

from ...storage import InvalidConfigError, parse_pairs
from ..job import Parser
from ..read import Mode as ReadMode
from ..rows import (
    LATEST,
    AtEnd,
    AtOffsets,
    Offsets,
    TimeBeyondSparkError,
    bound_at_offsets,
    offsets_from_json,
    offsets_to_nested,
)
from ..values import Serde
from ..write import commitlog_sink
from .tables import Mode, absolute, changes_to_records, starting_offsets, table_sink
from .undecodable import NO_KEY
from .value_arguments import add_value_arguments, serde_of as _serde

logger = logging.getLogger(__name__)

_STARTING = (
    'where to begin with a new checkpoint: \'{"flights": {"0": 7}}\', earliest or latest; partitions that are not '
    "named begin where the table ends (default: where the table ends)"
)
_READ_MODE = (
    "dropmalformed: skip damaged record batches; permissive: read a time that does not fit Spark's timestamps as null; "
    "failfast: end the job for either (default: failfast, or permissive with --serde-mode permissive)"
)
_BAD_RECORDS = (
    "a Delta table for records that do not decode or, with --mode upsert, have no key: their bytes, offset, and the "
    "reason (default: such a record ends the job)"
)


def parser(description: str | None) -> argparse.ArgumentParser:
    """Returns a parser with the commands ``to-table`` and ``to-topic``."""
    whole = Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = whole.add_subparsers(dest="direction", required=True, metavar="DIRECTION")
    to_table = commands.add_parser("to-table", help="copy the records of a topic to a Delta table")
    to_topic = commands.add_parser("to-topic", help="copy the changes of a Delta table to a topic")
    for command in (to_table, to_topic):
        _add_common(command)
    to_table.add_argument(
        "--mode",
        default="append",
        choices=[each.value for each in Mode],
        help="append: one row per record; upsert: one row per key (default: append)",
    )
    to_table.add_argument(
        "--max-offsets-per-trigger", metavar="N", help="about how many records per micro-batch (default: all)"
    )
    to_table.add_argument("--starting-offsets", metavar="JSON", help=_STARTING)
    to_table.add_argument("--read-mode", choices=[each.value for each in ReadMode], help=_READ_MODE)
    to_table.add_argument("--bad-records", metavar="PATH", help=_BAD_RECORDS)
    to_topic.add_argument(
        "--bad-records", metavar="TOPIC", help="a topic for rows that --topic refuses (default: fail)"
    )
    to_topic.add_argument(
        "--key", metavar="COLUMN", help="the column with the key, if the table was not exported from a topic"
    )
    to_topic.add_argument("--keep-partitions", action="store_true", help="write to the partition in column _partition")
    to_topic.add_argument(
        "--starting-version",
        metavar="N",
        help="the first table version to copy (default: first a snapshot of the table)",
    )
    to_topic.add_argument("--max-files-per-trigger", metavar="N", help="files per micro-batch (default: 1,000)")
    to_topic.add_argument("--partitions", type=int, metavar="N", help="partitions of a new topic (default: 1)")
    to_topic.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="a setting of a new topic")
    return whole


def _add_common(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--log-dir", required=True, help="the log directory, as in Kafka's log.dirs")
    add("--topic", required=True, help="the topic")
    add("--table", required=True, metavar="PATH", help="the Delta table")
    add("--checkpoint", required=True, metavar="DIR", help="the query's checkpoint, from which it resumes")
    add("--every", metavar="TIME", help="continue until stopped, with a micro-batch every TIME, such as '10 seconds'")
    add_value_arguments(command)


class Query(NamedTuple):
    """The query that a command line describes: ``stream`` is its input, ``write`` its function for foreachBatch."""

    stream: DataFrame
    write: Callable[[DataFrame, int], object]


def query(spark: SparkSession, options: argparse.Namespace) -> Query:
    """Returns the query for the options. Raises InvalidConfigError, and the errors of the sources and sinks."""
    serde = _serde(options)
    return _to_table(spark, options, serde) if options.direction == "to-table" else _to_topic(spark, options, serde)


def _to_table(spark: SparkSession, options: argparse.Namespace, serde: Serde | None) -> Query:
    sink = table_sink(path=options.table, mode=options.mode, serde=serde, badRecords=options.bad_records)
    given = {"subscribe": options.topic, "includeHeaders": "true", "startingOffsets": _starting(spark, options)}
    read_mode = options.read_mode or options.serde_mode  # a job that tolerates bad values tolerates bad times, too
    given |= _given(maxOffsetsPerTrigger=options.max_offsets_per_trigger, mode=read_mode)
    return Query(spark.readStream.format("commitlog").options(**given).load(options.log_dir), sink)


def _starting(spark: SparkSession, options: argparse.Namespace) -> str:
    """Returns the option ``startingOffsets``; it is set at every start, as Spark uses it until a batch is committed."""
    ends = starting_offsets(spark, options.table, options.log_dir, options.topic)
    if options.starting_offsets is None:
        return ends
    if _has_batches(options.checkpoint, "commits"):
        logger.warning("--starting-offsets has no effect: the query resumes from checkpoint %s", options.checkpoint)
        return ends
    if _has_batches(options.checkpoint, "offsets"):
        raise InvalidConfigError(
            f"--starting-offsets: --checkpoint {options.checkpoint} has a failed micro-batch that was planned from "
            "other offsets; give a new --checkpoint"
        )
    return _asked(options.starting_offsets, offsets_from_json(ends, "startingOffsets"), options)


def _has_batches(checkpoint: str, folder: str) -> bool:
    """Whether the folder ``offsets`` or ``commits`` of a local checkpoint has an entry."""
    entries = Path(checkpoint.removeprefix("file:"), folder)
    return entries.is_dir() and any(entry.name.isdecimal() for entry in entries.iterdir())


def _asked(text: str, ends: Offsets, options: argparse.Namespace) -> str:
    """Returns the offsets in ``text`` as JSON; partitions that it does not name start where the table ends (``ends``).

    Raises InvalidConfigError for an unknown partition, and if the table would get rows twice.
    """
    bound = bound_at_offsets("--starting-offsets", text)
    asked = dict.fromkeys(ends, bound.end) if isinstance(bound, AtEnd) else cast(AtOffsets, bound).offsets
    if unknown := asked.keys() - ends.keys():
        raise InvalidConfigError(
            f"--starting-offsets: the topic has no partition {', '.join(map(str, sorted(unknown)))}"
        )
    for partition, offset in asked.items():
        if options.mode == Mode.APPEND.value and offset != LATEST and offset < ends[partition]:
            raise InvalidConfigError(
                f"--starting-offsets: the table has the rows of {partition} up to offset {ends[partition] - 1}, and "
                "would get them twice; begin after that offset, or export to another table"
            )
    return json.dumps(offsets_to_nested(ends | asked))


def _to_topic(spark: SparkSession, options: argparse.Namespace, serde: Serde | None) -> Query:
    sink = commitlog_sink(
        topic=options.topic,
        log_dir=options.log_dir,
        txnAppId=f"export-{options.topic}",
        partitions=options.partitions,
        configs=parse_pairs("--config", options.config),
        badRecords=options.bad_records,
    )

    def write(changes: DataFrame, batch_id: int) -> object:
        keeping = {"key": options.key, "keep_partitions": options.keep_partitions}
        return sink(changes_to_records(changes, serde=serde, **keeping), batch_id)

    given = _given(startingVersion=options.starting_version, maxFilesPerTrigger=options.max_files_per_trigger)
    reader = spark.readStream.format("delta").option("readChangeFeed", "true").options(**given)
    return Query(reader.load(absolute(options.table)), write)


def advice(options: argparse.Namespace, error: Exception) -> str:
    """Returns advice about an error that a single record caused, with a newline before it; "" for other errors."""
    if options.direction != "to-table":
        return ""
    if TimeBeyondSparkError.__name__ in str(error):
        return "\nTo continue with the same --checkpoint, use --read-mode permissive, which reads such times as null"
    if "SerializationError" not in str(error) and NO_KEY not in str(error):
        return ""
    return (
        "\nTo continue with the same --checkpoint, use --bad-records PATH, which writes such records to another table, "
        "or --serde-mode permissive, which reads values that do not decode as null"
    )


def _given(**options: str | None) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}
