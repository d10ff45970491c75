"""Clusters of Kafka 0.8 as sources: leaders that are missing or move, large messages, and times."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pyspark_commitlog.classic.errors import MalformedAnswerError
from pyspark_commitlog.classic.wire.connection import Address
from pyspark_commitlog.mirror.brokers import failing
from pyspark_commitlog.mirror.brokers.connections import ListedTopic
from pyspark_commitlog.mirror.brokers.requests import EARLIEST, LATEST
from pyspark_commitlog.mirror.errors import MirrorError, RetriableError
from pyspark_commitlog.mirror.sources import kafka_0_8
from pyspark_commitlog.mirror.sources.kafka_0_8 import ZooKeeperSource, ZooKeeperSources
from pyspark_commitlog.registry.errors import RegistryError
from pyspark_commitlog.storage import FetchAnswer, TopicPartition, visible_records
from tests.mirror.support import delete_before, fill, numbered, place
from tests.support.classic.old_brokers import NOBODY, OldBrokers
from tests.support.waiting import soon

FLIGHTS = TopicPartition("flights", 0)
LARGE = b"x" * 5000


def source_of(brokers: OldBrokers, **settings: int) -> ZooKeeperSource:
    return ZooKeeperSource(ZooKeeperSources("nowhere:1", **settings), brokers.registered)


def values(answer: FetchAnswer | None) -> list[bytes | None]:
    assert answer is not None
    found = visible_records(answer)[0].values
    assert found is not None
    return found.to_list()


class Reader:
    """Reads all partitions from their beginnings on."""

    def __init__(self, source: ZooKeeperSource, *partitions: TopicPartition) -> None:
        self.source, self.read = source, {each: list[bytes | None]() for each in partitions}

    def has(self, wanted: Mapping[TopicPartition, list[bytes]]) -> bool:
        answers = self.source.fetch({each: len(read) for each, read in self.read.items()})
        for each, answer in answers.items():
            self.read[each] += values(answer)
        return self.read == wanted


def test_a_time_before_all_files_stands_for_the_earliest_offset(tmp_path: Path) -> None:
    for first in (0, 6):
        fill(tmp_path / "log", "flights", numbered(first, first + 6))
    with place(tmp_path / "log") as served:
        delete_before(served, "flights", 0, 6)
        at = Address.parse(served.bootstrap)
        source = ZooKeeperSource(ZooKeeperSources("nowhere:1"), lambda: {0: at, 1: at, 2: at})
        found = [source.offsets([FLIGHTS], at)[FLIGHTS] for at in (EARLIEST, 1_000, LATEST)]
        source.close()
    assert found == [6, 6, 12]


def test_a_partition_without_a_leader_comes_back_and_the_others_go_on() -> None:
    with OldBrokers(2) as brokers:
        one, other = brokers.add("t", 0, [b"1"]), brokers.add("t", 1, [b"2"], NOBODY)
        source = source_of(brokers)
        assert source.topics() == [ListedTopic("t", 2)]
        assert source.offsets([one, other], LATEST) == {one: 1}
        reader = Reader(source, one, other)
        soon(lambda: reader.has({one: [b"1"], other: []}))
        brokers.logs[one].append(b"3")
        soon(lambda: reader.has({one: [b"1", b"3"], other: []}))
        brokers.leaders[other] = 1
        soon(lambda: reader.has({one: [b"1", b"3"], other: [b"2"]}))
        assert source.offsets([one, other], LATEST) == {one: 2, other: 1}
        source.close()


def test_a_partition_whose_leader_moves_is_read_from_the_new_one() -> None:
    with OldBrokers(2) as brokers:
        one, other = brokers.add("t", 0, [b"1"]), brokers.add("t", 1, [b"2"])
        source = source_of(brokers)
        reader = Reader(source, one, other)
        soon(lambda: reader.has({one: [b"1"], other: [b"2"]}))
        brokers.leaders[one] = 1
        brokers.logs[one].append(b"3")
        soon(lambda: reader.has({one: [b"1", b"3"], other: [b"2"]}))
        brokers.leaders[other] = 1
        soon(lambda: source.offsets([one, other], LATEST) == {one: 2, other: 1})
        source.close()


def test_the_partitions_of_a_broker_that_ends_are_read_from_another_and_the_others_go_on() -> None:
    with OldBrokers(2) as brokers:
        one, other = brokers.add("t", 0, [b"1"], 1), brokers.add("t", 1, [b"2"])
        source = source_of(brokers)
        reader = Reader(source, one, other)
        soon(lambda: reader.has({one: [b"1"], other: [b"2"]}))
        brokers.end(1)
        for each in (one, other):
            brokers.logs[each].append(b"3")
        soon(lambda: reader.has({one: [b"1"], other: [b"2", b"3"]}))
        brokers.leaders[one] = 0
        soon(lambda: reader.has({one: [b"1", b"3"], other: [b"2", b"3"]}))
        source.close()


def test_where_no_partition_has_a_leader_for_long_the_fetch_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with OldBrokers() as brokers:
        one, other = brokers.add("t", 0, [b"1"], NOBODY), brokers.add("t", 1, [b"2"])
        source = source_of(brokers)
        assert source.fetch({one: 0}) == {}
        monkeypatch.setattr(failing, "PATIENCE_S", -1.0)
        reader = Reader(source, one, other)
        soon(lambda: reader.has({one: [], other: [b"2"]}))
        with pytest.raises(RetriableError, match="nowhere:1: t-0 has no leader that answers"):
            source.fetch({one: 0})
        source.close()


def test_where_no_broker_answers_the_fetch_fails_and_a_later_one_finds_them_again() -> None:
    def unknown() -> Mapping[int, Address]:
        raise RegistryError("down")

    with OldBrokers() as brokers:
        one = brokers.add("t", 0, [b"1"])
        source = ZooKeeperSource(ZooKeeperSources("nowhere:1"), unknown)
        with pytest.raises(RetriableError, match="nowhere:1: down"):
            source.topics()
        source = ZooKeeperSource(ZooKeeperSources("nowhere:1"), lambda: {})
        with pytest.raises(RetriableError, match="has no broker"):
            source.fetch({one: 0})
        source = source_of(brokers)
        soon(lambda: values(source.fetch({one: 0}).get(one)) == [b"1"], AssertionError)
        brokers.end(0)
        with pytest.raises(RetriableError):
            [source.topics() for _ in range(2)]
        source.close()


@pytest.mark.parametrize("sends_parts", [True, False])
def test_a_message_that_is_larger_than_a_fetch_is_fetched_by_doubling(*, sends_parts: bool) -> None:
    with OldBrokers(sends_parts=sends_parts) as brokers:
        one, other = brokers.add("t", 0, [b"1", LARGE, b"2"]), brokers.add("t", 1, [b"3"])
        source = source_of(brokers, fetch_bytes=100)
        reader = Reader(source, one, other)
        soon(lambda: reader.has({one: [b"1", LARGE, b"2"], other: [b"3"]}))
        sizes = [size for place, offset, size in brokers.fetched if (place, offset) == (one, 1)]
        assert sizes == [100 << each for each in range(len(sizes))]
        assert [size for place, offset, size in brokers.fetched if (place, offset) == (one, 3)][-1:] in ([100], [])
        source.close()


def test_a_message_that_is_larger_than_any_may_be_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_0_8, "_FETCH_BYTES_MAX", 400)
    with OldBrokers() as brokers:
        one = brokers.add("t", 0, [LARGE])
        source = source_of(brokers, fetch_bytes=100)
        with pytest.raises(MirrorError, match=r"t-0 of Kafka .* a message needs more than 400 bytes"):
            soon(lambda: bool(source.fetch({one: 0})))
        source.close()


def test_offsets_without_messages_at_the_end_are_waited_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_0_8, "_FETCH_BYTES_MAX", 400)
    with OldBrokers() as brokers:
        one = brokers.add("t", 0, [b"1"])
        brokers.hidden[one] = 1
        source = source_of(brokers, fetch_bytes=100)
        reader = Reader(source, one)
        soon(lambda: reader.has({one: [b"1"]}) and len(brokers.fetched) > 9)
        assert {size for _, offset, size in brokers.fetched[-3:] if offset == 1} == {100}
        brokers.logs[one].append(b"2")
        soon(lambda: reader.has({one: [b"1", b"2"]}))
        source.close()


def test_a_broker_that_answers_no_offset_is_malformed() -> None:
    with OldBrokers() as brokers:
        one = brokers.add("t", 0, [b"1"])
        brokers.offsets_answered = ()
        source = source_of(brokers)
        with pytest.raises(MalformedAnswerError, match="no offset of t-0"):
            source.offsets([one], EARLIEST)
        source.close()
