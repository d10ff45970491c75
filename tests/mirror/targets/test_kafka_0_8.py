"""Clusters without transactions as targets of a mirror: at least once, in order, and what they cannot hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.classic.wire import calls
from pyspark_commitlog.classic.wire.broker import Broker
from pyspark_commitlog.classic.wire.connection import Address
from pyspark_commitlog.mirror.errors import RetriableError
from pyspark_commitlog.mirror.progress import NextOffset
from pyspark_commitlog.mirror.settings import SourceSettings, TargetSettings
from pyspark_commitlog.mirror.sources.port import BrokerPartition
from pyspark_commitlog.mirror.targets import kafka_0_8 as old_target
from pyspark_commitlog.mirror.targets.kafka_0_8 import OldWriter, _version_of
from pyspark_commitlog.protocol.apis import ApiKey
from pyspark_commitlog.storage import (
    Codec,
    InvalidConfigError,
    LogManager,
    RecordTooLargeError,
    TopicPartition,
    UnknownTopicOrPartitionError,
)
from tests.mirror.support import Pair, Place, contents, fill, mirrored, numbered, topics
from tests.support.gateway import serving

FLIGHTS = TopicPartition("flights", 0)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Place]:
    settings = {"offsets_topic_num_partitions": 1, "num_partitions": 3}
    with serving(tmp_path / "target", **settings) as gateway:
        host, port = gateway.address
        yield Place(tmp_path / "target", f"{host}:{port}")


@pytest.fixture
def source(tmp_path: Path) -> SourceSettings:
    fill(tmp_path / "source", "flights", numbered(0, 20), partitions=3, codec=Codec.GZIP)
    return SourceSettings.parse({"group.id": "one", "log.dir": str(tmp_path / "source")})


def old(target: Place, **more: str) -> TargetSettings:
    given = {name.replace("_", "."): value for name, value in more.items()}
    return TargetSettings.parse({"metadata.broker.list": target.bootstrap, **given})


def of_0_8(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets brokers be as those before 0.10, which close a connection on which they are asked for versions."""
    monkeypatch.setattr(old_target, "_version_of", lambda _address: 0)


@pytest.mark.parametrize("kafka", ["0.8", "0.10"])
def test_records_arrive_in_order_and_another_run_goes_on(
    target: Place, source: SourceSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kafka: str
) -> None:
    if kafka == "0.8":
        of_0_8(monkeypatch)
    for first, codec in ((20, Codec.NONE), (30, Codec.LZ4), (40, Codec.ZSTD)):
        mirrored([source], old(target))
        fill(tmp_path / "source", "flights", numbered(first, first + 10), codec=codec)
        fill(tmp_path / "source", "flights", numbered(first, first + 10, "other "), partition=1)
    mirrored([source], old(target))
    found = contents(target.directory, "flights")
    assert found == {0: numbered(0, 50), 1: numbered(20, 50, "other "), 2: []}
    assert times(target) == ({-1} if kafka == "0.8" else times(Place(tmp_path / "source", "")))
    assert [each for each in topics(target.directory) if "progress" in each] == []


def times(place: Place) -> set[int]:
    with LogManager.open(str(place.directory)) as manager, manager.open_reader(*FLIGHTS) as reader:
        pieces = reader.records(reader.log_start_offset, reader.log_end_offset)
        return {time for piece in pieces for time in piece.timestamps.tolist()}


def test_after_an_error_records_may_come_again_but_none_is_missing_and_each_run_is_in_order(
    target: Place, source: SourceSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (2, 3):
        fill(tmp_path / "source", "flights", numbered(10 * number, 10 * number + 10))
    monkeypatch.setattr("pyspark_commitlog.mirror.run._PAUSES_S", (0.01,) * 9)
    monkeypatch.setattr("pyspark_commitlog.mirror.session.TRANSACTION_BYTES", 1)
    lose_commits(monkeypatch, first=2, last=3)
    small = SourceSettings.parse(
        {"group.id": "one", "log.dir": str(tmp_path / "source"), "max.partition.fetch.bytes": "100"}
    )
    said: list[str] = []
    mirrored([small], old(target), report=said.append)
    assert ["no answer to the commit" in each for each in said] == [True, True]
    assert in_order(contents(target.directory, "flights")[0], numbered(0, 40)) > 0


def lose_commits(monkeypatch: pytest.MonkeyPatch, first: int, last: int) -> None:
    """Lets some commits fail, after the records are there."""
    committed, counts = OldWriter._commit, [0]

    def losing(writer: OldWriter, progress: Mapping[Any, int]) -> None:
        counts[0] += 1
        if first <= counts[0] <= last:
            raise RetriableError("no answer to the commit")
        committed(writer, progress)

    monkeypatch.setattr(OldWriter, "_commit", losing)


def in_order(found: list[Pair], wanted: list[Pair]) -> int:
    """Checks that records only go on, or begin again at one that was there; returns how many came again."""
    place = {pair: number for number, pair in enumerate(wanted)}
    newest, before, again = -1, -1, 0
    for number in (place[pair] for pair in found):
        assert number == before + 1 or number <= newest, f"{number} after {before}"
        again += number <= newest
        newest, before = max(newest, number), number
    assert newest == len(wanted) - 1
    return again


def test_the_progress_of_each_broker_of_0_7_is_kept_apart(target: Place) -> None:
    writer = old(target).targets.open("g")
    writer.prepare("t", 1, {}, grow=True)
    places = [BrokerPartition("t", 0, 1), BrokerPartition("t", 0, 2), TopicPartition("t", 0), TopicPartition("t", 2)]
    progress = {place: NextOffset(number) for number, place in enumerate(places[:3])}
    writer.write({}, progress)
    writer.close()
    again = old(target).targets.open("g")
    assert again.progress(places) == progress
    another = old(target).targets.open("another")
    assert another.progress(places) == {}
    for each in (again, another):
        each.close()


def test_progress_that_brokers_do_not_return_is_not_taken_for_none(
    target: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka 0.8.2 returns none of a partition that its topic lacks, so the mirror would begin again there."""

    def unknown(*_: object, **__: object) -> None:
        raise UnknownTopicOrPartitionError("flights-5: the broker answered unknown_topic_or_partition (3)")

    monkeypatch.setattr(calls, "committed", unknown)
    monkeypatch.setattr("pyspark_commitlog.classic.streams.offset_stores.FETCH_PATIENCE_S", 0.0)
    writer = old(target).targets.open("g")
    try:
        with pytest.raises(RetriableError, match=r"flights-5: .* as many partitions as that of the source has"):
            writer.progress([TopicPartition("flights", 5)])
    finally:
        writer.close()


def test_a_compressed_batch_that_is_too_large_is_divided_and_a_record_that_is_too_large_is_an_error(
    target: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_0_8(monkeypatch)
    large = [(b"%d" % number, bytes((number * step) % 251 for step in range(3000))) for number in range(20)]
    fill(tmp_path / "source", "t", large, codec=Codec.SNAPPY)
    source = SourceSettings.parse({"group.id": "one", "log.dir": str(tmp_path / "source")})
    mirrored([source], old(target, message_max_bytes="6000"))
    assert contents(target.directory, "t")[0] == large
    fill(target.directory, "small", [(b"k", b"v")], max_message_bytes="2000")
    fill(tmp_path / "source", "small", large[:1])
    with pytest.raises(RecordTooLargeError, match="small-0 of Kafka at"):
        mirrored([source], old(target))


def test_brokers_before_0_10_are_told_from_those_that_do_not_answer(
    target: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = Address.parse(target.bootstrap)
    assert _version_of(address) == 2
    monkeypatch.setattr(Broker, "_frame", closing_frame(Broker._frame))
    assert _version_of(address) == 0
    assert _version_of(Address("127.0.0.1", 1)) == 2


def closing_frame(frame: Any) -> Any:
    """Lets a question for versions be bytes on which any broker closes the connection."""
    return lambda broker, key, *more: b"\xff" * 10 if key == ApiKey.API_VERSIONS else frame(broker, key, *more)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metadata.broker.list": "h"}, "'h' is not an address"),
        ({"metadata.broker.list": "h:1", "transaction.timeout.ms": "5"}, r"unknown setting 'transaction\.timeout\.ms'"),
        ({"metadata.broker.list": "h:1", "mesage.max.bytes": "5"}, r"did you mean 'message\.max\.bytes'"),
    ],
)
def test_settings_of_an_old_target_are_checked(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        TargetSettings.parse(settings)
