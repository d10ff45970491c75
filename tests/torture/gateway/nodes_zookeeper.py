"""As ``gateway-nodes``, with the registry in a real ZooKeeper, which is killed and started again, too.

A session lasts two seconds: a node that is stopped for longer finds others in its place when it goes on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from random import Random

from tests.support.kafka.zookeeper import ZooKeeper
from tests.torture.gateway import nodes
from tests.torture.gateway.server import Server
from tests.torture.suite import Run, Suite

SESSION_MS = 2000


def disturb(zookeeper: ZooKeeper, servers: Sequence[Server], chance: Random, run: Run) -> None:
    """Kills ZooKeeper for a while, or disturbs the nodes."""
    if chance.random() < 0.2:
        zookeeper.kill()
        time.sleep(chance.uniform(0, 5))
        zookeeper.start()
        run.note("kills of ZooKeeper", 1)
    else:
        nodes.disturb(servers, chance, run)


def run(run: Run) -> None:
    for case in run.cases():
        with run.watching(case, "a directory's life"), ZooKeeper(run.directory / f"zookeeper-{case.number}") as server:
            settings = {"zookeeper_connect": f"{server.connect}/kafka", "zookeeper_session_timeout_ms": SESSION_MS}
            directory = run.directory / f"{case.number}"
            nodes.live(run, case.chance, directory, partial(disturb, server), **settings)


SUITE = Suite("events", 300, run)
