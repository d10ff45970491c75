"""The loads and queries that the arguments of the export job describe."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, cast

from pyspark.sql import DataFrame, SparkSession

from ...arrow.batches import TimeBeyondSparkError
from ...arrow.values.serde import Serde
from ...classic.topic_filters import Whitelist
from ...storage import (
    INTERNAL_TOPICS,
    ConfigOverrides,
    CorruptRecordError,
    InvalidConfigError,
    LogManager,
    MissingSegmentError,
    TopicPartition,
    UnknownTopicOrPartitionError,
    parse_duration_ms,
    parse_names,
    parse_pairs,
    select_partitions,
)
from ..job.settings_files import properties
from ..locations import table_location
from ..rows.offsets import LATEST, AtOffsets, Offsets, bound_at_offsets, offsets_from_json, offsets_to_nested
from ..write.foreach_batch import commitlog_sink
from .command.words import DELTA, PARQUET, TableMode
from .loads.delta_load import DeltaLoad
from .loads.parquet_load import ParquetLoad
from .loads.topic_load import Loaded
from .loads.topic_log import DirectoryLog, TopicLog
from .parquet_folder import ParquetFolder
from .points import Points, Wanted, asked_offsets, listed
from .reload import Reloaded, load_again
from .table_and_tail.upkeep import Upkeep
from .table_progress import check_has_batches
from .tables import TableSink, changes_to_records, starting_offsets, table_sink
from .undecodable import NO_KEY
from .value_serde import serde_of as _serde

logger = logging.getLogger(__name__)

_TOPIC_FIELD = "{topic}"
_NOT_RELOADED = Reloaded({}, {}, replaced=False)
# Options that only a streaming query has, with their defaults.
_OF_QUERIES = {
    "checkpoint": None,
    "every": None,
    "optimize_every": None,
    "vacuum_every": None,
    "mode": TableMode.APPEND.value,
    "max_offsets_per_trigger": None,
    "starting_offsets": None,
    "bad_records": None,
}


def each_topic(options: argparse.Namespace) -> list[argparse.Namespace]:
    """Returns the options of each topic, with its name in place of ``{topic}`` in paths.

    Raises UnknownTopicOrPartitionError, and InvalidConfigError for a path that several topics would share, for an
    invalid pattern, and for offsets of a topic that is not exported.
    """
    topics = _topics(options)
    for flag in ("table", "checkpoint", "bad_records"):
        path = getattr(options, flag)
        if topics != [options.topic] and path is not None and _TOPIC_FIELD not in path:
            name = flag.replace("_", "-")
            raise InvalidConfigError(
                f"--{name} {path}: each topic needs its own; write {_TOPIC_FIELD} for the topic's name, such as "
                f"--{name} {path}/{_TOPIC_FIELD}"
            )
    for flag in ("from_offsets", "starting_offsets"):
        _check_exported(flag, getattr(options, flag, None), topics)
    return [_of_topic(options, topic) for topic in topics]


def _topics(options: argparse.Namespace) -> list[str]:
    names = parse_names("--topic", [options.topic])
    if (options.log_dir is None) == (_consumer(options) is None):
        raise InvalidConfigError("name the log: a directory with --log-dir, or brokers with --consumer.config")
    if options.direction == "to-topic":  # they may be new
        return names
    if options.log_dir is None:
        from ...mirror.sources.settings import sources_of  # noqa: PLC0415  needs the extra [kafka]

        with closing(sources_of(_settings(options)).open()) as source:
            return _matching(names, [each.name for each in source.topics()])
    with LogManager.open(options.log_dir) as manager:
        selection = select_partitions(manager, names, ConfigOverrides())
    found = {each.topic for each in selection.partitions}
    return sorted(found - (set(INTERNAL_TOPICS) - set(names)))


def _consumer(options: argparse.Namespace) -> str | None:
    return cast("str | None", getattr(options, "consumer_config", None))


def _settings(options: argparse.Namespace) -> dict[str, str]:
    """Returns the settings of a consumer in the file; a group is of no use to a load."""
    given = properties("--consumer.config", options.consumer_config)
    return {name: value for name, value in given.items() if name != "group.id"}


def _matching(names: list[str], there: list[str]) -> list[str]:
    """Returns the topics whose whole names match one of ``names``. Raises UnknownTopicOrPartitionError for no match."""
    found: set[str] = set()
    for name in names:
        matching = [name] if name in there else [each for each in there if Whitelist(name).allows(each)]
        if not matching:
            raise UnknownTopicOrPartitionError(f"the brokers have no topic {name!r}; they have {', '.join(there)}")
        found |= set(matching)
    return sorted(found)


def _check_exported(flag: str, text: str | None, topics: list[str]) -> None:
    option = f"--{flag.replace('_', '-')}"
    bound = None if text is None else bound_at_offsets(option, text)
    if isinstance(bound, AtOffsets) and (others := {part.topic for part in bound.offsets} - set(topics)):
        raise InvalidConfigError(f"{option} names topics that are not exported: {', '.join(sorted(others))}")


def _of_topic(options: argparse.Namespace, topic: str) -> argparse.Namespace:
    paths = {flag: getattr(options, flag) for flag in ("table", "checkpoint", "bad_records", "schema")}
    paths = {flag: text and text.replace(_TOPIC_FIELD, topic) for flag, text in paths.items()}
    return argparse.Namespace(**{**vars(options), **paths, "topic": topic})


def upkeep_of(spark: SparkSession, options: argparse.Namespace) -> Upkeep | None:
    """Returns the upkeep (compaction, vacuum) of the table while the query runs; None if the options ask for none.

    Raises InvalidConfigError without ``--every``, and for a time that cannot be read.
    """
    asked = {"OPTIMIZE": "optimize_every", "VACUUM": "vacuum_every"}
    given = {name: text for name, flag in asked.items() if (text := getattr(options, flag, None)) is not None}
    if not given:
        return None
    flags = ", ".join("--" + asked[name].replace("_", "-") for name in given)
    if options.every is None:
        raise InvalidConfigError(f"{flags} needs --every: a run that ends with the log compacts nothing")
    try:
        intervals_ms = {name: parse_duration_ms(text) for name, text in given.items()}
    except ValueError as error:
        raise InvalidConfigError(f"{flags}: {error}") from None
    return Upkeep(spark, table_location(options.table), intervals_ms)


class Query(NamedTuple):
    """The query that a command line describes: ``stream`` is its input, ``write`` its function for foreachBatch."""

    stream: DataFrame
    write: Callable[[DataFrame, int], object]
    reloaded: Reloaded = _NOT_RELOADED
    starting: str = "{}"  # the option startingOffsets


def query(spark: SparkSession, options: argparse.Namespace) -> Query:
    """Returns the query for the options of one topic, after loading again the records that they name.

    Raises InvalidConfigError, and the errors of the sources and sinks.
    """
    serde = _serde(options)
    if options.checkpoint is None:
        raise InvalidConfigError("--checkpoint is missing: name a folder in which the query stores its progress")
    return _to_table(spark, options, serde) if options.direction == "to-table" else _to_topic(spark, options, serde)


def _to_table(spark: SparkSession, options: argparse.Namespace, serde: Serde | None) -> Query:
    sink = table_sink(path=options.table, mode=options.mode, serde=serde, badRecords=options.bad_records)
    check_has_batches(spark, sink.path, options.checkpoint)
    reloaded = _loaded_again(spark, options, sink)
    starting = _starting(spark, options, reloaded.points)
    given = {"subscribe": options.topic, "includeHeaders": "true", "startingOffsets": starting}
    given |= _given(maxOffsetsPerTrigger=options.max_offsets_per_trigger, mode=_read_mode(options))
    stream = spark.readStream.format("commitlog").options(**given).load(options.log_dir)
    return Query(stream, sink, reloaded, starting)


def is_load(options: argparse.Namespace) -> bool:
    """Whether the options ask for a load to the end, not for a query with a checkpoint."""
    return options.direction == "to-table" and (options.table_format == PARQUET or options.log_dir is None)


def load(spark: SparkSession, options: argparse.Namespace) -> Loaded:
    """Loads one topic to its end. Raises InvalidConfigError, and the errors of ``ParquetLoad`` and ``DeltaLoad``."""
    is_delta = options.table_format == DELTA
    allowed = {"bad_records"} if is_delta else set()
    given = [name for name, default in _OF_QUERIES.items() if getattr(options, name) != default and name not in allowed]
    if given:
        flags = ", ".join("--" + name.replace("_", "-") for name in given)
        how = "--consumer.config" if is_delta else "--table-format parquet"
        where = "" if is_delta else ", and the next offsets are stored beside the rows"
        raise InvalidConfigError(
            f"{how} takes no {flags}: a load adds one row for each new record, up to the end of the log{where}; "
            "--from-time and --from-offsets say where to begin"
        )
    wanted, reading = Wanted(options.from_time, options.from_offsets), _given(mode=_read_mode(options))
    log, serde = _log(options), _serde(options)
    if not is_delta:
        return ParquetLoad(spark, log, wanted, reading, ParquetFolder(options.table), serde).run()
    sink = table_sink(path=options.table, serde=serde, badRecords=options.bad_records)
    return DeltaLoad(spark, log, wanted, reading, sink).run()


def _log(options: argparse.Namespace) -> TopicLog:
    if options.log_dir is None:
        from .loads.broker_log import BrokerLog  # noqa: PLC0415  needs the extra [kafka]

        return BrokerLog(_settings(options), options.topic)
    return DirectoryLog(options.log_dir, options.topic)


def _read_mode(options: argparse.Namespace) -> str | None:
    return cast("str | None", options.read_mode or options.serde_mode)  # tolerating bad values, it tolerates bad times


def _loaded_again(spark: SparkSession, options: argparse.Namespace, sink: TableSink) -> Reloaded:
    """Loads records again from the point in the options, if there is one."""
    wanted = Wanted(options.from_time, options.from_offsets)
    if not wanted:
        return _NOT_RELOADED
    if options.starting_offsets is not None:
        raise InvalidConfigError("--starting-offsets cannot be used with --from-time or --from-offsets")
    reloaded = load_again(spark, sink, options.log_dir, options.topic, wanted, _given(mode=_read_mode(options)))
    if reloaded.points:
        outcome = "rows replaced from" if reloaded.replaced else "no row differs from"
        print(f"  {options.topic}: {outcome} {listed(reloaded.points)}", flush=True)
    return reloaded


def _starting(spark: SparkSession, options: argparse.Namespace, points: Points) -> str:
    """Returns the option ``startingOffsets``; it is set at every start, as Spark uses it until a batch is committed.

    A partition without rows in the table begins at its point, if there is one.
    """
    without_rows = {TopicPartition(options.topic, number): offset for number, offset in points.items()}
    ends = starting_offsets(spark, options.table, options.log_dir, options.topic, without_rows)
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
    numbers = [each.partition for each in ends]
    found = asked_offsets("--starting-offsets", text, options.topic, numbers)
    asked = {TopicPartition(options.topic, number): offset for number, offset in found.items()}
    for partition, offset in asked.items():
        if options.mode == TableMode.APPEND.value and offset != LATEST and offset < ends[partition]:
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
    return Query(reader.load(table_location(options.table)), write)


def advice(options: argparse.Namespace, error: Exception) -> str:
    """Returns advice about a record that no table takes, or about damage, after a newline; otherwise ""."""
    if options.direction != "to-table":
        return ""
    if TimeBeyondSparkError.__name__ in str(error):
        return "\nTo continue with the same --checkpoint, use --read-mode permissive, which reads such times as null"
    if any(lost.__name__ in str(error) for lost in (MissingSegmentError, CorruptRecordError)):
        return "\nTo copy what remains, use --read-mode dropmalformed, which counts what is missing"
    if "SerializationError" not in str(error) and NO_KEY not in str(error):
        return ""
    return (
        "\nTo continue with the same --checkpoint, use --bad-records PATH, which writes such records to another table, "
        "or --serde-mode permissive, which reads values that do not decode as null"
    )


def _given(**options: str | None) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}
