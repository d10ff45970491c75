"""Consumers of Kafka's protocol: our gateway beside a broker of Kafka 3.9.1, in turn.

``kafka-consumer-perf-test``, three clients of librdkafka with a partition each, and Kafka's ``EndToEndLatency``.
Records have 1 KB, and are in the page cache. Then a record that the engine appends in another process, as Spark does,
at a consumer that waits.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from benchmarks import gateway_clients, gateway_tools
from benchmarks.comparison import Comparison, Ratio, Setting
from benchmarks.gateway_appends import seen_after
from benchmarks.gateway_turns import AGAINST, Side, cpu_row, in_turn, of_topic, servers, time_row
from benchmarks.timing import Timing

RECORDS = 1_000_000
LATENCY_RECORDS = 2_000
CONSUMERS = 3
SYNCS = 200
SEEN_WITHIN_S = 0.01


def measure(setting: Setting) -> Iterator[Comparison]:
    with servers(setting.directory) as sides:
        yield from reading(setting, sides)
        yield from latency(setting, sides)
        yield appended_by_others(setting, sides["synced"])


def reading(setting: Setting, sides: Mapping[str, Side]) -> Iterator[Comparison]:
    """Rows of the tool and of three clients."""
    records = setting.sized(RECORDS)
    each, size = records // CONSUMERS, records * gateway_clients.VALUE_BYTES
    both = {side: sides[side] for side in ("kafka", "synced")}
    for server, _ in both.values():
        server.create("one")
        gateway_tools.produce(server.bootstrap, "one", records, gateway_clients.VALUE_BYTES, gateway_tools.TUNED)
        server.create("three", CONSUMERS)
        gateway_clients.produce(server.bootstrap, "three", 2**18, each, clients=CONSUMERS)
    found = of_topic(both, partial(gateway_tools.consume, records=records), setting.rounds, "one")
    yield time_row("consumer-perf, 1 GB", found["synced"], found["kafka"], 1.0, 1.2)
    yield cpu_row("consumer-perf", size, found["synced"], found["kafka"], 1.0, 0.8)
    work = partial(gateway_clients.consume, records=each, clients=CONSUMERS)
    found = of_topic(both, work, setting.rounds, "three")
    yield time_row(f"{CONSUMERS} consumers, 1 GB", found["synced"], found["kafka"], 0.9, 1.0)
    yield cpu_row(f"{CONSUMERS} consumers", size, found["synced"], found["kafka"], 1.0, 0.8)


def latency(setting: Setting, sides: Mapping[str, Side]) -> Iterator[Comparison]:
    """Rows of the time from a producer to a waiting consumer, synced compared with Kafka's and the time of one sync."""
    work = partial(gateway_tools.end_to_end, records=setting.sized(LATENCY_RECORDS))
    found = in_turn(sides, work, setting.rounds, name="latency")
    sync_s = time_sync(setting.directory / "synced")
    theirs = found["kafka"].seconds
    yield Comparison(
        "end to end, average, unsynced", AGAINST, found["unsynced"].seconds, theirs, 1.15, 1.0, Ratio.SLOWER
    )
    with_sync = Timing(*(seconds + sync_s for seconds in theirs))
    yield Comparison(
        "end to end, average, synced",
        f"{AGAINST} and a sync",
        found["synced"].seconds,
        with_sync,
        1.15,
        1.0,
        Ratio.SLOWER,
    )


def time_sync(path: Path) -> float:
    """Average seconds of an append of a small batch and its sync."""
    seconds = []
    with path.open("wb", buffering=0) as file:
        for _ in range(SYNCS):
            file.write(bytes(200))
            began_s = time.perf_counter()
            os.fdatasync(file.fileno())
            seconds.append(time.perf_counter() - began_s)
    return statistics.mean(seconds)


def appended_by_others(setting: Setting, side: Side) -> Comparison:
    each = []
    for number in range(setting.rounds):
        topic = f"others-{number}"  # empty, so that the first record read is the first one appended
        side.server.create(topic)
        each.append(seen_after(side.server.bootstrap, setting.directory / "ours", topic))
    allowed = Timing.of([SEEN_WITHIN_S])
    return Comparison(
        "a record by the engine at a waiting consumer, median", "10 ms", Timing.of(each), allowed, 1, ratio=Ratio.SLOWER
    )
