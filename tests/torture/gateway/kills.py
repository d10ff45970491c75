"""A gateway that is killed at random and started again, with real clients at work, and another process that appends.

Two idempotent producers, a transactional one, and two members of a group go on through all
kills. At the end, the directory is compared with what each of them was told: an acknowledged record is there once,
those of a producer are in their order, a transaction is there whole or not at all, as it was answered, and a committed
offset never goes back. Kills come at random times, so the same seed chooses the same pauses, not the same instants.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random

from pyspark_commitlog.storage import Isolation, LogManager
from tests.support.logs import building
from tests.torture.gateway.clients import (
    PARTITIONS,
    PLAIN,
    TRANSACTIONAL,
    Client,
    Told,
    Work,
    append,
    consume,
    finish,
    new_transactional,
    produce,
    transact,
    watch,
)
from tests.torture.gateway.server import Server
from tests.torture.suite import Run, Suite

EVENTS_A_CASE = 10
PAUSE_S = (0.3, 6.0)  # between a start and its kill
Values = list[bytes]


# What is there


def rows(directory: Path | str, topic: str, isolation: Isolation) -> Iterator[Values]:
    with LogManager.open(str(directory)) as manager:
        for partition in range(PARTITIONS):
            with manager.open_reader(topic, partition) as reader:
                yield [value or b"" for _, value in building.rows(reader, isolation)]


def check_plain(directory: Path | str, told: Told) -> int:
    """Each writer's records are in order, each once at most, and all that were acknowledged; returns how many."""
    found: dict[bytes, set[int]] = {}
    for values in rows(directory, PLAIN, Isolation.READ_COMMITTED):
        by_writer: dict[bytes, list[int]] = {}
        for value in values:
            writer, number = value.split()
            by_writer.setdefault(writer, []).append(int(number))
        for writer, numbers in by_writer.items():
            assert numbers == sorted(set(numbers)), f"{writer!r}: twice, or out of order: {_first_back(numbers)}"
            found.setdefault(writer, set()).update(numbers)
    for writer, numbers in told.acknowledged.items():
        missing = numbers - found.get(writer, set())
        assert not missing, f"{writer!r}: {len(missing)} acknowledged records are missing, such as {min(missing)}"
    return sum(map(len, told.acknowledged.values()))


def _first_back(numbers: list[int]) -> object:
    return next(((a, b) for a, b in pairwise(numbers) if b <= a), None)


def check_transactions(directory: Path | str, told: Told) -> None:
    """A transaction is there whole or not at all, as it was answered, and in order."""
    first, second = ([int(each) for each in v] for v in rows(directory, TRANSACTIONAL, Isolation.READ_COMMITTED))
    assert first == sorted(first)
    assert second == sorted(set(second)), f"twice, or out of order: {_first_back(second)}"
    counts = Counter(first)
    assert set(counts) == set(second), f"in part: {sorted(set(counts) ^ set(second))[:5]}"
    assert not counts or set(counts.values()) == {2}, "a record is missing or there twice"
    assert not told.committed - set(second), f"committed, but missing: {sorted(told.committed - set(second))[:5]}"
    assert not told.aborted & set(second), f"aborted, but there: {sorted(told.aborted & set(second))[:5]}"


def make_topics(directory: Path) -> None:
    with LogManager.open(str(directory), create=True) as manager:
        for topic in (PLAIN, TRANSACTIONAL):
            manager.create_topic(topic, partitions=PARTITIONS, configs={"segment.bytes": "100000"})


@contextmanager
def one_server(directory: Path) -> Iterator[list[Server]]:
    """The server, which is killed in the end."""
    server = Server(directory)
    server.start()
    try:
        yield [server]
    finally:
        server.kill()


def kill(servers: Sequence[Server], chance: Random, _: Run) -> None:
    """Kills the server and starts it again."""
    (server,) = servers
    server.kill()
    time.sleep(chance.choice((0, 0, 0.5)))
    server.start()


def live(
    run: Run,
    chance: Random,
    directory: Path,
    *,
    serving: Callable[[Path], AbstractContextManager[Sequence[Server]]] = one_server,
    disturb: Callable[[Sequence[Server], Random, Run], None] = kill,
    pause_s: tuple[float, float] = PAUSE_S,
) -> None:
    """A directory's life: so many times something is done to its servers, an end in peace, and the comparison.

    ``pause_s``: between two of these, from and to.
    """
    make_topics(directory)
    told = Told()
    with serving(directory) as servers:
        bootstrap = ",".join(each.bootstrap for each in servers)

        def event() -> None:
            time.sleep(chance.uniform(*pause_s))
            disturb(servers, chance, run)

        work_through(run, works(bootstrap, directory, told, chance), told, EVENTS_A_CASE, event)
        settle(bootstrap)
    assert not told.faults, told.faults[:3]
    run.note("records acknowledged", check_plain(directory, told))
    check_transactions(directory, told)
    for server in servers:
        server.check_log()
    told.note(run)


def work_through(run: Run, works: Sequence[Work], told: Told, events: int, event: Callable[[], None]) -> None:
    """Has clients at work while so many events happen, fewer if there is a fault, and then ends them in peace."""
    clients = [Client(work, told) for work in works]
    for client in clients:
        client.start()
    for _ in range(events):
        event()
        run.passed()
        if run.enough or told.faults:
            break
    time.sleep(2)  # in peace, so that all of them get on
    finish(clients)


def settle(address: str) -> None:
    """Ends the last transaction, if nobody knows how it ended: a new producer of the id waits for that."""
    new_transactional(address)


def works(address: str, directory: Path, told: Told, chance: Random) -> list[Work]:
    own = Random(chance.random())
    return [
        lambda ending: produce(address, b"one", told, ending),
        lambda ending: produce(address, b"two", told, ending),
        lambda ending: transact(address, told, own, ending),
        lambda ending: consume(address, told, ending),
        lambda ending: consume(address, told, ending),
        lambda ending: watch(address, told, ending),
        lambda ending: append(directory, told, ending),
    ]


def run(run: Run) -> None:
    for case in run.cases():
        with run.watching(case, "a directory's life"):
            live(run, case.chance, run.directory / f"{case.number}")


SUITE = Suite("kills", 500, run)
