"""The arguments of the export job: topics to tables, or the changes of Delta tables to topics."""

from __future__ import annotations

import argparse
from os import environ

from ...job.command_line import Parser
from ...rows.read_mode import ReadMode
from .value_arguments import add_value_arguments
from .words import DELTA, FROM_OFFSETS, FROM_TIME, PARQUET, TableMode

_TOPIC = (
    "the topic, or several: names separated by commas, and for to-table also regular expressions for whole names; may "
    "be repeated. {topic} in --table, --checkpoint, --bad-records and --schema stands for the name of each"
)
_TABLE_FORMAT = (
    "delta, or parquet: a folder of Parquet files with a file of offsets, loaded once to the end without a checkpoint; "
    "read PATH/current (default: delta)"
)
_CONSUMER = (
    "in place of --log-dir: load from the brokers of any Kafka, by a file with bootstrap.servers, or zookeeper.connect "
    "for Kafka 0.8, and other settings of a consumer; each run loads up to the end, without a checkpoint"
)
_STARTING = (
    'where to begin with a new checkpoint: \'{"flights": {"0": 7}}\', earliest or latest; partitions that are not '
    "named begin where the table ends (default: where the table ends)"
)
_FROM_TIME = (
    "first load again, in one commit, what the log has at or after this time: ISO 8601 (UTC by default), or ms since "
    "1970; the table's rows from there on are replaced. A new table begins there"
)
_FROM_OFFSETS = (
    'as --from-time, from these offsets: \'{"flights": {"0": 7}}\', or earliest; other partitions are not loaded again'
)
_READ_MODE = (
    "dropmalformed: skip damaged record batches and missing segments; permissive: read a time that does not fit "
    "Spark's timestamps as null; "
    "failfast: end the job for either (default: failfast, or permissive with --serde-mode permissive)"
)
_BAD_RECORDS = (
    "a Delta table for records that do not decode or, with --mode upsert, have no key: their bytes, offset, and the "
    "reason (default: such a record ends the job)"
)


def parser(description: str | None, prog: str | None = None) -> argparse.ArgumentParser:
    """Returns a parser with the commands ``to-table`` and ``to-topic``."""
    whole = Parser(prog=prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = whole.add_subparsers(dest="direction", required=True, metavar="DIRECTION")
    to_table = commands.add_parser("to-table", help="copy the records of topics to tables")
    to_topic = commands.add_parser("to-topic", help="copy the changes of Delta tables to topics")
    for command in (to_table, to_topic):
        _add_common(command)
    _add_to_table(to_table)
    _add_to_topic(to_topic)
    return whole


def with_log(options: argparse.Namespace) -> argparse.Namespace:
    """Returns the options; ``log_dir`` is COMMITLOG_LOG_DIR if they name no log."""
    named = {options.log_dir, getattr(options, "consumer_config", None)} - {None}
    return options if named else argparse.Namespace(**{**vars(options), "log_dir": environ.get("COMMITLOG_LOG_DIR")})


def _add_to_table(command: argparse.ArgumentParser) -> None:
    command.add_argument("--consumer.config", dest="consumer_config", metavar="FILE", help=_CONSUMER)
    command.add_argument("--table-format", default=DELTA, choices=[DELTA, PARQUET], help=_TABLE_FORMAT)
    command.add_argument(
        "--mode",
        default="append",
        choices=[each.value for each in TableMode],
        help="append: one row per record; upsert: one row per key (default: append)",
    )
    command.add_argument(
        "--max-offsets-per-trigger", metavar="N", help="about how many records per micro-batch (default: all)"
    )
    command.add_argument("--starting-offsets", metavar="JSON", help=_STARTING)
    command.add_argument(FROM_TIME, metavar="TIME", help=_FROM_TIME)
    command.add_argument(FROM_OFFSETS, metavar="JSON", help=_FROM_OFFSETS)
    command.add_argument("--read-mode", choices=[each.value for each in ReadMode], help=_READ_MODE)
    command.add_argument("--bad-records", metavar="PATH", help=_BAD_RECORDS)
    for flag, what in (("--optimize-every", "compact small files of"), ("--vacuum-every", "remove old files of")):
        text = f"with --every: also {what} the table, between two micro-batches, every TIME, such as '1 hour'"
        command.add_argument(flag, metavar="TIME", help=text)


def _add_to_topic(command: argparse.ArgumentParser) -> None:
    command.add_argument("--bad-records", metavar="TOPIC", help="a topic for rows that --topic refuses (default: fail)")
    command.add_argument(
        "--key", metavar="COLUMN", help="the column with the key, if the table was not exported from a topic"
    )
    command.add_argument("--keep-partitions", action="store_true", help="write to the partition in column _partition")
    command.add_argument(
        "--starting-version",
        metavar="N",
        help="the first table version to copy (default: first a snapshot of the table)",
    )
    command.add_argument("--max-files-per-trigger", metavar="N", help="files per micro-batch (default: 1,000)")
    command.add_argument("--partitions", type=int, metavar="N", help="partitions of a new topic (default: 1)")
    command.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="a setting of a new topic")


class _Joined(argparse.Action):
    """Joins the values of a repeated option by commas."""

    def __call__(self, _parser: object, options: argparse.Namespace, value: object, _option: object = None) -> None:
        given = getattr(options, self.dest)
        setattr(options, self.dest, value if given is None else f"{given},{value}")


def _add_common(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--log-dir", help="the log directory, as in Kafka's log.dirs (default: COMMITLOG_LOG_DIR)")
    add("-t", "--topic", "--topics", required=True, action=_Joined, metavar="NAMES", help=_TOPIC)
    add("--table", required=True, metavar="PATH", help="the table; with several topics, each its own: data/{topic}")
    add("--checkpoint", metavar="DIR", help="the query's checkpoint, from which it resumes; for Delta tables")
    add("--every", metavar="TIME", help="continue until stopped, with a micro-batch every TIME, such as '10 seconds'")
    add_value_arguments(command)
