"""Draws options for queries and streams, and computes what a query must return."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from random import Random

from tests.support.spark.kafka_source import FIRST_MS
from tests.torture.beside_spark.topics import Content

Options = dict[str, str]
Topics = Mapping[str, Content]
Chosen = dict[str, list[int]]  # partitions by topic

EARLIEST, LATEST = -2, -1
PATTERNS = ("plain.*", "drawn.[01]", "^.*too$", "txn|gap", "drawn.*|empty", "o")


def draw_query(chance: Random, topics: Topics) -> tuple[Options, Chosen]:
    """Draws the options of a batch query, and the partitions that it reads."""
    options, chosen = _draw_topics(chance, topics)
    options |= _draw_bound(chance, topics, chosen, "starting") | _draw_bound(chance, topics, chosen, "ending")
    return options | _draw_rest(chance), chosen


def draw_stream(chance: Random, topics: Topics) -> tuple[Options, Chosen]:
    """Draws the options of a stream, and the partitions that it reads."""
    options, chosen = _draw_topics(chance, topics)
    options |= _draw_bound(chance, topics, chosen, "starting")
    if chance.random() < 0.5:
        options.setdefault("startingOffsets", "earliest")
    return options | _draw_rest(chance), chosen


def draw_limit(chance: Random) -> Options:
    """Draws the limit of a run's micro-batches."""
    return {} if chance.random() < 0.3 else {"maxOffsetsPerTrigger": str(chance.randint(15, 200))}


def _draw_topics(chance: Random, topics: Topics) -> tuple[Options, Chosen]:
    way = chance.choice(("subscribe", "subscribe", "assign", "subscribePattern"))
    if way == "subscribePattern":
        pattern = chance.choice(PATTERNS)
        return {way: pattern}, {name: [*topics[name].partitions] for name in topics if re.search(pattern, name)}
    names = chance.sample(sorted(topics), chance.randint(1, 3))
    if way == "subscribe":
        return {way: " , ".join(names)}, {name: [*topics[name].partitions] for name in names}
    chosen = {name: _some(chance, topics[name].partitions) for name in names}
    return {way: json.dumps(chosen)}, chosen


def _some(chance: Random, partitions: range) -> list[int]:
    return sorted(chance.sample(partitions, chance.randint(1, len(partitions))))


def _draw_bound(chance: Random, topics: Topics, chosen: Chosen, which: str) -> Options:
    """Draws a start or an end: none, a word, offsets, a time, or times."""
    way = chance.choice(("none", "word", "offsets", "offsets", "time", "times"))
    is_start = which == "starting"
    strategy = {"startingOffsetsByTimestampStrategy": chance.choice(("latest", "error"))} if is_start else {}
    match way:
        case "word":
            return {f"{which}Offsets": "earliest" if is_start else "latest"}
        case "offsets":
            return {f"{which}Offsets": _each(chosen, lambda *at: _offset(chance, topics, *at, is_start=is_start))}
        case "time":
            return {f"{which}Timestamp": str(_time(chance)), **(strategy if chance.random() < 0.7 else {})}
        case "times":
            times = {f"{which}OffsetsByTimestamp": _each(chosen, lambda *_: _time(chance))}
            return times | (strategy if chance.random() < 0.7 else {})
    return {}


def _each(chosen: Chosen, drawn: Callable[[str, int], int]) -> str:
    return json.dumps({name: {str(each): drawn(name, each) for each in chosen[name]} for name in chosen})


def _offset(chance: Random, topics: Topics, name: str, partition: int, *, is_start: bool) -> int:
    """Mostly an offset in the first half of the log for a start, in the second for an end; seldom one outside."""
    start, end = topics[name].starts[partition], topics[name].ends[partition]
    middle = (start + end) // 2
    if chance.random() < 0.25:
        return EARLIEST if is_start else LATEST
    if chance.random() < 0.02:
        return chance.choice((max(start - 1, 0), end + 1))
    if chance.random() < 0.1:
        return chance.randint(start, end)
    return chance.randint(start, middle) if is_start else chance.randint(middle, end)


def _time(chance: Random) -> int:
    """A time of some records, mostly; those of the third partition of the topic ``plain`` are two hours younger."""
    return FIRST_MS + chance.choice((chance.randint(-5, 80) * 1000, chance.randint(0, 90_000), 7_200_000, -(10**9)))


def _draw_rest(chance: Random) -> Options:
    """Options with which rows are the same, or have one more column."""
    every = {
        "includeHeaders": "true",
        "minPartitions": str(chance.randint(1, 20)),
        "maxRecordsPerPartition": str(chance.randint(1, 60)),
        "failOnDataLoss": "false",
        "kafka.isolation.level": "read_committed",
    }
    return {name: value for name, value in every.items() if chance.random() < 0.35}
