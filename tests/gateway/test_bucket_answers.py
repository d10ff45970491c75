"""Answers of a gateway over an object store that clients do not take: bounded memory, and others are served."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pyspark_commitlog.gateway.network.file_slice import release
from pyspark_commitlog.gateway.network.limits.memory import AnswerMemory
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from tests.gateway.test_bucket import URL, fetched, values_of
from tests.support.gateway import WireClient, fetch_fields, serving
from tests.support.logs.building import records
from tests.support.stores.filling import make_topic, write
from tests.support.stores.served import ServedStores
from tests.support.waiting import soon

LIMIT = 8 << 20
BATCH = 100_000  # bytes
IDLE = 40


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> CommitLog:
    log = ServedStores(monkeypatch).create(URL)
    make_topic(log, "t")
    write(log, "t", {0: [records([b"x" * BATCH]) for _ in range(200)]}, batch_bytes_max=BATCH + 1000)
    return log


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[AnswerMemory]:
    made, init = list[AnswerMemory](), AnswerMemory.__init__

    def noting(self: AnswerMemory, limit: int) -> None:
        init(self, limit)
        made.append(self)

    monkeypatch.setattr(AnswerMemory, "__init__", noting)
    return made


@pytest.fixture
def gateway(log: CommitLog, answers: list[AnswerMemory]) -> Iterator[Gateway]:
    with serving(URL, commitlog_bucket_answers_max_bytes=LIMIT) as started:
        yield started


def test_answers_that_are_not_taken_hold_little_memory_and_others_are_served(
    gateway: Gateway, answers: list[AnswerMemory]
) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(WireClient(gateway)) for _ in range(IDLE)]
        for each in idle:
            each.send(1, 11, **fetch_fields("t", 0, max_bytes=50 << 20, partition_max_bytes=50 << 20))
        soon(lambda: answers[0].taken > LIMIT * 3 // 4)
        with WireClient(gateway) as client:
            offset = 0
            for _ in range(20):
                found = fetched(client, offset, max_bytes=50 << 20, partition_max_bytes=50 << 20)
                assert found[0][0] == offset
                offset = found[-1][0] + 1
        assert answers[0].taken < LIMIT + IDLE * (BATCH + 1000)
    soon(lambda: answers[0].taken == 0)


def test_a_client_gets_all_that_it_asks_for_while_there_is_room(gateway: Gateway, answers: list[AnswerMemory]) -> None:
    with WireClient(gateway) as client:
        found = client.ask(1, 11, **fetch_fields("t", 0, max_bytes=1 << 20, partition_max_bytes=1 << 20))
        assert len(values_of(found.responses[0].partitions[0].records)) == 10
    soon(lambda: answers[0].taken == 0)


def test_the_next_answer_gets_a_part_of_what_is_free() -> None:
    memory = AnswerMemory(1000)
    parts = []
    for _ in range(30):
        parts.append(memory.hold(bytes(memory.room())))
        assert memory.taken < 1000
    assert memory.room() <= 1
    for part in parts:
        release(part.after(len(part)))
    assert (memory.taken, memory.room()) == (0, 250)
