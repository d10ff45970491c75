"""Three gateways over one directory; they are killed and stopped (SIGSTOP) at random, one or two at a time.

The clients, what they are told and what is compared at the end are those of ``gateway-kills``: an acknowledged record
is there once, a transaction whole or not at all, and a committed offset never goes back. One that was stopped comes
back late: it may still believe that it leads, and hold locks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from random import Random

from tests.torture.gateway import kills
from tests.torture.gateway.server import Server
from tests.torture.suite import Run, Suite

NODES = 3
PAUSE_S = (0.3, 5.0)  # between two events
STOPPED_S = (0.1, 4.0)  # how long a node is stopped
SETTINGS = {"offsets_topic_num_partitions": 7, "transaction_state_log_num_partitions": 7}


@contextmanager
def nodes(directory: Path, **more: object) -> Iterator[list[Server]]:
    """The nodes, which are killed in the end; ``more``: settings."""
    servers = []
    with ExitStack() as stack:
        for node in range(1, NODES + 1):
            server = Server(directory, node_id=node, **SETTINGS, **more)
            server.log = directory.with_name(f"{directory.name}-{node}.stderr")
            server.start()
            stack.callback(server.kill)
            servers.append(server)
        yield servers


def disturb(servers: Sequence[Server], chance: Random, run: Run) -> None:
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
    disturb: Callable[[Sequence[Server], Random, Run], None] = disturb,
    **settings: object,
) -> None:
    """A directory's life with nodes. ``settings``: of the nodes."""
    kills.live(run, chance, directory, serving=partial(nodes, **settings), disturb=disturb, pause_s=PAUSE_S)


def run(run: Run) -> None:
    for case in run.cases():
        with run.watching(case, "a directory's life"):
            live(run, case.chance, run.directory / f"{case.number}")


SUITE = Suite("events", 500, run)
