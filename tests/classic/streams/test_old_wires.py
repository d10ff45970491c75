"""Streams over clusters of Kafka 0.7 and 0.8 whose consumers meet in a registry."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.classic.consumer import SimpleConsumer
from pyspark_commitlog.classic.errors import ClientError, ConsumerTimeoutError
from pyspark_commitlog.classic.topic_filters import Blacklist, Whitelist
from pyspark_commitlog.classic.wire import calls
from pyspark_commitlog.classic.wire.broker import Broker
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.registry import kafka_nodes
from pyspark_commitlog.registry.operations import put
from pyspark_commitlog.storage import CorruptRecordError, InvalidConfigError, OffsetOutOfRangeError, TopicPartition
from tests.support.classic.streams import Collected, OldCluster, old_cluster
from tests.support.waiting import soon


@pytest.fixture(params=["0.7", "0.8"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OldCluster]:
    with old_cluster(request.param, tmp_path) as started:
        yield started


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % each for each in range(first, last)]


def values(stream: Any, count: int) -> list[bytes]:
    return [each.message for each in islice(stream, count)]


def soon_read(count: int, *reading: Collected) -> None:
    """Waits until streams have yielded ``count`` messages in all; fails at once if one of them raised an error."""

    def has_come() -> bool:
        assert [each.error for each in reading] == [None] * len(reading)
        return sum(len(each.messages) for each in reading) == count

    soon(has_come)


def test_streams_of_several_topics_bring_messages_in_order_and_say_where_they_are(cluster: OldCluster) -> None:
    for topic in ("a", "b"):
        cluster.create(topic, 2)
        for partition in (0, 1):
            cluster.produce(topic, numbers(0, 5), partition)
    with cluster.connect() as connector:
        streams = connector.create_message_streams({"a": 1, "b": 2}, value_decoder=int)
        assert {topic: len(each) for topic, each in streams.items()} == {"a": 1, "b": 2}
        (one,) = streams["a"]
        found = list(islice(one, 10))
        assert {(each.topic, each.broker, each.key) for each in found} == {("a", cluster.broker, None)}
        for partition in (0, 1):
            mine = [each for each in found if each.partition == partition]
            assert [each.message for each in mine] == list(range(5))
            offsets = [each.offset for each in mine]
            assert [each.next_offset for each in mine][:-1] == offsets[1:]
        for stream in streams["b"]:  # one partition each
            assert [each.message for each in islice(stream, 5)] == list(range(5))


def test_several_threads_may_fetch_from_one_broker(cluster: OldCluster) -> None:
    cluster.create("t", 2)
    for partition in (0, 1):
        cluster.produce("t", numbers(0, 5), partition)
    with cluster.connect(num_consumer_fetchers=2) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        found = list(islice(stream, 10))
        fetching = [each for each in threading.enumerate() if each.name == f"commitlog fetcher {cluster.address}"]
        assert len(fetching) == 2
    assert [[each.message for each in found if each.partition == number] for number in (0, 1)] == [numbers(0, 5)] * 2


def test_what_was_handed_out_is_committed_where_old_tools_look_and_read_on_from_there(cluster: OldCluster) -> None:
    cluster.create("t")
    cluster.produce("t", numbers(0, 10))
    with cluster.connect() as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        last = list(islice(stream, 4))[-1]
        assert cluster.committed("t") is None
        connector.commit_offsets()
        assert cluster.committed("t") == last.next_offset
        (position,) = connector.positions().items()
        assert position == (("t", 0, cluster.broker), last.next_offset)
        assert values(stream, 1) == [b"4"]
    with cluster.connect(autocommit_enable=False) as connector:  # the shutdown committed
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        assert values(stream, 3) == numbers(5, 8)
    with cluster.connect(autocommit_enable=False) as connector:  # this one did not
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        assert values(stream, 5) == numbers(5, 10)


def test_after_the_end_of_its_session_a_consumer_sets_back_nothing_that_others_committed(cluster: OldCluster) -> None:
    cluster.create("t")
    cluster.produce("t", numbers(0, 10))
    with cluster.connect() as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        assert values(stream, 2) == numbers(0, 2)
        connector.commit_offsets()
        connector._wire._session = "one that has expired"  # type: ignore[attr-defined]
        last = list(islice(stream, 2))[-1]
        connector.commit_offsets()
        assert cluster.committed("t") == last.next_offset  # nobody has read there since
        others = last.next_offset + 1
        put(cluster.registry, kafka_nodes.offset_path("g", "t", 0, cluster.broker), b"%d" % others)
        assert values(stream, 2) == numbers(4, 6)
        connector.commit_offsets()
        assert cluster.committed("t") == others
    assert cluster.committed("t") == others


def test_offsets_are_committed_at_intervals(cluster: OldCluster) -> None:
    cluster.create("t")
    cluster.produce("t", numbers(0, 3))
    with cluster.connect(autocommit_interval_ms=10) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        last = list(islice(stream, 3))[-1]
        soon(lambda: cluster.committed("t") == last.next_offset)


def test_a_group_shares_partitions_and_each_message_is_read_once(cluster: OldCluster) -> None:
    cluster.create("t", 4)
    one = cluster.connect(consumerid="one", autocommit_interval_ms=50)
    first = [Collected(each) for each in one.create_message_streams({"t": 2})["t"]]
    for partition in range(4):
        cluster.produce("t", numbers(0, 50), partition)
    soon_read(200, *first)
    other = cluster.connect(consumerid="two", autocommit_interval_ms=50)
    (stream,) = other.create_message_streams({"t": 1})["t"]
    second = Collected(stream)
    for partition in range(4):
        cluster.produce("t", numbers(50, 100), partition)
    soon_read(400, *first, second)
    assert second.messages
    other.shutdown()
    for partition in range(4):
        cluster.produce("t", numbers(100, 110), partition)
    soon_read(440, *first, second)
    one.shutdown()
    everything = sorted((each.partition, int(each.message)) for read in (*first, second) for each in read.messages)
    assert everything == [(partition, number) for partition in range(4) for number in range(110)]
    assert [each.error for each in (*first, second)] == [None] * 3


def test_filters_follow_topics_that_come_later(cluster: OldCluster) -> None:
    cluster.create("white-1")
    cluster.produce("white-1", [b"1"])
    white, black = cluster.connect(groupid="white"), cluster.connect(groupid="black")
    (chosen,) = white.create_message_streams_by_filter(Whitelist("white-.*"), 1)
    (rest,) = black.create_message_streams_by_filter(Blacklist("white-.*"), 1)
    assert values(chosen, 1) == [b"1"]
    for topic in ("white-2", "other"):
        cluster.create(topic)
        cluster.produce(topic, [topic.encode()])
    assert [(each.topic, each.message) for each in islice(chosen, 1)] == [("white-2", b"white-2")]
    assert values(rest, 1) == [b"other"]
    white.shutdown()
    black.shutdown()


def test_a_stream_without_messages_times_out_and_can_be_used_again(cluster: OldCluster) -> None:
    cluster.create("t")
    with cluster.connect(consumer_timeout_ms=50) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        with pytest.raises(ConsumerTimeoutError, match=r"0\.05 s"):
            next(stream)
        cluster.produce("t", [b"late"])
        soon(lambda: values(stream, 1) == [b"late"], ConsumerTimeoutError)


def test_a_shutdown_ends_streams_that_wait(cluster: OldCluster) -> None:
    cluster.create("t")
    connector = cluster.connect(consumer_timeout_ms=-1)
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    waiting = Collected(stream)
    connector.shutdown()
    waiting.thread.join(20)
    assert (waiting.thread.is_alive(), waiting.error, waiting.messages) == (False, None, [])
    connector.shutdown()  # again is no error
    with pytest.raises(ClientError, match="shut down"):
        connector.create_message_streams({"t": 1})
    assert list(stream) == []


def test_streams_are_made_once(cluster: OldCluster) -> None:
    cluster.create("t")
    with cluster.connect() as connector:
        connector.create_message_streams({"t": 1})
        with pytest.raises(ClientError, match="in one call"):
            connector.create_message_streams({"t": 1})
        with pytest.raises(ClientError, match="in one call"):
            connector.create_message_streams_by_filter(Whitelist("t"))
    with cluster.connect() as connector:
        for wrong in ({}, {"t": 0}):
            with pytest.raises(InvalidConfigError, match="one stream"):
                connector.create_message_streams(wrong)


def test_without_an_offset_the_settings_say_where_to_begin(cluster: OldCluster) -> None:
    cluster.create("t")
    cluster.produce("t", [b"old"])
    with cluster.connect(groupid="largest", autooffset_reset="largest") as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        soon(lambda: bool(connector.positions()))
        cluster.produce("t", [b"later"])
        assert values(stream, 1) == [b"later"]
    with cluster.connect(groupid="neither", autooffset_reset="error") as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        with pytest.raises(OffsetOutOfRangeError, match="neither smallest nor largest"):
            next(stream)


def test_an_offset_outside_the_log_is_reset_or_raised(cluster: OldCluster) -> None:
    cluster.create("t")
    cluster.produce("t", numbers(0, 3))
    outside = {("t", 0) if cluster.broker is None else ("t", 0, 0): 10**6}
    with cluster.connect(outside) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        assert values(stream, 3) == numbers(0, 3)
    with cluster.connect(outside, groupid="other", autooffset_reset="fail") as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        with pytest.raises(OffsetOutOfRangeError):
            next(stream)


def test_a_program_that_keeps_its_offsets_begins_and_rewinds_where_it_says(cluster: OldCluster) -> None:
    cluster.create("t", 2)
    for partition in (0, 1):
        cluster.produce("t", numbers(0, 10), partition)
    stored: dict[Any, int] = {}
    results: list[tuple[int, bytes | None]] = []
    for upto in (7, 20):  # the second run goes on where the results of the first end
        with cluster.connect(lambda asked: {each: stored[each] for each in asked if each in stored}) as connector:
            (stream,) = connector.create_message_streams({"t": 1})["t"]
            for each in islice(stream, upto - len(results)):
                results.append((each.partition, each.message))
                stored[each.topic, each.partition, each.broker] = each.next_offset
    assert sorted(results) == sorted((partition, each) for partition in (0, 1) for each in numbers(0, 10))
    with cluster.connect(autocommit_enable=False, groupid="again") as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        found = list(islice(stream, 20))
        third = next(each for each in found if each.partition == 0 and each.message == b"2")
        connector.rewind({("t", 0, cluster.broker): third.offset})
        assert values(stream, 8) == numbers(2, 10)
        with pytest.raises(ClientError, match="not read by this consumer"):
            connector.rewind({("t", 7, cluster.broker): 0})


def test_a_rewind_beside_other_streams_brings_each_message_once_more(cluster: OldCluster) -> None:
    cluster.create("t", 3)
    for partition in range(3):
        for number in range(20):
            cluster.produce("t", [b"%d" % number], partition)
    with cluster.connect(fetch_size=60, queuedchunks_max=1) as connector:
        streams = connector.create_message_streams({"t": 3})["t"]
        for stream in streams:
            first, *_ = list(islice(stream, 20))
            for _ in range(5):
                connector.rewind({("t", first.partition, cluster.broker): first.offset})
                assert values(stream, 7) == numbers(0, 7)
            assert values(stream, 13) == numbers(7, 20)


def test_a_message_larger_than_a_fetch_comes_whole(cluster: OldCluster) -> None:
    cluster.create("t")
    cluster.produce("t", [b"small"])
    cluster.produce("t", [b"x" * 100_000])
    cluster.produce("t", [b"after"])
    with cluster.connect(fetch_size=100) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        assert [len(each or b"") for each in values(stream, 3)] == [5, 100_000, 5]


def test_a_slow_stream_does_not_hold_up_others_and_bounds_what_is_read_ahead(cluster: OldCluster) -> None:
    for topic in ("slow", "quick"):
        cluster.create(topic)
        for number in range(30):
            cluster.produce(topic, [b"%d" % number])
    with cluster.connect(queuedchunks_max=1, fetch_size=100) as connector:
        streams = connector.create_message_streams({"slow": 1, "quick": 1})
        assert values(streams["quick"][0], 30) == numbers(0, 30)
        assert values(streams["slow"][0], 30) == numbers(0, 30)


def test_a_broker_that_moves_to_another_address_is_followed(tmp_path: Path) -> None:
    with old_cluster("0.7", tmp_path / "a") as one:
        one.create("t")
        one.produce("t", [b"before"])
        with one.connect() as connector:
            (stream,) = connector.create_message_streams({"t": 1})["t"]
            assert values(stream, 1) == [b"before"]
            with old_cluster("0.7", tmp_path / "b") as other:
                other.produce("t", [b"before", b"after"])
                one.registry.set("/brokers/ids/0", b"creator:%s:%d" % (other.address.host.encode(), other.address.port))
                SimpleConsumer(*one.address, wire="0.7").close()
                for fetcher in connector._wire._fetchers._running._fetchers.values():  # type: ignore[attr-defined]
                    fetcher.consumer._connection._is_closed = True  # as if it broke
                assert values(stream, 1) == [b"after"]


def test_damage_is_raised_once_and_other_partitions_are_read_on(tmp_path: Path) -> None:
    with old_cluster("0.7", tmp_path) as cluster:
        cluster.create("t", 2)
        cluster.produce("t", [b"good", b"damaged"])
        file = next((tmp_path / "log" / "t-0").glob("*.kafka"))
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
        with cluster.connect() as connector:
            (stream,) = connector.create_message_streams({"t": 1})["t"]
            assert values(stream, 1) == [b"good"]
            with pytest.raises(CorruptRecordError):
                next(stream)
            cluster.produce("t", [b"elsewhere"], 1)
            assert values(stream, 1) == [b"elsewhere"]


# Offsets in the coordinator's log, and in both places


@pytest.fixture
def of_0_8(tmp_path: Path) -> Iterator[OldCluster]:
    with old_cluster("0.8", tmp_path) as started:
        yield started


def in_log(cluster: OldCluster) -> int | None:
    with SimpleConsumer(*cluster.address) as consumer:
        return consumer.fetch_offsets("g", [TopicPartition("t", 0)], "kafka")[TopicPartition("t", 0)]


def read(cluster: OldCluster, count: int, **settings: object) -> list[bytes]:
    with cluster.connect(**settings) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        return values(stream, count)


def test_a_commit_at_the_shutdown_is_repeated(of_0_8: OldCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    of_0_8.create("t")
    of_0_8.produce("t", numbers(0, 5))
    commit, refused = calls.commit, [ErrorCode.not_coordinator] * 2

    def commit_later(broker: Broker, group: str, offsets: Any, **more: Any) -> Any:
        return dict.fromkeys(offsets, refused.pop()) if refused else commit(broker, group, offsets, **more)

    connector = of_0_8.connect(offsets_storage="kafka", offsets_commit_max_retries=2)
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    last = list(islice(stream, 3))[-1]
    monkeypatch.setattr(calls, "commit", commit_later)
    connector.shutdown()
    assert of_0_8.committed("t") == last.next_offset


def test_a_group_moves_from_zookeeper_to_the_log_and_back(of_0_8: OldCluster) -> None:
    of_0_8.create("t")
    of_0_8.produce("t", numbers(0, 20))
    assert read(of_0_8, 3) == numbers(0, 3)
    assert (of_0_8.committed("t"), in_log(of_0_8)) == (3, None)
    assert read(of_0_8, 3, offsets_storage="kafka") == numbers(3, 6)  # dual by default
    assert (of_0_8.committed("t"), in_log(of_0_8)) == (6, 6)
    assert read(of_0_8, 3, offsets_storage="kafka", dual_commit_enabled=False) == numbers(6, 9)
    assert (of_0_8.committed("t"), in_log(of_0_8)) == (6, 9)
    assert read(of_0_8, 3, offsets_storage="kafka", dual_commit_enabled=True) == numbers(9, 12)  # the larger counts
    assert (of_0_8.committed("t"), in_log(of_0_8)) == (12, 12)
    assert read(of_0_8, 3, offsets_storage="zookeeper") == numbers(12, 15)
    assert (of_0_8.committed("t"), in_log(of_0_8)) == (15, 12)
