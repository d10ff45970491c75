"""Partitions of turns: with which object and settings their batches are checked, and when these no longer hold."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_commitlog.gateway.turns.known import KnownPartitions
from pyspark_commitlog.storage import LogConfig


class Led:
    """A partition that is open, of which turns look at the settings."""

    def __init__(self, **configs: str) -> None:
        self.config = LogConfig.from_mapping(configs)


class Tables:
    """Notes the limits that the kernels check by."""

    def __init__(self) -> None:
        self.batch_bytes_max: list[int] = []

    def add_partition(self, *_: Any) -> int:
        return 0

    def set_limits(self, _: int, *, batch_bytes_max: int, **others: Any) -> None:
        self.batch_bytes_max.append(batch_bytes_max)


@pytest.mark.parametrize("then", ["another object", "other settings"])
def test_no_batch_of_a_turn_is_appended_after_its_partition_changed(then: str) -> None:
    opened, tables = [Led()], Tables()
    known: KnownPartitions[Any] = KnownPartitions(tables, Led, lambda *_: opened[0], lambda *_: True)  # type: ignore[arg-type, type-var]
    assert known.learn(b"t", 0)
    known.begin()
    assert known.current(0) is opened[0]
    if then == "another object":
        opened[0] = Led(**{"max.message.bytes": "1000"})
    else:
        opened[0].config = LogConfig.from_mapping({"max.message.bytes": "1000"})
    assert [known.current(0) for _ in range(3)] == [None] * 3
    assert tables.batch_bytes_max[-1] < tables.batch_bytes_max[0]
    known.begin()
    assert known.current(0) is opened[0]
