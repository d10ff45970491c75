"""How the costs of a gateway grow with its groups: 10, 100 and 1,000, each with offsets of ten partitions.

The offsets are committed by ten connections, each of which waits for an answer before its next request; each group
commits as often as the others, and each commit is synced. Groups have no members. Restarted: from the start of the
process until the offsets of the last group are answered.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from benchmarks.comparison import Series, Setting, series_of
from benchmarks.gateway_members import NOT_READY, Connection
from benchmarks.gateway_servers import Gateway
from benchmarks.timing import Timing, time_call

GROUPS = (10, 100, 1_000)
PARTITIONS = 10
COMMITS = 1_000  # at least, and two of each group
CONNECTIONS = 10
TIMEOUT_S = 120
POLLED_S = 0.05
TOPIC = "read"
COMMIT = (8, 5)  # a kind and version of requests
PLOT = "a gateway of many groups"


def measure(setting: Setting) -> Iterator[Series]:
    seconds: dict[float, dict[str, Timing]] = {}
    sizes: dict[float, dict[str, Timing]] = {}
    for groups in sorted({max(2, setting.sized(size)) for size in GROUPS}):
        found, on_disk = _of(setting.directory / str(groups), groups, max(setting.sized(COMMITS), 2 * groups))
        seconds[groups] = {line: Timing.of([figure]) for line, figure in found.items()}
        sizes[groups] = {"__consumer_offsets": Timing.of([on_disk])}
    yield from series_of(PLOT, "groups", seconds)
    yield from series_of(f"bytes: {PLOT}", "groups", sizes, unit="bytes")


def _of(directory: Path, groups: int, commits: int) -> tuple[dict[str, float], int]:
    """Seconds of each operation, and the bytes of the topic of groups."""
    names = [f"group-{number}" for number in range(groups)]
    with Gateway(directory) as gateway:
        gateway.create(TOPIC, PARTITIONS)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found = {"a commit": pool.apply(_commit_all, (gateway.bootstrap, names, commits)) / commits}
        found |= _asked(gateway.bootstrap, names)
    began = time.perf_counter()
    with Gateway(directory) as gateway:
        _wait_until_loaded(AdminClient({"bootstrap.servers": gateway.bootstrap, "log_level": 3}), names[-1])
        found["restarted"] = time.perf_counter() - began
    return found, sum(file.stat().st_size for file in directory.glob("__consumer_offsets-*/*.log"))


def _asked(bootstrap: str, names: list[str]) -> dict[str, float]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    return {
        "list all": time_call(partial(_list, admin, len(names))),
        "describe all": time_call(partial(_describe, admin, names)),
        "offsets of one": time_call(partial(_offsets, admin, names[-1])),
    }


def _list(admin: AdminClient, groups: int) -> None:
    found = admin.list_consumer_groups().result(TIMEOUT_S)
    if len(found.valid) != groups:
        raise ValueError(f"{len(found.valid)} groups, where {groups} were expected")


def _describe(admin: AdminClient, names: list[str]) -> None:
    for future in admin.describe_consumer_groups(names).values():
        future.result(TIMEOUT_S)


def _offsets(admin: AdminClient, name: str) -> None:
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)]).values()
    found = future.result(TIMEOUT_S).topic_partitions
    if len(found) != PARTITIONS:
        raise ValueError(f"{len(found)} offsets, where {PARTITIONS} were expected")


def _wait_until_loaded(admin: AdminClient, name: str) -> None:
    while True:
        try:
            return _offsets(admin, name)
        except KafkaException as error:
            if error.args[0].code() not in NOT_READY:
                raise
        time.sleep(POLLED_S)


# In a process of its own


def _commit_all(bootstrap: str, names: list[str], commits: int) -> float:
    return asyncio.run(asyncio.wait_for(_all(bootstrap, names, commits), TIMEOUT_S))


async def _all(bootstrap: str, names: list[str], commits: int) -> float:
    """Seconds of the commits, after a first one of each connection."""
    connections = [await Connection.to(bootstrap) for _ in range(min(CONNECTIONS, len(names)))]
    await connections[0].find(names[0])
    await asyncio.gather(*(_commit(each, names[0], 0) for each in connections))
    began = time.perf_counter()
    waiting = iter([(names[number % len(names)], number) for number in range(commits)])
    await asyncio.gather(*(_commit_each(each, waiting) for each in connections))
    seconds = time.perf_counter() - began
    for each in connections:
        each.close()
    return seconds


async def _commit_each(connection: Connection, waiting: Iterator[tuple[str, int]]) -> None:
    for name, number in waiting:
        await _commit(connection, name, number)


async def _commit(connection: Connection, name: str, offset: int) -> None:
    places = [
        {"partition_index": each, "committed_offset": offset, "committed_metadata": ""} for each in range(PARTITIONS)
    ]
    fields = {"group_id": name, "generation_id_or_member_epoch": -1, "member_id": ""}
    while True:
        answer = await connection.ask(COMMIT, **fields, topics=[{"name": TOPIC, "partitions": places}])
        errors = {each.error_code for topic in answer.topics for each in topic.partitions}
        if errors == {0}:
            return
        if not errors <= {*NOT_READY}:
            raise RuntimeError(f"a commit was answered with errors {errors}")
        await asyncio.sleep(POLLED_S)
