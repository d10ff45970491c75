"""What a SyncProducer makes of messages: partitions, sets, retries, errors. The target follows a script."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pyspark_commitlog.classic.errors import (
    BrokerUnreachableError,
    InvalidMessageError,
    InvalidPartitionError,
    MessageSizeTooLargeError,
    NotSentError,
)
from pyspark_commitlog.classic.producer import (
    DefaultPartitioner,
    Message,
    ProducerConfig,
    QueueItem,
    Record,
    StringEncoder,
)
from pyspark_commitlog.classic.producer.figures import Counters
from pyspark_commitlog.classic.producer.partitioners import Partitioner
from pyspark_commitlog.classic.producer.sync_producer import SyncProducer
from pyspark_commitlog.classic.producer.targets.port import BrokerPartition
from pyspark_commitlog.registry.errors import ConnectionLossError
from pyspark_commitlog.storage import Codec
from tests.classic.producer.scripted import ScriptedTarget
from tests.support.clock import ManualClock

UNREACHABLE = BrokerUnreachableError("h:9092: refused")


class Sending:
    """A SyncProducer over a scripted target of partitions 0-0, 0-1, 1-0."""

    def __init__(self, partitioner: Partitioner | None = None, **settings: object) -> None:
        self.target, self.clock = ScriptedTarget((0, 0), (0, 1), (1, 0)), ManualClock()
        named = {name.replace("__", "."): value for name, value in settings.items()}
        config = ProducerConfig.from_mapping({"zk.connect": "h:1", "num.retries": 2, **named})
        self.counters = Counters(self.clock)
        self.producer = SyncProducer(
            config,
            self.target,
            self.counters,
            clock=self.clock,
            partitioner=partitioner or DefaultPartitioner(),
            key_encoder=StringEncoder(),
        )

    def send(self, *items: QueueItem) -> None:
        self.producer.multi_send(items)

    @property
    def sent(self) -> Mapping[tuple[str, BrokerPartition], list[Message]]:
        """By topic and partition, in the order of arrival."""
        found: dict[tuple[str, BrokerPartition], list[Message]] = {}
        for sets in self.target.sent:
            for each in sets:
                found.setdefault((each.topic, each.place), []).extend(each.records)
        return found


def at(index: int, data: object = b"x", topic: str = "t") -> QueueItem:
    return QueueItem(data, topic, index)


def test_messages_are_collated_by_topic_and_partition_in_their_order() -> None:
    sending = Sending()
    sending.send(at(0, b"1"), at(2, b"2"), at(0, b"3", "u"), at(0, b"4"), at(2, b"5"))
    assert len(sending.target.sent) == 1
    assert sending.sent == {
        ("t", (0, 0)): [b"1", b"4"],
        ("t", (1, 0)): [b"2", b"5"],
        ("u", (0, 0)): [b"3"],
    }


def test_the_partitioners_number_is_an_index_into_the_sorted_partitions() -> None:
    class Last:
        def partition(self, key: object, num_partitions: int) -> int:
            assert (key, num_partitions) == ("k", 3)
            return num_partitions - 1

    sending = Sending(Last())
    sending.send(QueueItem(b"x", "t", None, "k"))
    assert sending.sent == {("t", (1, 0)): [Record(b"x", b"k")]}


@pytest.mark.parametrize("index", [-1, 3])
def test_a_partition_that_there_is_not_loses_its_messages_only(index: int) -> None:
    sending = Sending()
    with pytest.raises(InvalidPartitionError, match=f"partition {index} was chosen .* topic t, which has 3"):
        sending.send(at(index))
    with pytest.raises(NotSentError, match="1 of 2 messages were not sent") as error:
        sending.send(at(index, b"1"), at(0, b"2"))
    assert error.value.items == (at(index, b"1"),)
    assert sending.sent == {("t", (0, 0)): [b"2"]}


def test_messages_without_a_key_are_spread_by_request_and_the_partitioner_never_sees_them() -> None:
    class Never:
        def partition(self, key: object, num_partitions: int) -> int:
            raise AssertionError

    sending = Sending(Never())
    for _ in range(100):
        sending.send(QueueItem(b"1", "t"), QueueItem(b"2", "t"))
    assert all(len(sets) == 1 for sets in sending.target.sent)
    assert {place for _, place in sending.sent} == {*sending.target.places}


def test_sets_are_compressed_by_topic() -> None:
    sending = Sending(compression__codec="gzip", compressed__topics="t")
    sending.send(at(0), at(0, topic="u"))
    assert [each.codec for each in sending.target.sent[0]] == [Codec.GZIP, Codec.NONE]


def test_what_failed_is_sent_again_and_nothing_else() -> None:
    sending = Sending()
    sending.target.script = [{BrokerPartition(1, 0): UNREACHABLE}, {BrokerPartition(1, 0): UNREACHABLE}]
    began_ms = sending.clock.now_ms()
    sending.send(at(0, b"1"), at(2, b"2"))
    assert [[each.place for each in sets] for sets in sending.target.sent] == [[(0, 0)], [], [(1, 0)]]
    assert sending.target.refreshed == ["t", "t"]
    assert sending.clock.now_ms() - began_ms == 200  # retry.backoff.ms
    assert sending.counters.figures()[4:6] == (2, 3)


def test_messages_of_a_topic_that_is_just_being_made_do_not_overtake_each_other() -> None:
    sending = Sending()
    sending.target.unknown = 1
    sending.send(at(0, b"1"), at(0, b"2"), at(0, b"3"))
    assert [[each.records for each in sets] for sets in sending.target.sent] == [[[b"1", b"2", b"3"]]]
    assert sending.target.refreshed == ["t"]


def test_while_the_registry_does_not_answer_messages_with_keys_are_tried_again_in_their_order() -> None:
    sending, silent = Sending(), ConnectionLossError("h:1 is silent")
    sending.target.keys, sending.target.sends = [silent], [silent]
    sending.send(*[QueueItem(value, "t", None, "k") for value in (b"1", b"2", b"3")])
    assert [*sending.sent.values()] == [[Record(b"1", b"k"), Record(b"2", b"k"), Record(b"3", b"k")]]
    assert sending.target.refreshed == ["t", "t"]
    for errors in (sending.target.keys, sending.target.sends):
        errors.extend([silent] * 3)
        with pytest.raises(ConnectionLossError, match="h:1 is silent"):
            sending.send(QueueItem(b"4", "t", None, "k"), QueueItem(b"5", "t", None, "k"))
        assert not errors
    assert sending.counters.figures()[4] == 3


def test_after_the_last_try_the_error_is_raised() -> None:
    sending = Sending(num__retries=1)
    sending.target.script = [{BrokerPartition(1, 0): UNREACHABLE}] * 2
    with pytest.raises(BrokerUnreachableError, match="h:9092: refused"):
        sending.send(at(2))
    sending.target.script = [{BrokerPartition(1, 0): UNREACHABLE}] * 2
    with pytest.raises(NotSentError, match="1 of 2 messages were not sent: h:9092: refused") as error:
        sending.send(at(0, b"1"), at(2, b"2"))
    assert error.value.items == (at(2, b"2"),)


def test_an_error_that_lasts_is_not_tried_again() -> None:
    sending = Sending()
    sending.target.script = [{BrokerPartition(0, 0): InvalidMessageError("no headers")}]
    with pytest.raises(InvalidMessageError):
        sending.send(at(0))
    assert len(sending.target.sent) == 1


def test_a_message_may_have_max_message_size_bytes_with_key_and_headers() -> None:
    sending = Sending(max__message__size=10)
    sending.send(at(0, bytes(10)), at(0, Record(bytes(4), b"key", (("h", b"12"),))))
    with pytest.raises(MessageSizeTooLargeError, match=r"a message has 11 bytes, but max\.message\.size allows 10"):
        sending.send(at(0, bytes(11)))
    with pytest.raises(NotSentError):
        sending.send(at(0, Record(bytes(5), b"key", (("h", b"12"),))), at(0))
    assert len(sending.sent["t", BrokerPartition(0, 0)]) == 3


def test_a_record_keeps_its_own_key() -> None:
    sending = Sending()
    sending.send(QueueItem(Record(b"v", b"own"), "t", 0, "other"), QueueItem(None, "t", 0, "k"))
    assert sending.sent == {("t", (0, 0)): [Record(b"v", b"own"), Record(None, b"k")]}


def test_what_no_encoder_may_return_is_refused() -> None:
    with pytest.raises(InvalidMessageError, match="bytes and records, not str"):
        Sending().send(at(0, "text"))
