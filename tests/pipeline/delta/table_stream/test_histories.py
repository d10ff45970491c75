"""Random histories of a stream over a table and its log, restarted at random points, also within micro-batches."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.pipeline.delta.table_stream.without_spark import PARTITIONS, Both, Query

RESTARTS = 50
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.matrix) for seed in range(2, 8))]


class History:
    """What may happen to a topic and its table, before a micro-batch and while it is read."""

    def __init__(self, both: Both, chance: random.Random) -> None:
        self.both, self.chance = both, chance

    def step(self) -> None:
        partition = self.chance.randrange(PARTITIONS)
        match self.chance.randrange(8):
            case 0 | 1:
                self.both.append(partition, self.chance.randint(1, 5))
            case 2:
                self.both.append(partition, self.chance.randint(1, 3), in_transaction=True)
            case 3:
                self.both.end(partition, commit=self.chance.random() < 0.5)
            case 4 | 5:
                self.both.export()
                self.both.delete_exported(partition, self.chance)
            case 6:
                self.both.optimize()
            case _:
                self.both.vacuum()

    def sometimes(self) -> None:
        if self.chance.random() < 0.3:
            self.step()


@pytest.mark.parametrize("seed", SEEDS)
def test_each_record_comes_once_and_in_order(seed: int, tmp_path: Path) -> None:
    chance, both = random.Random(seed), Both(tmp_path)
    history = History(both, chance)
    both.append(0, 3)
    both.export()
    query = Query(both, history.sometimes)
    for _ in range(RESTARTS):
        for _ in range(chance.randint(0, 4)):
            history.step()
        query.restart()
        for _ in range(chance.randint(0, 3)):
            query.batch(chance.choice([1, 2, 3, 7]), dies=chance.random() < 0.3)
    query.happens = lambda: None
    while query.batch(None):
        pass
    for partition in range(PARTITIONS):
        found = [row for row in query.rows if row[0] == partition]
        assert found == [row for row in both.committed() if row[0] == partition]
