"""Two gateways over one log on an object store; they and the store's server are killed and stopped at random.

At each gateway an idempotent producer and a transactional one, and a third pair of producers that fence each other
from gateway to gateway; two members of a group, and a look at its offsets through either gateway; another writer, as
Spark's tasks are; consolidation and a collector. At the end the log is compared with what each was told, as by
``gateway-kills``; offsets have no gap, and a producer that was fenced has committed nothing afterwards. Every second
case is over versitygw, the others over SeaweedFS.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import confluent_kafka as rdkafka
import pytest

from pyspark_commitlog.storage import Isolation
from pyspark_commitlog.storage.bucket.collecting import CollectLimits, collect
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.stores.patience import DELIVERY_TIMEOUT
from pyspark_commitlog.storage.bucket.topics import find_topic
from pyspark_commitlog.storage.clock import SystemClock
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.errors import ObjectStoreError
from pyspark_commitlog.storage.maintenance.bucket.consolidate import consolidate
from pyspark_commitlog.storage.maintenance.bucket.scratch import Place
from tests.support.stores.filled import read_rows
from tests.support.stores.filling import make_topic
from tests.support.stores.seaweed import SeaweedFS
from tests.support.stores.server import StoreServer
from tests.support.stores.versity import VersityGateway
from tests.torture.gateway import kills
from tests.torture.gateway.clients import (
    PARTITIONS,
    PLAIN,
    TRANSACTIONAL,
    Told,
    Work,
    append,
    consume,
    new_transactional,
    produce,
    transact,
    watch,
)
from tests.torture.gateway.server import Server
from tests.torture.suite import Run, Suite

EVENTS_A_CASE = 12
PAUSE_S = (0.3, 6.0)  # between two events
STOPPED_S = (0.1, 4.0)  # how long a gateway is stopped
DOWN_S = (0.0, 6.0)  # how long the store's server is away
PATIENCE_MS = (1_000, 120_000)  # of the gateways: they give up while the server is away, or not
DUELS = 1_000_000  # the first number of a transaction in a duel; below, the even ones are at the first gateway
STAGED_MS, GRACE_MS = 180_000, 60_000  # what is younger is not collected
SMALL = LogConfig(segment_bytes=200_000, segment_ms=1)
FENCED = (rdkafka.KafkaError._FENCED, rdkafka.KafkaError.PRODUCER_FENCED)

COMMIT = """
import sys
from pyspark_commitlog.storage.bucket.root import open_root
from tests.support.logs.building import records
from tests.support.stores.filling import write
log, number = open_root(sys.argv[1]), 0
while True:
    log.catch_up()
    write(log, sys.argv[2], {number % 2: [records([b"appender %d" % number])]})
    print(number, flush=True)
    number += 1
    if not sys.stdin.readline():
        break
"""


# Clients that only an object store has


def duel(addresses: Sequence[str], told: Told, events: list[str], chance: Random, ending: Event) -> None:
    """Two producers of one id at two gateways: the later one fences the other, which has a transaction open.

    ``events``: two for each disturbance, before and after it; a gateway that was killed fences a producer that commits.
    """
    for number in count(DUELS, 2):
        if ending.is_set():
            return
        first, second = chance.sample(addresses, 2)
        early = new_transactional(first, "duel")
        was_open = _send(early, number)
        before = len(events)
        late = new_transactional(second, "duel")
        told.notes["duels"] += 1
        told.aborted.add(number)  # whatever is answered to it
        if was_open:
            _try_to_commit(early, number, told)
        if _send(late, number + 1):
            try:
                late.commit_transaction(60.0)
            except rdkafka.KafkaException as error:
                if error.args[0].code() in FENCED and before % 2 == 0 and before == len(events):
                    told.faults.append(f"{number + 1}: fenced by a producer that was fenced before: {error}")
            else:
                told.committed.add(number + 1)


def _send(producer: Any, number: int) -> bool:
    """Begins a transaction with its records; whether all of them were taken."""
    with suppress(rdkafka.KafkaException):
        producer.begin_transaction()
        for partition in (0, 1, 0):
            producer.produce(TRANSACTIONAL, b"%d" % number, partition=partition)
        return not producer.flush(60.0)
    return False


def _try_to_commit(producer: Any, number: int, told: Told) -> None:
    """Tries to commit with a producer that was fenced, and then to recover."""
    try:
        producer.commit_transaction(60.0)
    except rdkafka.KafkaException as error:
        if error.args[0].txn_requires_abort():
            with suppress(rdkafka.KafkaException):
                producer.abort_transaction(30.0)
    else:
        told.faults.append(f"{number}: committed by a producer that was fenced")


def maintain(url: str, told: Told, ending: Event) -> None:
    """Consolidates, and deletes what the log does not need."""
    log = open_root(url)
    while not ending.wait(2.0):
        for topic in (PLAIN, TRANSACTIONAL):
            for partition in range(PARTITIONS):
                place = Place(log, find_topic(log.catch_up(), topic), partition)
                done = consolidate(place, SMALL, SystemClock(), SystemClock().now_ms())
                told.notes["segments put"] += len(done.segments)
        with suppress(ObjectStoreError):  # it lists once
            told.notes["objects collected"] += collect(log, CollectLimits(STAGED_MS, GRACE_MS)).objects


# What is there


def check(url: str, told: Told) -> int:
    """Compares the log with what its clients were told; returns how many records were acknowledged."""
    log = open_root(url)
    for topic in (PLAIN, TRANSACTIONAL):
        for partition in range(PARTITIONS):
            offsets = [offset for offset, _, _ in read_rows(log, topic, partition)]
            assert offsets == sorted(set(offsets)), f"{topic}-{partition}: offsets do not ascend"
            # Records of an aborted transaction leave their offsets empty.
            assert topic == TRANSACTIONAL or offsets == [*range(len(offsets))], f"{partition}: offsets have a gap"
    _check_transactions(url, told)
    for group, offsets in log.state.groups.items():
        for name, each in offsets.items():
            topic, _, number = name.rpartition("-")
            end = log.state.partitions[find_topic(log.state, topic).topic_id, int(number)].end
            assert each.offset <= end, f"{group}, {name}: {each.offset} is after the end, {end}"
    return kills.check_plain(url, told)


def _check_transactions(url: str, told: Told) -> None:
    """A transaction is there whole or not at all, as it was answered, and in the order of its producer."""
    first, second = ([int(each) for each in v] for v in kills.rows(url, TRANSACTIONAL, Isolation.READ_COMMITTED))
    counts = Counter(first)
    assert set(counts) == set(second), f"in part: {sorted(set(counts) ^ set(second))[:5]}"
    assert not counts or set(counts.values()) == {2}, "a record is missing or there twice"
    for values in (first[::2], second):
        for is_own in (_is_of_first, _is_of_second, _is_of_duel):
            own = [each for each in values if is_own(each)]
            back = next(((a, b) for a, b in pairwise(own) if b <= a), None)
            assert back is None, f"twice, or out of order: {back}"
    missing, aborted = told.committed - set(second), told.aborted & set(second)
    assert not missing, f"committed, but missing: {sorted(missing)[:5]}"
    assert not aborted, f"aborted, but there: {sorted(aborted)[:5]}"


def _is_of_first(number: int) -> bool:
    return number < DUELS and number % 2 == 0


def _is_of_second(number: int) -> bool:
    return number < DUELS and number % 2 == 1


def _is_of_duel(number: int) -> bool:
    return number >= DUELS


# A log's life


@contextmanager
def serving(url: str, home: Path, patience_ms: int) -> Iterator[list[Server]]:
    """Two gateways, which are killed in the end."""
    environment = {DELIVERY_TIMEOUT: str(patience_ms)}
    with ExitStack() as stack:
        servers = []
        for number in range(2):
            log = home / f"gateway-{number}.stderr"
            server = Server(url, log=log, environment=environment, commitlog_bucket_linger_ms=20)
            server.start()
            stack.callback(server.kill)
            servers.append(server)
        yield servers


def disturb(servers: Sequence[Server], store: StoreServer, chance: Random, run: Run) -> None:
    """Kills one gateway or both, or the store's server, and starts them again; or stops a gateway for a while."""
    what = chance.choice(("kill", "kill", "kill both", "stop", "kill the store", "kill all"))
    run.note(what)
    chosen = chance.sample(servers, 2 if what in ("kill both", "kill all") else 1)
    if what == "stop":
        chosen[0].pause()
        time.sleep(chance.uniform(*STOPPED_S))
        chosen[0].go_on()
        return
    if what != "kill the store":
        for each in chosen:
            each.kill()
    if what in ("kill the store", "kill all"):
        store.kill()
        time.sleep(chance.uniform(*DOWN_S))
        store.start()
    if what != "kill the store":
        time.sleep(chance.choice((0, 0, 0.5)))
        for each in chosen:
            each.start()


def works(servers: Sequence[Server], url: str, told: Told, events: list[str], chance: Random) -> list[Work]:
    one, two = addresses = [each.bootstrap for each in servers]
    own = [Random(chance.random()) for _ in range(3)]
    return [
        partial(produce, one, b"one", told),
        partial(produce, two, b"two", told),
        partial(transact, one, told, own[0], transactional_id="first", numbers=count(0, 2)),
        partial(transact, two, told, own[1], transactional_id="second", numbers=count(1, 2)),
        partial(duel, addresses, told, events, own[2]),
        partial(consume, one, told),
        partial(consume, one, told),
        partial(watch, one, told),
        partial(watch, two, told),
        partial(append, url, told, program=COMMIT),
        partial(maintain, url, told),
    ]


def live(run: Run, chance: Random, home: Path, store: StoreServer) -> None:
    """A log's life: so many events, an end in peace, and the comparison."""
    url, told, events = f"{store.url}/{home.name}", Told(), list[str]()
    log = open_root(url, create=True, check=lambda _: [])
    for topic in (PLAIN, TRANSACTIONAL):
        make_topic(log, topic, PARTITIONS)
    with serving(url, home, chance.choice(PATIENCE_MS)) as servers:

        def event() -> None:
            time.sleep(chance.uniform(*PAUSE_S))
            events.append("begins")
            disturb(servers, store, chance, run)
            events.append("ends")

        kills.work_through(run, works(servers, url, told, events, chance), told, EVENTS_A_CASE, event)
    assert not told.faults, told.faults[:3]
    run.note("records acknowledged", check(url, told))
    run.note("commits", open_root(url).state.number)
    for server in servers:
        server.check_log()
    told.note(run)


def run(run: Run) -> None:
    for case in run.cases():
        home = run.directory / f"{case.number}"
        home.mkdir()
        kind = SeaweedFS if case.number % 2 else VersityGateway
        with run.watching(case, "a log's life"), kind(home / "store") as store, pytest.MonkeyPatch.context() as here:
            store.reach(here)
            live(run, case.chance, home, store)


SUITE = Suite("events", 200, run)
