"""TLS and logins: our gateway beside a broker of Kafka 3.9.1 with listeners of the same kinds, in turn.

``kafka-producer-perf-test`` with acks=all and its defaults, then ``kafka-consumer-perf-test``, with records of 1 KB:
over TLS 1.3, with logins by SCRAM-SHA-512, and over TLS 1.3 with logins by PLAIN. All runs are in one JVM: one that
starts cold takes longer than the servers do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.comparison import Comparison, Setting
from benchmarks.gateway_listeners import LISTENERS, PASSWORD, TLS_ALONE, TLS_AND_PLAIN, USER, Keys, Listener, addresses
from benchmarks.gateway_servers import UNSYNCED, AtListener, Gateway, Kafka, Server
from benchmarks.gateway_tools import WarmTools, consume, produce
from benchmarks.gateway_turns import GB, SETTINGS, Side, cpu_row, in_turn, of_topic, time_row
from benchmarks.limits import AES
from pyspark_commitlog.gateway.security.users import UsersFile

RECORD_BYTES = 1_000
WRITTEN, READ = 100_000, 300_000  # records
TOPIC = "read"
SYNCED = {TLS_ALONE}  # where ours is measured with syncs, too
# What is required, and the goal
UNSYNCED_TIME, SYNCED_TIME = (1.0, 1.2), (0.8, 0.95)
READ_TIME, READ_CPU = (1.0, 1.2), (1.0, 0.8)

Client = Mapping[str, Any]  # arguments of a tool: where it runs, and its settings for a listener


class Both(NamedTuple):
    """The servers, with the addresses of their listeners by protocol."""

    kafka: Server
    kafka_at: Mapping[str, str]
    ours: Server
    ours_at: Mapping[str, str]

    def sides(self, listener: Listener) -> dict[str, Side]:
        """Both as clients of a listener find them."""
        kafka = AtListener(self.kafka, self.kafka_at[listener.protocol])
        ours = AtListener(self.ours, self.ours_at[listener.protocol])
        return {"kafka": Side(kafka), "synced": Side(ours), "unsynced": Side(ours, UNSYNCED)}


def measure(setting: Setting) -> Iterator[Comparison]:
    keys = Keys(setting.directory)
    with servers(setting.directory, keys) as both, WarmTools() as tools:
        clients = {each: {"config": keys.of_java(each), "run": tools.run} for each in LISTENERS}
        prepare(both.sides(TLS_AND_PLAIN), setting.sized(READ), clients[TLS_AND_PLAIN])
        for listener, client in clients.items():
            yield from writing(setting, both.sides(listener), listener, client)
            yield from reading(setting, both.sides(listener), listener, client)


@contextmanager
def servers(directory: Path, keys: Keys) -> Iterator[Both]:
    """Both, each with a user and all listeners."""
    users = UsersFile(str(directory / "users.json"))
    users.add(USER, PASSWORD)
    of_kafka, of_ours = {**SETTINGS, **keys.of_kafka()}, {**SETTINGS, **keys.of_gateway(users.path)}
    kafka_at, ours_at = addresses(), addresses()
    with Kafka(directory / "kafka", of_kafka, kafka_at) as kafka, Gateway(directory / "ours", of_ours, ours_at) as ours:
        kafka.add_user(USER, PASSWORD)
        yield Both(kafka, kafka_at, ours, ours_at)


def prepare(sides: Mapping[str, Side], records: int, client: Client) -> None:
    """Write the topic that is read, and read it once: both JVMs compile what they run often."""
    for side in ("kafka", "synced"):
        server = sides[side].server
        server.create(TOPIC)
        produce(server.bootstrap, TOPIC, records, RECORD_BYTES, **client)
        consume(server.bootstrap, TOPIC, records, **client)


def writing(setting: Setting, sides: Mapping[str, Side], listener: Listener, client: Client) -> Iterator[Comparison]:
    """Rows of ``kafka-producer-perf-test``."""
    records = setting.sized(WRITTEN)
    size = records * RECORD_BYTES
    work = partial(produce, records=records, record_bytes=RECORD_BYTES, **client)
    wanted = {side: each for side, each in sides.items() if side != "synced" or listener in SYNCED}
    found = in_turn(wanted, work, setting.rounds, name=f"written-{listener.protocol}")
    for side, asked, kept in (("unsynced", UNSYNCED_TIME, "memcpy"), ("synced", SYNCED_TIME, "write and sync")):
        if side in found:
            operation = f"producer-perf, 1 KB, {listener.title}, {side}"
            row = time_row(operation, found[side], found["kafka"], *asked)
            yield replace(row, work=needed(listener, size, "crc32c", kept))
            row = cpu_row(operation, size, found[side], found["kafka"])
            yield replace(row, work=needed(listener, GB, "crc32c", "memcpy"))


def reading(setting: Setting, sides: Mapping[str, Side], listener: Listener, client: Client) -> Iterator[Comparison]:
    """Rows of ``kafka-consumer-perf-test``."""
    records = setting.sized(READ)
    size = records * RECORD_BYTES
    both = {side: sides[side] for side in ("kafka", "synced")}
    found = of_topic(both, partial(consume, records=records, **client), setting.rounds, TOPIC)
    operation = f"consumer-perf, {listener.title}"
    row = time_row(f"{operation}, {size / 1e6:g} MB", found["synced"], found["kafka"], *READ_TIME)
    yield replace(row, work=needed(listener, size))
    row = cpu_row(operation, size, found["synced"], found["kafka"], *READ_CPU)
    yield replace(row, work=needed(listener, GB))


def needed(listener: Listener, size: float, *more: str) -> dict[str, float]:
    """The work that ``size`` bytes need at our server: each kind of ``more``, and a cipher over TLS."""
    return dict.fromkeys((*more, *([AES] if listener.has_tls else [])), size)
