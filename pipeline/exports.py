"""The command line of the job that exports: a topic to a Delta table, or the changes of a table to a topic."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_commitlog.pipeline.maintenance.arguments import Parser
from pyspark_commitlog.pipeline.schema_stores import SchemaFolder, SchemaRegistry
from pyspark_commitlog.pipeline.serdes import JsonSerde, Serde
from pyspark_commitlog.pipeline.sink import commitlog_sink
from pyspark_commitlog.pipeline.tables import Mode, absolute, changes_to_records, starting_offsets, table_sink
from pyspark_commitlog.storage import InvalidConfigError, parse_pairs


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
    add("--format", default="raw", choices=["raw", "json", "avro"], help="of values: bytes, or columns (raw)")
    add("--schema", metavar="SCHEMA", help="of json: 'carrier string, delay int'; of avro: the path of a file *.avsc")
    add("--registry", metavar="URL", help="of avro: values have Confluent's header, and this registry the schemas")
    add("--schema-folder", metavar="DIR", help="the same with files <id>.avsc; without either: single objects")


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


def _serde(options: argparse.Namespace) -> Serde | None:
    if options.format == "raw":
        return None
    if options.schema is None:
        raise InvalidConfigError(f"--format {options.format} needs --schema")
    if options.format == "json":
        schema = cast(StructType, StructType.fromDDL(options.schema))
        return JsonSerde(to_arrow_schema(schema, timezone="UTC"))
    return _avro_serde(options)


def _avro_serde(options: argparse.Namespace) -> Serde:
    avro = import_module("pyspark_commitlog.pipeline.avro")  # only here: it comes with an extra
    framing = avro.SingleObject()
    if options.registry or options.schema_folder:
        store = SchemaRegistry(options.registry) if options.registry else SchemaFolder(options.schema_folder)
        framing = avro.Confluent(store, f"{options.topic}-value")
    try:
        schema = Path(options.schema).read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidConfigError(f"--schema {options.schema}: {error}; of avro it is the path of a file") from None
    serde: Serde = avro.AvroSerde(schema, framing)
    return serde
