"""Real clients at two gateways over one log on an object store, beside another writer: each record is there once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.root import open_root
from tests.support.gateway import serving_apart
from tests.support.logs.building import records
from tests.support.stores.filled import read_rows
from tests.support.stores.filling import write
from tests.support.stores.seaweed import SeaweedFS
from tests.support.stores.served import ServedStores

MESSAGES, COMMITS = 200, 10
TIMEOUT_S = 120.0


@pytest.fixture(params=["memory", pytest.param("seaweedfs", marks=pytest.mark.only_all)])
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The URL of a log, which is made by the first gateway's or the other writer's wish only."""
    with ExitStack() as stack:
        if request.param == "memory":
            found = "s3://memory/logs"
            ServedStores(monkeypatch).create(found)
        else:
            server = stack.enter_context(SeaweedFS(tmp_path / "seaweed"))
            server.reach(monkeypatch)
            found = server.url
            open_root(found, create=True, check=lambda _: [])
        yield found


class Sending(Thread):
    """An idempotent producer at one gateway, which sends ``MESSAGES`` values to the two partitions in turn."""

    def __init__(self, gateway: Gateway, name: str) -> None:
        super().__init__(daemon=True)
        settings = {"bootstrap.servers": gateway.bootstrap_servers, "enable.idempotence": True, "linger.ms": 1}
        self._producer, self._name, self.errors = Producer(settings), name, list[object]()

    def run(self) -> None:
        for number in range(MESSAGES):
            self._producer.produce("t", b"%s-%d" % (self._name.encode(), number), partition=number % 2)
            self._producer.poll(0.001)
        if self._producer.flush(TIMEOUT_S):
            self.errors.append("not all were delivered")


def commit_beside(log: CommitLog) -> list[bytes]:
    """Commits as Spark's tasks do, while clients produce; returns the values, each in both partitions."""
    values = [b"spark-%d" % number for number in range(COMMITS)]
    for value in values:
        log.catch_up()
        write(log, "t", {partition: [records([value])] for partition in range(2)})
    return values


def consumed(gateway: Gateway, count: int) -> list[tuple[int, int, bytes]]:
    """Partition, offset and value of what a group gets."""
    settings = {"bootstrap.servers": gateway.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
    consumer.subscribe(["t"])
    found = []
    try:
        while len(found) < count:
            batch = consumer.consume(count - len(found), TIMEOUT_S)
            assert batch, f"{len(found)} of {count}"
            assert not [each.error() for each in batch if each.error()]
            found += [(each.partition() or 0, each.offset() or 0, each.value() or b"") for each in batch]
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def test_clients_and_another_writer_share_a_log(url: str) -> None:
    quick = {"commitlog_bucket_linger_ms": 5, "group_initial_rebalance_delay_ms": 0}
    with ExitStack() as stack:
        one, two = (stack.enter_context(serving_apart(url, **quick)) for _ in range(2))
        admin = AdminClient({"bootstrap.servers": one.bootstrap_servers})
        admin.create_topics([NewTopic("t", 2)])["t"].result(60)
        senders = [Sending(gateway, name) for gateway, name in ((one, "a"), (two, "b"))]
        for sender in senders:
            sender.start()
        log = open_root(url)
        beside = commit_beside(log)
        for sender in senders:
            sender.join()
            assert not sender.errors
        found = consumed(two, 2 * MESSAGES + 2 * COMMITS)
    log.catch_up()
    for partition in range(2):
        rows = [(offset, value) for offset, _, value in read_rows(log, partition=partition)]
        assert [offset for offset, _ in rows] == list(range(len(rows)))
        assert rows == sorted((offset, value) for number, offset, value in found if number == partition)
        for name in "ab":
            own = [value for _, value in rows if (value or b"").startswith(name.encode())]
            assert own == [b"%s-%d" % (name.encode(), number) for number in range(partition, MESSAGES, 2)]
        assert [value for _, value in rows if (value or b"").startswith(b"spark")] == beside
    assert {name: each.offset for name, each in log.state.groups["g"].items()} == {
        f"t-{partition}": log.state.partitions[log.state.topic_ids["t"], partition].end for partition in range(2)
    }


def test_transactions_move_records_with_their_progress(url: str) -> None:
    """Some are aborted, and the id goes from one gateway to the other: each record comes out once."""
    quick = {"commitlog_bucket_linger_ms": 5, "group_initial_rebalance_delay_ms": 0}
    with ExitStack() as stack:
        gateways = [stack.enter_context(serving_apart(url, **quick)) for _ in range(2)]
        admin = AdminClient({"bootstrap.servers": gateways[0].bootstrap_servers})
        for made in admin.create_topics([NewTopic("from", 1), NewTopic("t", 2)]).values():
            made.result(60)
        log = open_root(url)
        sent = [b"%d" % number for number in range(30)]
        write(log, "from", {0: [records(sent)]})
        for gateway in gateways:
            _move(gateway, 15)
    for partition in range(2):
        offsets, values = zip(
            *((offset, value) for offset, _, value in read_rows(log, partition=partition)), strict=True
        )
        assert list(values) == sent[partition::2]
        assert list(offsets) == sorted({*offsets})  # aborted transactions leave gaps
    assert log.catch_up().groups["mover"]["from-0"].offset == 30


def _move(gateway: Gateway, count: int) -> None:
    """Moves records in transactions of three; before each one that is committed, another is aborted."""
    servers = {"bootstrap.servers": gateway.bootstrap_servers}
    settings = {**servers, "group.id": "mover", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer, producer = Consumer(settings), Producer({**servers, "transactional.id": "mover", "linger.ms": 0})
    producer.init_transactions(TIMEOUT_S)
    consumer.subscribe(["from"])
    try:
        for _ in range(count // 3):
            found = consumer.consume(3, TIMEOUT_S)
            assert len(found) == 3
            for is_committed in (False, True):
                producer.begin_transaction()
                for each in found:
                    producer.produce("t", each.value(), partition=(each.offset() or 0) % 2)
                position = consumer.position(consumer.assignment())
                producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), TIMEOUT_S)
                if is_committed:
                    producer.commit_transaction(TIMEOUT_S)
                else:
                    producer.abort_transaction(TIMEOUT_S)
    finally:
        consumer.close()
