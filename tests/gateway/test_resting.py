"""Partitions of a fetch session that have nothing new are not read, and answers say what they would say otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from pyspark_commitlog.gateway import resting
from pyspark_commitlog.gateway.fetch_sessions import FINAL, INITIAL
from pyspark_commitlog.gateway.partitions.file_partition import FilePartition
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import LogManager
from tests.support.gateway import WireClient, create_topic, fetch_fields, produce_fields, serving
from tests.support.logs.building import batch, records
from tests.support.transactions import WireProducer
from tests.support.waiting import soon

PARTITIONS = 5
MANY = 20  # of a request that counts as large
STEPS = 80
FETCH, BY_NAME = 1, 12


class Answer(NamedTuple):
    error: int
    high_watermark: int
    log_start_offset: int
    last_stable_offset: int
    aborted: object
    records: bytes


def answers(found: Any) -> dict[int, Answer]:
    """What an answer has, by partition of its one topic."""
    return {
        each.partition_index: Answer(
            each.error_code,
            each.high_watermark,
            each.log_start_offset,
            each.last_stable_offset,
            each.aborted_transactions,
            bytes(each.records or b""),
        )
        for topic in found.responses
        for each in topic.partitions
    }


class Consumer:
    """A client with a session; compares its answers with those of a slow twin, which reads all partitions."""

    def __init__(self, client: WireClient, topic: str, isolation: int) -> None:
        self._client, self._topic, self._isolation = client, topic, isolation
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        self._sent: dict[int, int] = {}
        self._known: dict[int, tuple[int, int] | None] = {}
        self._session, self._epoch = 0, INITIAL

    def fetch(self) -> None:
        """Fetches in the session; compares the answer with that of the twin."""
        before = self.whole()
        changed = {each: at for each, at in self.offsets.items() if self._sent.get(each) != at}
        gone = [each for each in self._sent if each not in self.offsets]
        forgotten = [{"topic": self._topic, "partitions": gone}] if gone else []
        found = self._ask(changed, self._session, self._epoch, forgotten_topics_data=forgotten)
        assert found.error_code == 0
        after = self.whole(max_wait=3)  # while it waits, partitions rest
        assert before == after, "nothing else changes the topic"
        expected = {each: answer for each, answer in before.items() if self._is_new(each, answer)}
        assert answers(found) == expected
        self._session, self._epoch = found.session_id, self._epoch + 1
        self._sent = dict(self.offsets)
        self._known = {each: (at.high_watermark, at.log_start_offset) for each, at in before.items() if not at.error}

    def _is_new(self, partition: int, answer: Answer) -> bool:
        known = self._known.get(partition) if partition in self._sent else None
        ends = answer.high_watermark, answer.log_start_offset
        return bool(answer.error or answer.records) or known != ends

    def whole(self, **more: Any) -> dict[int, Answer]:
        """What a fetch of all partitions without a session answers."""
        return answers(self._ask(self.offsets, 0, FINAL, **more))

    def _ask(self, offsets: dict[int, int], session: int, epoch: int, **more: Any) -> Any:
        asked = [
            {"partition": each, "fetch_offset": at, "partition_max_bytes": 1 << 20} for each, at in offsets.items()
        ]
        topics = [{"topic": self._topic, "partitions": asked}] if asked else []
        ids = {"session_id": session, "session_epoch": epoch, "isolation_level": self._isolation}
        return self._client.ask(FETCH, BY_NAME, **fetch_fields("", 0, topics=topics, **ids, **more))


class Changes:
    """Random changes of a topic by clients, and by another process."""

    def __init__(self, chance: Random, client: WireClient, topic: str, others: LogManager) -> None:
        self._chance, self._client, self._topic, self._others = chance, client, topic, others
        self._producer = WireProducer(client, f"id-{topic}")
        assert not self._producer.init().error
        self._open: int | None = None  # the partition of the transaction

    def make_one(self, consumer: Consumer) -> None:
        partition = self._chance.randrange(PARTITIONS)
        kinds = self.produce, self.append_elsewhere, self.begin, self.end, self.delete, self.move, self.forget
        self._chance.choice(kinds)(partition, consumer)

    def produce(self, partition: int, consumer: Consumer) -> None:
        fields = produce_fields(self._topic, batch(b"plain").tobytes(), partition=partition)
        assert not self._client.ask(0, 8, **fields).responses[0].partition_responses[0].error_code

    def append_elsewhere(self, partition: int, consumer: Consumer) -> None:
        end = self._end(partition)
        self._others.open_log(self._topic, partition).append_records(records([b"by another"]))
        wait = fetch_fields(self._topic, end, max_wait=20_000)
        wait["topics"][0]["partitions"][0]["partition"] = partition
        self._client.ask(FETCH, BY_NAME, **wait)
        soon(lambda: self._end(partition) > end)

    def begin(self, partition: int, consumer: Consumer) -> None:
        if self._open is None:
            assert self._producer.add(self._topic, partition) == 0
            assert self._producer.produce(self._topic, b"transactional", partition=partition) == 0
            self._open = partition

    def end(self, partition: int, consumer: Consumer) -> None:
        if self._open is not None:
            before = self._end(self._open)
            assert self._producer.end(commit=self._chance.random() < 0.5) == 0
            soon(lambda: self._end(self._open or 0) > before)
            self._open = None

    def delete(self, partition: int, consumer: Consumer) -> None:
        asked = [{"partition_index": partition, "offset": self._chance.randint(0, self._end(partition))}]
        self._client.ask(21, 1, topics=[{"name": self._topic, "partitions": asked}], timeout=1000)

    def move(self, partition: int, consumer: Consumer) -> None:
        if partition in consumer.offsets:
            consumer.offsets[partition] = self._chance.randint(0, self._end(partition) + 1)

    def forget(self, partition: int, consumer: Consumer) -> None:
        if partition not in consumer.offsets:
            consumer.offsets[partition] = 0
        elif len(consumer.offsets) > 1:
            del consumer.offsets[partition]

    def _end(self, partition: int) -> int:
        asked = [{"name": self._topic, "partitions": [{"partition_index": partition, "timestamp": -1}]}]
        return int(self._client.ask(2, 1, replica_id=-1, topics=asked).topics[0].partitions[0].offset)


@pytest.mark.parametrize("isolation", [0, 1], ids=["uncommitted", "committed"])
@pytest.mark.parametrize("seed", range(8))
def test_answers_are_those_of_a_session_that_reads_all_partitions(
    client: WireClient, log_dir: Path, seed: int, isolation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resting, "LARGE", 0)
    topic, chance = f"twins-{seed}-{isolation}", Random(f"{seed} {isolation}")
    create_topic(client, topic, PARTITIONS)
    consumer = Consumer(client, topic, isolation)
    with LogManager.open(str(log_dir)) as others:
        changes = Changes(chance, client, topic, others)
        for _ in range(STEPS):
            consumer.fetch()
            for _ in range(chance.choice([0, 0, 1, 1, 3])):
                changes.make_one(consumer)
            if chance.random() < 0.7:  # as a client that has processed what it got
                ends = {each: at for each, at in consumer.whole().items() if not at.error}
                consumer.offsets |= {each: answer.last_stable_offset for each, answer in ends.items()}


class Session:
    """A session of two partitions without records, both at rest."""

    def __init__(self, client: WireClient, topic: str) -> None:
        self._client = client
        fields = fetch_fields(topic, 0, session_epoch=INITIAL)
        fields["topics"][0]["partitions"].append({"partition": 1, "fetch_offset": 0, "partition_max_bytes": 1 << 20})
        self.id, self._epoch = client.ask(FETCH, BY_NAME, **fields).session_id, 0
        for _ in range(2):
            assert self.ask().responses == ()

    def ask(self, max_wait: int = 0) -> Any:
        return self._client.answer(FETCH, BY_NAME, self.send(max_wait))

    def send(self, max_wait: int) -> int:
        self._epoch += 1
        ids = {"session_id": self.id, "session_epoch": self._epoch}
        return self._client.send(FETCH, BY_NAME, **fetch_fields("", 0, topics=(), max_wait=max_wait, **ids))

    @contextmanager
    def woken(self) -> Iterator[list[Any]]:
        """A fetch that waits until the ``with`` block makes it answer; then the list has its answers."""
        found: list[Any] = []
        sent = self.send(600_000)
        yield found
        (topic,) = self._client.answer(FETCH, BY_NAME, sent).responses
        found += topic.partitions


def produce(gateway: Gateway, topic: str, partition: int) -> None:
    with WireClient(gateway) as producer:
        producer.ask(0, 8, **produce_fields(topic, batch(b"new").tobytes(), partition=partition))


def noted_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions that are read from now on."""
    read: list[int] = []
    real = FilePartition.slice

    def noted(led: FilePartition, *args: Any, **more: Any) -> Any:
        read.append(led.partition)
        return real(led, *args, **more)

    monkeypatch.setattr(FilePartition, "slice", noted)
    return read


def test_partitions_at_rest_are_not_read(
    gateway: Gateway, client: WireClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(client, topic)
    read = noted_reads(monkeypatch)
    assert session.ask(20).responses == ()
    assert read == []
    produce(gateway, topic, 1)
    assert [each.partition_index for each in session.ask().responses[0].partitions] == [1]
    assert read == [1]


@pytest.fixture
def wide(client: WireClient, request: pytest.FixtureRequest) -> str:
    """A topic with many partitions, the last of which has a record."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)[:200]
    create_topic(client, name, MANY)
    client.ask(0, 8, **produce_fields(name, batch(b"old").tobytes(), partition=MANY - 1))
    return name


def every(topic: str, offsets: dict[int, int], **more: Any) -> dict[str, Any]:
    """The fields of a Fetch request of all partitions, without a session."""
    asked = [
        {"partition": each, "fetch_offset": offsets.get(each, 0), "partition_max_bytes": 1 << 20}
        for each in range(MANY)
    ]
    return fetch_fields("", 0, topics=[{"topic": topic, "partitions": asked}], **more)


@pytest.mark.parametrize("isolation", [0, 1], ids=["uncommitted", "committed"])
def test_a_large_request_without_a_session_reads_what_moves_and_answers_all(
    gateway: Gateway, client: WireClient, wide: str, isolation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = every(wide, {MANY - 1: 1}, isolation_level=isolation)
    client.ask(FETCH, BY_NAME, **fields)  # opens them
    read = noted_reads(monkeypatch)
    waiting = client.send(FETCH, BY_NAME, **{**fields, "max_wait": 600_000, "min_bytes": 100})
    soon(gateway.context.partitions.waits.any.is_set)
    for partition in (3, 5):
        produce(gateway, wide, partition)
    woken = answers(client.answer(FETCH, BY_NAME, waiting))
    assert len(read) < 2 * MANY
    assert [each for each, answer in woken.items() if answer.records] == [3, 5]
    assert list(woken) == list(range(MANY))
    monkeypatch.undo()
    assert woken == answers(client.ask(FETCH, BY_NAME, **fields))
    assert not any(each.has_waiters for each in gateway.context.partitions.all() if each.topic == wide)


def test_a_large_request_without_a_session_is_answered_in_full_when_its_time_is_over(
    gateway: Gateway, client: WireClient, wide: str
) -> None:
    fields = every(wide, {MANY - 1: 1})
    at_once = answers(client.ask(FETCH, BY_NAME, **fields))
    assert answers(client.ask(FETCH, BY_NAME, **{**fields, "max_wait": 30})) == at_once
    assert {answer.high_watermark for answer in at_once.values()} == {0, 1}
    assert not any(each.has_waiters for each in gateway.context.partitions.all() if each.topic == wide)


def test_a_partition_that_the_limit_keeps_out_does_not_rest(gateway: Gateway, client: WireClient, topic: str) -> None:
    for partition in (0, 1):
        produce(gateway, topic, partition)
    asked = [{"partition": each, "fetch_offset": 0, "partition_max_bytes": 1} for each in (0, 1)]
    topics = [{"topic": topic, "partitions": asked}]
    found = client.ask(FETCH, BY_NAME, **fetch_fields("", 0, topics=topics, session_epoch=INITIAL, max_bytes=1))
    in_turn = []
    for epoch in (1, 2, 3, 4):
        ids = {"session_id": found.session_id, "session_epoch": epoch}
        later = answers(client.ask(FETCH, BY_NAME, **fetch_fields("", 0, topics=(), max_bytes=1, **ids)))
        in_turn += [partition for partition, answer in later.items() if answer.records]
    assert in_turn == [0, 1, 0, 1]


def test_a_partition_at_rest_wakes_a_fetch_that_waits(gateway: Gateway, client: WireClient, topic: str) -> None:
    session = Session(client, topic)
    with session.woken() as found:
        produce(gateway, topic, 1)
    assert [(each.partition_index, b"new" in each.records) for each in found] == [(1, True)]


def test_so_does_one_to_which_another_process_appends(client: WireClient, topic: str, log_dir: Path) -> None:
    session = Session(client, topic)
    with session.woken() as found, LogManager.open(str(log_dir)) as manager:
        manager.open_log(topic, 1).append_records(records([b"by another"]))
    assert [(each.partition_index, b"by another" in each.records) for each in found] == [(1, True)]


def test_so_does_one_that_is_deleted(gateway: Gateway, client: WireClient, topic: str) -> None:
    session = Session(client, topic)
    with session.woken() as found, WireClient(gateway) as other:
        assert other.ask(20, 3, topic_names=[topic], timeout=1000).responses[0].error_code == 0
    assert {each.error_code for each in found} == {3}


def test_a_session_that_ends_leaves_nothing_with_its_partitions(
    gateway: Gateway, client: WireClient, topic: str
) -> None:
    session = Session(client, topic)
    led = [each for each in gateway.context.partitions.all() if each.topic == topic]
    assert [each.has_waiters for each in led] == [True, True]
    client.ask(FETCH, BY_NAME, **fetch_fields(topic, 0, session_id=session.id, session_epoch=FINAL))
    assert [each.has_waiters for each in led] == [False, False]


def test_a_fetch_that_waits_in_a_session_goes_on_when_the_session_ends(
    gateway: Gateway, client: WireClient, topic: str
) -> None:
    session = Session(client, topic)
    with session.woken() as found, WireClient(gateway) as other:
        other.ask(FETCH, BY_NAME, **fetch_fields(topic, 0, session_id=session.id, session_epoch=FINAL))
        produce(gateway, topic, 0)
    assert [each.partition_index for each in found] == [0]


def test_a_partition_at_rest_is_refused_once_the_rules_say_so(tmp_path: Path) -> None:
    allowing = '[[allow]]\nusers = ["*"]\noperations = ["all"]\ntopics = ["t"]\n'
    rules = tmp_path / "rules.toml"
    rules.write_text(allowing)
    with serving(tmp_path / "log", commitlog_rules_file=str(rules)) as gateway, WireClient(gateway) as client:
        create_topic(client, "t", 2)
        session = Session(client, "t")
        rules.write_text(allowing.replace('"t"', '"another"'))
        soon(lambda: bool(session.ask().responses))
        assert {each.error_code for each in session.ask().responses[0].partitions} == {29}
