"""Three gateways over one directory; they are killed and stopped (SIGSTOP) at random, one or two at a time.

The clients, what they are told and what is compared at the end are those of ``gateway-kills``: an acknowledged record
is there once, a transaction whole or not at all, and a committed offset never goes back. One that was stopped comes
back late: it may still believe that it leads, and hold locks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random

from pyspark_commitlog.storage import LogManager
from tests.torture.gateway.clients import LIMIT_S, PARTITIONS, PLAIN, TRANSACTIONAL, Client, Told
from tests.torture.gateway.kills import check_plain, check_transactions, settle, works
from tests.torture.gateway.server import Server
from tests.torture.suite import Run, Suite

NODES = 3
EVENTS_A_CASE = 10
PAUSE_S = (0.3, 5.0)  # between two events
STOPPED_S = (0.1, 4.0)  # how long a node is stopped
SETTINGS = {"offsets_topic_num_partitions": 7, "transaction_state_log_num_partitions": 7}


def started(directory: Path, stack: ExitStack, **more: object) -> list[Server]:
    """The nodes, which are killed when ``stack`` ends; ``more``: settings."""
    servers = []
    for node in range(1, NODES + 1):
        server = Server(directory, node_id=node, **SETTINGS, **more)
        server.log = directory.with_name(f"{directory.name}-{node}.stderr")
        server.start()
        stack.callback(server.kill)
        servers.append(server)
    return servers


def disturb(servers: list[Server], chance: Random, run: Run) -> None:
    """Kills a node and starts it again, or stops one and lets it go on; a second one may be killed in the meantime."""
    server, second = chance.sample(servers, 2)
    if chance.random() < 0.5:
        server.kill()
        time.sleep(chance.choice((0, 0, 0.5, 2.0)))
        server.start()
        run.note("kills", 1)
    else:
        server.pause()
        time.sleep(chance.uniform(*STOPPED_S) / 2)
        also = chance.random() < 0.3
        if also:
            second.kill()
        time.sleep(chance.uniform(*STOPPED_S) / 2)
        server.go_on()
        if also:
            second.start()
        run.note("stops", 1)


def live(
    run: Run,
    chance: Random,
    directory: Path,
    disturb: Callable[[list[Server], Random, Run], None] = disturb,
    **settings: object,
) -> None:
    """A directory's life: so many events, an end in peace, and the comparison. ``settings``: of the nodes."""
    with LogManager.open(str(directory), create=True) as manager:
        for topic in (PLAIN, TRANSACTIONAL):
            manager.create_topic(topic, partitions=PARTITIONS, configs={"segment.bytes": "100000"})
    told = Told()
    with ExitStack() as stack:
        servers = started(directory, stack, **settings)
        bootstrap = ",".join(each.bootstrap for each in servers)
        clients = [Client(work, told) for work in works(bootstrap, directory, told, chance)]
        for client in clients:
            client.start()
        for _ in range(EVENTS_A_CASE):
            time.sleep(chance.uniform(*PAUSE_S))
            disturb(servers, chance, run)
            run.passed()
            if run.enough or told.faults:
                break
        time.sleep(2)  # in peace, so that all of them get on
        for client in clients:
            client.ending.set()
        for client in clients:
            client.join(LIMIT_S)
            assert not client.is_alive(), f"a client never ends:\n{client.stack()}"
        settle(bootstrap)
    assert not told.faults, told.faults[:3]
    run.note("records acknowledged", check_plain(directory, told))
    check_transactions(directory, told)
    for server in servers:
        assert "Traceback" not in server.log.read_text(), server.log.read_text()[-4000:]
    for name, count in told.notes.items():
        run.note(name, count)
    run.note("transactions committed", len(told.committed))
    run.note("transactions aborted", len(told.aborted))


def run(run: Run) -> None:
    for case in run.cases():
        with run.watching(case, "a directory's life"):
            live(run, case.chance, run.directory / f"{case.number}")


SUITE = Suite("events", 500, run)
