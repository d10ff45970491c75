"""Hostile clients beside honest ones, at a gateway that is killed now and then: in a directory, or on SeaweedFS.

The hostile ones write with the producers of others, those of transactions and of sinks, in every version, and ask for
what has a reserved name or is internal, by every request. Each of that is refused, and leaves nothing in the log. The
honest ones are those of ``gateway-kills``, and readers of both topics at both isolation levels; each must get on when
the hostile ones have gone. Every second case is on an object store; there, the log is then set back under the gateway.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from pyspark_commitlog.storage.bucket.root import open_root
from tests.support.stores.seaweed import SeaweedFS
from tests.torture.gateway import kills
from tests.torture.gateway.clients import Work, finish
from tests.torture.gateway.foes.attacks import attack
from tests.torture.gateway.foes.set_backs import set_back
from tests.torture.gateway.foes.world import World, at_work
from tests.torture.gateway.server import Server
from tests.torture.suite import Run, Suite

EVENTS_A_CASE = 6
PAUSE_S = (0.5, 4.0)  # between two events
FOES = 3
LOG = "gateway.stderr"  # what a gateway logs
LOGGED_CHARACTERS = 4000


class Life(NamedTuple):
    """A log's life, as it is told with a fault: with what its gateway logged last."""

    log: Path

    def __str__(self) -> str:
        logged = self.log.read_text()[-LOGGED_CHARACTERS:] if self.log.exists() else ""
        return f"a log's life; its gateway logged at last: {logged}"


def live(run: Run, chance: Random, world: World) -> None:
    """A log's life among hostile clients: so many events, and then one without them."""
    foes: list[Work] = [partial(attack, world.server, world.told, Random(chance.random())) for _ in range(FOES)]
    with (
        at_work(world.reading(), world.told) as reading,
        at_work(world.writing(chance), world.told) as writing,
        at_work(foes, world.told) as attacking,
    ):
        for _ in range(EVENTS_A_CASE):
            time.sleep(chance.uniform(*PAUSE_S))
            if chance.random() < 0.5:
                kills.kill([world.server], chance, run)
                run.note("kills")
            run.passed()
            if run.enough or world.told.faults:
                break
        finish(attacking)
        world.await_progress()
        run.note("records acknowledged", world.end(writing, reading))
    world.check_progress()
    world.told.note(run)


@contextmanager
def serving(place: str, home: Path, **settings: Any) -> Iterator[World]:
    """A log with its topics, and a gateway, which is killed in the end."""
    world = World(place, Server(place, log=home / LOG, **settings))
    world.make_topics()
    world.server.start()
    try:
        yield world
    finally:
        world.server.kill()


def run(run: Run) -> None:
    for case in run.cases():
        home = run.directory / f"{case.number}"
        home.mkdir()
        with run.watching(case, Life(home / LOG)):
            (live_on_a_bucket if case.number % 2 else live_in_a_directory)(run, case.chance, home)


def live_in_a_directory(run: Run, chance: Random, home: Path) -> None:
    with serving(str(home / "log"), home) as world:
        live(run, chance, world)


def live_on_a_bucket(run: Run, chance: Random, home: Path) -> None:
    with SeaweedFS(home / "store") as store, pytest.MonkeyPatch.context() as here:
        store.reach(here)
        place = f"{store.url}/{home.name}"
        open_root(place, create=True, check=lambda _: [])
        with serving(place, home, commitlog_bucket_linger_ms=20) as world:
            live(run, chance, world)
            set_back(world, chance, run)


SUITE = Suite("events", 200, run)
