"""The command line of the job that exports: a topic to a Delta table, or the changes of a table to a topic."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

from pyspark.sql import DataFrame, SparkSession

from pyspark_commitlog.pipeline.arrow import TimeBeyondSparkError
from pyspark_commitlog.pipeline.maintenance.arguments import Parser
from pyspark_commitlog.pipeline.offsets import (
    LATEST,
    AtEnd,
    AtOffsets,
    Offsets,
    bound_at_offsets,
    offsets_from_json,
    offsets_to_nested,
)
from pyspark_commitlog.pipeline.options import Mode as ReadMode
from pyspark_commitlog.pipeline.serdes import Serde
from pyspark_commitlog.pipeline.sink import commitlog_sink
from pyspark_commitlog.pipeline.tables import Mode, absolute, changes_to_records, starting_offsets, table_sink
from pyspark_commitlog.pipeline.undecodable import NO_KEY
from pyspark_commitlog.pipeline.value_arguments import add_value_arguments
from pyspark_commitlog.pipeline.value_arguments import serde_of as _serde
from pyspark_commitlog.storage import InvalidConfigError, parse_pairs

logger = logging.getLogger(__name__)

_STARTING = (
    'where a new checkpoint begins, \'{"flights": {"0": 7}}\', earliest or latest; partitions that it does not name '
    "begin where the table ends, as all do without it"
)
_READ_MODE = (
    "dropmalformed: damaged record batches are passed over; permissive: a time that no timestamp of Spark's holds is "
    "null (failfast: both end the job; with --serde-mode permissive: permissive)"
)
_BAD_RECORDS = (
    "of a Delta table for records that do not decode or, with --mode upsert, have no key: their bytes, where they lie, "
    "and the reason (such a record ends the job)"
)


def parser(description: str | None) -> argparse.ArgumentParser:
    """One with the commands ``to-table`` and ``to-topic``."""
    whole = Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = whole.add_subparsers(dest="direction", required=True, metavar="DIRECTION")
    to_table = commands.add_parser("to-table", help="records of a topic into a Delta table")
    to_topic = commands.add_parser("to-topic", help="changes of a Delta table into a topic")
    for command in (to_table, to_topic):
        _add_common(command)
    to_table.add_argument("--mode", default="append", choices=[each.value for each in Mode], help="(append)")
    to_table.add_argument("--max-offsets-per-trigger", metavar="N", help="records of a micro-batch, about (all)")
    to_table.add_argument("--starting-offsets", metavar="JSON", help=_STARTING)
    to_table.add_argument("--read-mode", choices=[each.value for each in ReadMode], help=_READ_MODE)
    to_table.add_argument("--bad-records", metavar="PATH", help=_BAD_RECORDS)
    to_topic.add_argument("--bad-records", metavar="TOPIC", help="for rows that the topic does not take (it fails)")
    to_topic.add_argument("--key", metavar="COLUMN", help="with the key, of a table that no topic was exported to")
    to_topic.add_argument("--keep-partitions", action="store_true", help="records go where _partition says")
    to_topic.add_argument("--starting-version", metavar="N", help="of the table (a snapshot of now, then what follows)")
    to_topic.add_argument("--max-files-per-trigger", metavar="N", help="files of a micro-batch (1,000)")
    to_topic.add_argument("--partitions", type=int, metavar="N", help="of a topic that is to be made (1)")
    to_topic.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="of such a topic")
    return whole


def _add_common(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--log-dir", required=True, help="the log directory: what log.dirs names")
    add("--topic", required=True, help="its name")
    add("--table", required=True, metavar="PATH", help="of the Delta table")
    add("--checkpoint", required=True, metavar="DIR", help="of the query, which goes on from there")
    add("--every", metavar="TIME", help="go on until stopped, a micro-batch every so often: '10 seconds'")
    add_value_arguments(command)


class Query(NamedTuple):
    """What a command line asks for: ``write`` is for foreachBatch."""

    stream: DataFrame
    write: Callable[[DataFrame, int], object]


def query(spark: SparkSession, options: argparse.Namespace) -> Query:
    """Raises InvalidConfigError, and as the sources and sinks do."""
    serde = _serde(options)
    return _to_table(spark, options, serde) if options.direction == "to-table" else _to_topic(spark, options, serde)


def _to_table(spark: SparkSession, options: argparse.Namespace, serde: Serde | None) -> Query:
    sink = table_sink(path=options.table, mode=options.mode, serde=serde, badRecords=options.bad_records)
    given = {"subscribe": options.topic, "includeHeaders": "true", "startingOffsets": _starting(spark, options)}
    read_mode = options.read_mode or options.serde_mode  # asked to go on at a value, it does at a time as well
    given |= _given(maxOffsetsPerTrigger=options.max_offsets_per_trigger, mode=read_mode)
    return Query(spark.readStream.format("commitlog").options(**given).load(options.log_dir), sink)


def _starting(spark: SparkSession, options: argparse.Namespace) -> str:
    """Where the query begins while no micro-batch is committed, of which Spark alone knows: so it is always said."""
    ends = starting_offsets(spark, options.table, options.log_dir, options.topic)
    if options.starting_offsets is None:
        return ends
    if _has_batches(options.checkpoint, "commits"):
        logger.warning("--starting-offsets changes nothing: %s goes on where it is", options.checkpoint)
        return ends
    if _has_batches(options.checkpoint, "offsets"):
        raise InvalidConfigError(
            f"--starting-offsets: --checkpoint {options.checkpoint} has a micro-batch that was planned from somewhere "
            "else, and failed; give a new --checkpoint"
        )
    return _asked(options.starting_offsets, offsets_from_json(ends, "startingOffsets"), options)


def _has_batches(checkpoint: str, folder: str) -> bool:
    """Whether ``offsets`` or ``commits`` of a checkpoint in a local folder has an entry."""
    entries = Path(checkpoint.removeprefix("file:"), folder)
    return entries.is_dir() and any(entry.name.isdecimal() for entry in entries.iterdir())


def _asked(text: str, ends: Offsets, options: argparse.Namespace) -> str:
    """``text`` over where the table ends. Raises InvalidConfigError where rows would be in the table twice."""
    bound = bound_at_offsets("--starting-offsets", text)
    asked = dict.fromkeys(ends, bound.end) if isinstance(bound, AtEnd) else cast(AtOffsets, bound).offsets
    if unknown := asked.keys() - ends.keys():
        raise InvalidConfigError(f"--starting-offsets: there is no partition {', '.join(map(str, sorted(unknown)))}")
    for partition, offset in asked.items():
        if options.mode == Mode.APPEND.value and offset != LATEST and offset < ends[partition]:
            raise InvalidConfigError(
                f"--starting-offsets: the table has the rows of {partition} up to offset {ends[partition] - 1}, and "
                "would have them twice; begin there or after it, or export to another table"
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
    """What to do about an error that one record is the cause of, on a line of its own; else nothing."""
    if options.direction != "to-table":
        return ""
    if TimeBeyondSparkError.__name__ in str(error):
        return "\nTo go on with the same --checkpoint: --read-mode permissive makes such times null"
    if "SerializationError" not in str(error) and NO_KEY not in str(error):
        return ""
    return (
        "\nTo go on with the same --checkpoint: --bad-records PATH keeps such records in a table of their own, "
        "--serde-mode permissive makes values that do not decode null"
    )


def _given(**options: str | None) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}
