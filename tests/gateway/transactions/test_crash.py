"""The power fails, or the gateway is killed, at every change of a client's transactions: what was answered is there."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import Producer
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.disk.power_cuts import Effort
from tests.support.logs.transactions import PARTITIONS, content, make_topics, manage
from tests.support.transaction_bench import Bench

QUICK = Effort(every=19, seeds=1, with_kills=True)


def prepared() -> MemoryFileSystem:
    """A disk with the topics, and one committed transaction."""
    disk = MemoryFileSystem()
    make_topics(disk)
    bench = Bench(disk)
    _, producer = bench.init()
    assert producer is not None
    assert bench.transaction(producer, b"0") == [ErrorCode.none] * 5
    bench.close()
    return disk


@dataclass
class Client:
    """A program that is cut short: transactions of one producer, then of its successor."""

    acknowledged: list[bytes] = field(default_factory=list)  # committed
    producer: Producer = field(default_factory=lambda: Producer(0, 0))

    def __call__(self, disk: MemoryFileSystem) -> None:
        self.acknowledged = [b"0"]
        self.producer = Producer(0, 0)
        bench = Bench(disk)
        for start in (1, 4):
            error, producer = bench.init()
            assert (error, producer is None) == (ErrorCode.none, False)
            assert producer is not None
            self.producer = producer
            for number in range(start, start + 3):
                commit = number != start + 1
                value = b"%d" % number
                assert bench.transaction(producer, value, commit=commit) == [ErrorCode.none] * 5
                if commit:
                    self.acknowledged.append(value)
        bench.add(self.producer, 0)
        bench.append(self.producer, 0, b"open")


def check(disk: MemoryFileSystem, client: Client, where: str) -> None:
    committed = [b"0", b"1", b"3", b"4", b"6"]
    bench = Bench(disk)
    bench.look()
    error, producer = bench.init()
    assert error is ErrorCode.none, where
    assert producer is not None
    assert producer.epoch > client.producer.epoch, where
    ends = [content(manage(disk), partition) for partition in (0, 1)]
    assert ends[0] == ends[1], where
    known = len(client.acknowledged)
    assert ends[0][:known] == client.acknowledged, where
    assert ends[0] in (committed[:known], committed[: known + 1]), where
    for partition in PARTITIONS:
        with manage(disk) as manager, manager.open_reader(*partition) as reader:
            assert reader.last_stable_offset == reader.log_end_offset, where
    assert bench.transaction(producer, b"again") == [ErrorCode.none] * 5, where
    bench.close()
    assert content(manage(disk.crash(0, unsynced="lost")), 1) == [*ends[1], b"again"], where


def check_power_cuts(effort: Effort) -> None:
    client = Client()
    for where, left in effort.cut(client, prepared()):
        check(left, client, where)


def test_a_power_cut_loses_nothing_that_was_answered() -> None:
    check_power_cuts(QUICK)


@pytest.mark.parametrize("unsynced", ["lost", "kept"])
def test_a_producer_goes_on_with_its_transaction_after_a_crash(unsynced: str) -> None:
    disk = prepared()
    bench = Bench(disk)
    _, producer = bench.init()
    assert producer is not None
    assert bench.add(producer, 0) == ErrorCode.none
    assert bench.append(producer, 0, b"before") == ErrorCode.none
    disk = disk.crash(1, unsynced="lost") if unsynced == "lost" else disk.copy()
    bench = Bench(disk)
    assert bench.append(producer, 0, b"unknown") == ErrorCode.invalid_txn_state  # Produce loads the id first
    bench.coordinator.load("app", lambda _: None)
    bench.serve()
    bench._sequences[producer, next(iter(bench._served._led))] = 1
    assert bench.append(producer, 0, b"after") == ErrorCode.none
    assert bench.end(producer) == ErrorCode.none
    assert content(manage(disk), 0) == [b"0", b"before", b"after"]
