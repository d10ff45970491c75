"""Random erasures from random logs, by keys and by offsets; each request is compared with a plain search of all bytes.

A case is a log: its old messages of magic 0 and 1, then batches in all codecs, idempotent and transactional producers,
compaction, and erasures in between. After each, all other records are what they were, for both isolation levels, also
in a log that is opened again, and no decompressed byte of any file has what was asked for.
"""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np

from pyspark_commitlog.storage.erasure.choosing import ChosenRecords
from pyspark_commitlog.storage.erasure.one_log import erase
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.tables import Int64s
from tests.storage.erasure.test_one_log import a_log, found
from tests.storage.erasure.test_one_log_model import KEYS, OLD_FORMATS, World
from tests.support.logs import raw_scan
from tests.torture.suite import Run, Suite, quiet

ACTIONS = ("plain", "send", "send", "end", "roll", "compact", "erase", "choose", "again")
REQUESTS_MAX = 8  # of a log
POLICIES = ("compact,delete", "compact", "delete")


class DrawnWorld(World):
    """A log in which everything is drawn."""

    def __init__(self, log: object, directory: Path, chance: Random) -> None:
        super().__init__(log, directory)  # type: ignore[arg-type]
        self.chance, self.requests = chance, 0

    def begin(self) -> None:
        """Writes messages of old formats first, as a broker that was upgraded has them."""
        for _ in range(self.chance.randrange(5)):
            self.old(*self.chance.choice(OLD_FORMATS), self.keys())

    def step(self, action: str) -> None:
        chance = self.chance
        if action == "plain":
            self.plain(self.keys(), chance.choice([*Codec]))
        elif action == "send":
            self.send(chance.randrange(3), self.keys(), chance.choice([*Codec]))
        elif action == "end":
            self.end(chance.randrange(3), chance.random() < 0.5)
        elif action == "erase":
            self.erase({chance.choice(KEYS) for _ in range(chance.choice((1, 1, 2)))})
            self.requests += 1
        elif action == "choose":
            self.erase_at(self._some_offsets())
        elif action == "again":
            self.log.refresh()
        else:
            getattr(self, action)()

    def keys(self) -> list[bytes]:
        return [self.chance.choice(KEYS) for _ in range(self.chance.randint(1, 5))]

    def _some_offsets(self) -> Int64s:
        there = [row[0] for row in found(self.log)]
        count = self.chance.randint(0, min(6, len(there)))
        return np.array(sorted(self.chance.sample(there, count)), np.int64)

    def erase_at(self, offsets: Int64s) -> None:
        """Erases the records at some offsets; each value has its offset in it, except those of old messages."""
        end, gone = self.log.log_end_offset, {*offsets.tolist()}
        wanted = [[row for row in rows if row[0] not in gone] for rows in self._views()]
        done = erase(self.log, ChosenRecords(offsets, end, b"", "", None), "a test")
        assert sum(each.records for each in done.replaced) == len(offsets)
        assert self._views() == wanted
        self.log.refresh()
        assert self._views() == wanted
        assert self.log.log_end_offset == end
        self.requests += 1

    def check_end(self) -> None:
        """Of what all requests left: segments follow each other, and nothing of the last key is there."""
        bases = [segment.base_offset for segment in self.log.segments]
        assert all(one < other for one, other in pairwise(bases))
        self.erase({*KEYS})
        self.requests += 1
        assert not any(raw_scan.has(self.directory, key) for key in KEYS)


def live(directory: Path, chance: Random, steps: list[str]) -> int:
    """Lives the life of one log; returns how many requests it met."""
    with a_log(directory, cleanup_policy=chance.choice(POLICIES)) as log:
        world = DrawnWorld(log, directory, chance)
        world.begin()
        for _ in range(chance.randint(5, 60)):
            action = chance.choice(ACTIONS)
            if action in ("erase", "choose") and world.requests >= REQUESTS_MAX:
                continue
            steps.append(action)
            world.step(action)
        world.check_end()
        return world.requests


def run(run: Run) -> None:
    with quiet():
        for case in run.cases():
            steps: list[str] = []
            with run.watching(case, steps):
                directory = run.directory / str(case.number)
                run.passed(live(directory, case.chance, steps))
                run.note("logs")
                shutil.rmtree(directory)


SUITE = Suite("requests", 1_000, run)
