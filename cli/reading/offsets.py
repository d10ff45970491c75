"""``commitlog offsets``: ``kafka-get-offsets`` on a log directory, with its flags and output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, NamedTuple

import typer

from ... import storage
from ..arguments import parse_record_time
from ..flags import AsJson, MaybeLogDir, TierKeys, TierUrl, TopicNames, complete_topic, located
from ..output import Column, Failures, fail, is_watched, print_json, print_table
from ..selecting import matching, matching_partitions

COLUMNS = (
    Column("TOPIC"),
    Column("PARTITION", is_number=True),
    Column("OFFSET", is_number=True),
    Column("TIMESTAMP", is_number=True),
)

Partitions = Annotated[str | None, typer.Option(help="Show only these partitions of the topics: 0,2.")]
TopicPartitions = Annotated[
    str | None,
    typer.Option(
        autocompletion=complete_topic,
        help="Use instead of --topic: orders:0,orders:2-4,cust.*:0; a range excludes its end.",
    ),
]
Time = Annotated[
    str,
    typer.Option(
        help="Show the offset of the log end (latest or -1), of the log start (earliest or -2), of the newest record "
        "(max-timestamp or -3), of the local log's start (earliest-local or -4), of the last record in the tier "
        "(latest-tiered or -5), or of the first record at or after a time: ISO 8601 (UTC by default), or ms since "
        "1970. Times of transaction markers do not count."
    ),
]
ExcludeInternal = Annotated[
    bool, typer.Option("--exclude-internal-topics", help="Leave out internal topics such as __consumer_offsets.")
]


class Found(NamedTuple):
    """An offset, with the timestamp of its record if --time asked for a record."""

    offset: int
    timestamp: int | None = None


Question = Callable[["storage.LogReader"], "Found | None"]  # quoted, so that importing this loads no engine


def offsets(  # the flags are those of kafka-get-offsets
    *,
    log_dir: MaybeLogDir = None,
    tier: TierUrl = None,
    tier_key: TierKeys = None,
    topic: TopicNames = None,
    partitions: Partitions = None,
    topic_partitions: TopicPartitions = None,
    time: Time = "latest",
    exclude_internal_topics: ExcludeInternal = False,
    as_json: AsJson = False,
) -> None:
    """Print topic:partition:offset for the log end, the log start, or a time.

    A partition without a matching record has no line. Takes no lock, so it is safe on a running broker's directory. A
    broker writes the log start to its directory only once a minute.
    """
    log_dir = located(log_dir, tier, tier_key)
    if topic_partitions is not None and (topic is not None or partitions is not None):
        raise typer.BadParameter("--topic-partitions cannot be used with --topic or --partitions")
    question = _question(time)
    with storage.LogManager.open(log_dir) as manager:
        found = matching(manager.topics(), topic, exclude_internal=exclude_internal_topics)
        chosen = matching_partitions(found, None if topic_partitions is None else topic_partitions.split(","))
        wanted = None if partitions is None else _numbers(partitions)
        chosen = [partition for partition in chosen if wanted is None or partition.partition in wanted]
        if not chosen:
            fail(f"{log_dir} has none of the requested partitions; list them with commitlog topics --describe")
        failures = Failures()
        answers = {partition: failures.attempt(partial(_ask, manager, partition, question)) for partition in chosen}
    _show({partition: answer for partition, answer in answers.items() if answer is not None}, as_json=as_json)
    failures.end()


def _ask(manager: storage.LogManager, partition: storage.TopicPartition, question: Question) -> Found | None:
    with manager.open_reader(*partition) as log:
        return question(log)


def _show(answers: Mapping[storage.TopicPartition, Found], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {"topic": topic, "partition": partition, **found._asdict()} for (topic, partition), found in answers.items()
        )
    elif is_watched():
        of_records = any(found.timestamp is not None for found in answers.values())
        columns = COLUMNS if of_records else COLUMNS[:-1]
        print_table(columns, [(*partition, *found)[: len(columns)] for partition, found in answers.items()])
    else:
        for (topic, partition), found in answers.items():
            typer.echo(f"{topic}:{partition}:{found.offset}")


def _question(time: str) -> Question:
    if time in _QUESTIONS:
        return _QUESTIONS[time]
    time_ms = parse_record_time(f"--time (it is none of {', '.join(_QUESTIONS)}):", time)
    return lambda log: _found(log.offset_for_timestamp(time_ms, storage.Isolation.READ_UNCOMMITTED))


def _found(record: storage.OffsetAndTimestamp | None) -> Found | None:
    return None if record is None else Found(record.offset, record.timestamp)


def _log_end(log: storage.LogReader) -> Found:
    log.check_readable_to(log.log_end_offset)
    return Found(log.log_end_offset)


def _log_start(log: storage.LogReader) -> Found:
    return Found(log.log_start_offset)


def _local_start(log: storage.LogReader) -> Found:
    files = log.context.filesystem
    first = files.first_local if isinstance(files, storage.PinnedTier) else None
    return Found(log.log_start_offset if first is None else max(log.log_start_offset, first))


def _newest(log: storage.LogReader) -> Found | None:
    return _found(log.offset_of_max_timestamp())


def _last_tiered(log: storage.LogReader) -> Found | None:
    """Returns None without a tier."""
    files = log.context.filesystem
    last = files.last_tiered if isinstance(files, storage.PinnedTier) else None
    return None if last is None else Found(last)


_QUESTIONS: Mapping[str, Question] = {
    **dict.fromkeys(("latest", "-1"), _log_end),
    **dict.fromkeys(("earliest", "-2"), _log_start),
    **dict.fromkeys(("max-timestamp", "-3"), _newest),
    **dict.fromkeys(("earliest-local", "-4"), _local_start),
    **dict.fromkeys(("latest-tiered", "-5"), _last_tiered),
}


def _numbers(text: str) -> set[int]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise typer.BadParameter(f"--partitions {text!r} is not of the form 0,2")
    return {int(part) for part in parts}
