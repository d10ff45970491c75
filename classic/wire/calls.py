"""The frequent requests of Kafka 0.8 and later, with types for their answers.

``version`` is that of the request. The defaults are those of Kafka 0.8, which brokers have up to 3.9; Kafka 4 begins
at Produce 3, Fetch 4, ListOffsets 1, OffsetCommit 2, OffsetFetch 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ...protocol.apis import ApiKey
from ...protocol.bodies import ErrorCode
from ...storage import (
    CorruptRecordError,
    LogStoreError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    TopicPartition,
    UnknownTopicOrPartitionError,
)
from ..errors import BrokerError
from .broker import Broker
from .connection import Address

T = TypeVar("T")

_NO_LIMIT = 2**31 - 1  # bytes

_CODES = frozenset(map(int, ErrorCode))
_ERRORS: Mapping[int, type[LogStoreError]] = {
    ErrorCode.offset_out_of_range: OffsetOutOfRangeError,
    ErrorCode.corrupt_message: CorruptRecordError,
    ErrorCode.unknown_topic_or_partition: UnknownTopicOrPartitionError,
    ErrorCode.message_too_large: RecordTooLargeError,
}


def error_of(code: int, what: str) -> LogStoreError | None:
    """Returns the error for a broker's error code, None for code 0; ``what``: the request, for the message."""
    if code == ErrorCode.none:
        return None
    name = ErrorCode(code).name if code in _CODES else "a code that this client does not know"
    kind = _ERRORS.get(code)
    return BrokerError(what, code, name) if kind is None else kind(f"{what}: the broker answered {name} ({code})")


def check(code: int, what: str) -> None:
    """Raises the error for a broker's error code, unless it is 0; ``what``: the request, for the message."""
    if (error := error_of(code, what)) is not None:
        raise error


# Who is there


class Leader(NamedTuple):
    """A partition and its leader, as one broker reports them."""

    leader: int  # id of a broker; -1: none
    replicas: Sequence[int]
    error: int


class Cluster(NamedTuple):
    """Brokers and topics, as one broker reports them."""

    brokers: Mapping[int, Address]
    partitions: Mapping[TopicPartition, Leader]
    errors: Mapping[str, int]  # by topic, only for topics with an error


def cluster(broker: Broker, topics: Sequence[str] | None = None, *, version: int = 0) -> Cluster:
    """Returns a broker's metadata of topics; None: of all. Brokers with auto-creation create missing topics."""
    names = None if topics is None and version >= 1 else [{"name": each} for each in topics or ()]
    answer = broker.ask(ApiKey.METADATA, version, topics=names)
    return Cluster(
        {each.node_id: _address(broker, each) for each in answer.brokers},
        {
            TopicPartition(topic.name, each.partition_index): Leader(
                each.leader_id, tuple(each.replica_nodes), each.error_code
            )
            for topic in answer.topics
            for each in topic.partitions
        },
        {topic.name: topic.error_code for topic in answer.topics if topic.error_code},
    )


def coordinator(broker: Broker, group: str) -> Address:
    """Returns the address of a group's coordinator. Raises BrokerError, also for errors that may pass."""
    answer = broker.ask(ApiKey.FIND_COORDINATOR, 0, key=group)
    check(answer.error_code, f"the coordinator of group {group}")
    return _address(broker, answer)


def _address(broker: Broker, found: Any) -> Address:
    if not 0 < found.port < 65536:
        raise broker.malformed(f"the broker answered port {found.port} of {found.host!r}")
    return Address(found.host, found.port)


# Records


class Produced(NamedTuple):
    """The answer for one message set."""

    error: int
    offset: int  # of its first message


def produce(
    broker: Broker, sets: Mapping[TopicPartition, bytes], *, acks: int = 1, timeout_ms: int = 10_000, version: int = 0
) -> dict[TopicPartition, Produced]:
    """Sends message sets, and returns the answer for each; {} with ``acks`` 0, which has no answer.

    Sets that the broker's answer does not mention are left out.
    Does not repeat the request if the connection breaks, because the broker may have stored the sets. Raises the errors
    of :class:`Broker`.
    """
    data = [
        {"name": topic, "partition_data": [{"index": partition, "records": records} for partition, records in group]}
        for topic, group in _by_topic(sets.items())
    ]
    fields = {"acks": acks, "timeout": timeout_ms, "topic_data": data}
    if not acks:
        broker.tell(ApiKey.PRODUCE, version, **fields)
        return {}
    answer = broker.ask(ApiKey.PRODUCE, version, again=False, **fields)
    found = {
        TopicPartition(topic.name, each.index): Produced(each.error_code, each.base_offset)
        for topic in answer.responses
        for each in topic.partition_responses
    }
    return {each: found[each] for each in sets if each in found}


class FetchFrom(NamedTuple):
    """Where to fetch from, and how many bytes at most."""

    offset: int
    size: int


class Fetched(NamedTuple):
    """The answer for one partition."""

    error: int
    high_watermark: int
    records: bytes  # whole message sets or batches; the last may be cut off
    aborted: Sequence[tuple[int, int]] = ()  # producer id and first offset, for readers of committed records


def fetch(
    broker: Broker,
    asked: Mapping[TopicPartition, FetchFrom],
    *,
    wait_ms: int = 100,
    bytes_min: int = 1,
    is_committed_only: bool = False,
    version: int = 0,
) -> dict[TopicPartition, Fetched]:
    """Fetches from partitions. The broker answers when it has ``bytes_min`` bytes, or after ``wait_ms``.

    ``version``: up to 11, the last without tagged fields and topic ids. Each partition's answer has its own error code.
    """
    topics = [
        {
            "topic": topic,
            "partitions": [
                {"partition": partition, "fetch_offset": each.offset, "partition_max_bytes": each.size}
                for partition, each in group
            ],
        }
        for topic, group in _by_topic(asked.items())
    ]
    answer = broker.ask(
        ApiKey.FETCH,
        version,
        replica_id=-1,
        max_wait=wait_ms,
        min_bytes=bytes_min,
        max_bytes=_NO_LIMIT,
        isolation_level=int(is_committed_only),
        session_epoch=-1,
        topics=topics,
    )
    found = {
        TopicPartition(topic.topic, each.partition_index): Fetched(
            each.error_code,
            each.high_watermark,
            each.records or b"",
            tuple((one.producer_id, one.first_offset) for one in getattr(each, "aborted_transactions", None) or ()),
        )
        for topic in answer.responses
        for each in topic.partitions
    }
    return _of_each(broker, asked, found)


# Offsets


def offsets_before(broker: Broker, partition: TopicPartition, time_ms: int, most: int) -> list[int]:
    """Returns the first offsets of segments not newer than a time in ms, the newest first (ListOffsets 0).

    For -1, the latest time, they include the log end; -2 is the earliest time. Raises the errors of :func:`check`.
    """
    asked = {"partition_index": partition.partition, "timestamp": time_ms, "max_num_offsets": most}
    found = _listed(broker, 0, partition, asked)
    return list(found.old_style_offsets)


def offset_at(broker: Broker, partition: TopicPartition, time_ms: int, *, version: int = 1) -> int:
    """Returns the offset of the first record not older than a time in ms; -1 if there is none (ListOffsets 1 to 5).

    Time -1 is the log end, -2 the log start. Raises like :func:`check`.
    """
    asked = {"partition_index": partition.partition, "timestamp": time_ms, "current_leader_epoch": -1}
    return int(_listed(broker, version, partition, asked).offset)


def _listed(broker: Broker, version: int, partition: TopicPartition, asked: Mapping[str, int]) -> Any:
    topics = [{"name": partition.topic, "partitions": [asked]}]
    answer = broker.ask(ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=topics)
    answers = {
        TopicPartition(topic.name, each.partition_index): each for topic in answer.topics for each in topic.partitions
    }
    found = _of_each(broker, [partition], answers)[partition]
    check(found.error_code, f"offsets of {partition}")
    return found


def commit(
    broker: Broker,
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    committed_ms: int = -1,
    version: int = 1,
) -> dict[TopicPartition, int]:
    """Commits offsets, and returns the error codes.

    Version 0 writes to ZooKeeper, later ones to the coordinator's log. ``committed_ms``: the time of the commit, which
    only version 1 has; -1: that of the broker.
    """
    topics = [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": partition,
                    "committed_offset": offset,
                    "commit_timestamp": committed_ms,
                    "committed_metadata": "",
                }
                for partition, offset in chosen
            ],
        }
        for topic, chosen in _by_topic(offsets.items())
    ]
    answer = broker.ask(
        ApiKey.OFFSET_COMMIT, version, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics
    )
    found = {
        TopicPartition(topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }
    return _of_each(broker, offsets, found)


def committed(
    broker: Broker, group: str, partitions: Iterable[TopicPartition], *, version: int = 1
) -> dict[TopicPartition, int | None]:
    """Returns a group's committed offsets, None for a partition without one. Version 0 reads ZooKeeper.

    Raises BrokerError, and UnknownTopicOrPartitionError for a partition that the coordinator does not know: one of
    Kafka 0.8.2 does not return its offset then, although there may be one.
    """
    wanted = list(partitions)
    topics = [
        {"name": topic, "partition_indexes": [partition for partition, _ in chosen]}
        for topic, chosen in _by_topic((each, None) for each in wanted)
    ]
    answer = broker.ask(ApiKey.OFFSET_FETCH, version, group_id=group, topics=topics)
    found: dict[TopicPartition, int | None] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            place = TopicPartition(topic.name, each.partition_index)
            if version or each.error_code != ErrorCode.unknown_topic_or_partition:  # of version 0: no offset there
                check(each.error_code, f"the committed offset of group {group} for {place}")
            found[place] = each.committed_offset if each.committed_offset >= 0 else None
    return _of_each(broker, wanted, found)


def _of_each(
    broker: Broker, asked: Iterable[TopicPartition], found: Mapping[TopicPartition, T]
) -> dict[TopicPartition, T]:
    """Returns the answers in the order of the questions. Raises MalformedAnswerError if one is missing."""
    wanted = list(asked)
    if missing := [each for each in wanted if each not in found]:
        raise broker.malformed(f"the broker answered nothing for {missing[0]}")
    return {each: found[each] for each in wanted}


def _by_topic(pairs: Iterable[tuple[TopicPartition, T]]) -> list[tuple[str, list[tuple[int, T]]]]:
    """Groups pairs of partition and value by topic, in their order."""
    found: dict[str, list[tuple[int, T]]] = {}
    for (topic, partition), each in pairs:
        found.setdefault(topic, []).append((partition, each))
    return list(found.items())
