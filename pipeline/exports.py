"""The command line of the job that exports: a topic to a Delta table, or the changes of a table to a topic."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from pyspark_commitlog.pipeline.maintenance.arguments import Parser
from pyspark_commitlog.pipeline.serdes import Serde
from pyspark_commitlog.pipeline.sink import commitlog_sink
from pyspark_commitlog.pipeline.tables import Mode, absolute, changes_to_records, starting_offsets, table_sink
from pyspark_commitlog.pipeline.value_arguments import add_value_arguments
from pyspark_commitlog.pipeline.value_arguments import serde_of as _serde
from pyspark_commitlog.storage import parse_pairs


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
    given = {"subscribe": options.topic, "includeHeaders": "true"}
    given |= _given(maxOffsetsPerTrigger=options.max_offsets_per_trigger)
    if not os.path.isdir(os.path.join(options.checkpoint.removeprefix("file:"), "offsets")):
        given["startingOffsets"] = starting_offsets(spark, options.table, options.log_dir, options.topic)
    stream = spark.readStream.format("commitlog").options(**given).load(options.log_dir)
    return Query(stream, table_sink(path=options.table, mode=options.mode, serde=serde))


def _to_topic(spark: SparkSession, options: argparse.Namespace, serde: Serde | None) -> Query:
    sink = commitlog_sink(
        topic=options.topic,
        log_dir=options.log_dir,
        txnAppId=f"export-{options.topic}",
        partitions=options.partitions,
        configs=parse_pairs("--config", options.config),
    )

    def write(changes: DataFrame, batch_id: int) -> object:
        keeping = {"key": options.key, "keep_partitions": options.keep_partitions}
        return sink(changes_to_records(changes, serde=serde, **keeping), batch_id)

    given = _given(startingVersion=options.starting_version, maxFilesPerTrigger=options.max_files_per_trigger)
    reader = spark.readStream.format("delta").option("readChangeFeed", "true").options(**given)
    return Query(reader.load(absolute(options.table)), write)


def _given(**options: str | None) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}
