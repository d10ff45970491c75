"""OldWireTarget: brokers on the wires of Kafka 0.7 and 0.8."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ....storage import LogStoreError, Records, TopicPartition, to_message_set
from ...errors import InvalidMessageError, MalformedAnswerError
from ...log_0_7.entries import encode_set
from ...requests_0_7 import Produce
from ...wire.broker import Broker
from ...wire.calls import Produced, check, produce
from ...wire.connection import Address, Connection
from ...wire.kafka_0_7 import PositionBroker
from ..messages import Message, Record
from ..settings import ProducerConfig
from .cluster import OldCluster
from .connections import Connections
from .port import BrokerPartition, Failed, RecordSet

Encoded = list[tuple[int, RecordSet, bytes]]  # with the number of each set


class OldWireTarget:
    """Sends one request to each broker concerned: a multi-produce of 0.7, or a Produce of version 0."""

    def __init__(self, config: ProducerConfig, brokers: OldCluster, connect: Callable[[Address], Connection]) -> None:
        self._brokers = brokers
        self._connections = Connections(connect, config.reconnect_interval)
        acks, timeout_ms = config.required_acks or 0, config.socket_timeout_ms or 0
        self._new = _OffsetWire(acks, timeout_ms, config.client_id)
        self._old = _PositionWire()

    @property
    def places_keys(self) -> bool:
        return False

    @property
    def has_keys(self) -> bool:
        return not self._brokers.is_0_7

    def partitions(self, topic: str) -> Sequence[BrokerPartition]:
        return self._brokers.partitions(topic)

    def send(self, sets: Sequence[RecordSet], *, wait: bool) -> list[Failed]:
        """Sends sets; waits for answers even without ``wait`` if ``request.required.acks`` asks for them."""
        wire: _Wire = self._old if self._brokers.is_0_7 else self._new
        self._connections.update(self._brokers.brokers())
        failed: list[Failed] = []
        for broker, mine in _by_broker(sets, wire, failed).items():
            try:
                failed += wire.send(self._connections.to(broker), mine)
            except LogStoreError as error:
                failed += [Failed(number, error) for number, _, _ in mine]
        return failed

    def refresh(self, topic: str) -> None:
        self._brokers.refresh(topic)

    def close(self) -> None:
        self._connections.close()
        self._brokers.close()


def _by_broker(sets: Sequence[RecordSet], wire: _Wire, failed: list[Failed]) -> dict[int, Encoded]:
    grouped: dict[int, Encoded] = {}
    for number, each in enumerate(sets):
        try:
            grouped.setdefault(each.place.broker, []).append((number, each, wire.encode(each)))
        except (LogStoreError, ValueError) as error:
            failed.append(Failed(number, error))
    return {broker: mine for broker, mine in grouped.items() if mine}


class _Wire(Protocol):
    def encode(self, records: RecordSet) -> bytes: ...

    def send(self, connection: Connection, sets: Encoded) -> list[Failed]: ...


class _PositionWire:
    """The wire of 0.7. The broker does not answer; it drops a set that it refuses."""

    def encode(self, records: RecordSet) -> bytes:
        return encode_set([_payload(records.topic, each) for each in records.records], records.codec)

    def send(self, connection: Connection, sets: Encoded) -> list[Failed]:
        PositionBroker(connection).produce([Produce(each.topic, each.place.partition, data) for _, each, data in sets])
        return []


def _payload(topic: str, message: Message) -> bytes:
    record = message if isinstance(message, Record) else Record(message)
    if record.value is None or record.key is not None or record.headers or record.timestamp_ms is not None:
        raise InvalidMessageError(
            f"topic {topic}: messages of Kafka 0.7 have only a value: no key, headers or timestamp"
        )
    return record.value


class _OffsetWire:
    """The wire of 0.8: message sets of magic 0, which brokers up to 3.9 accept and brokers of 4 refuse."""

    def __init__(self, acks: int, timeout_ms: int, client_id: str) -> None:
        self._acks, self._timeout_ms, self._client_id = acks, timeout_ms, client_id

    def encode(self, records: RecordSet) -> bytes:
        rows = [each if isinstance(each, Record) else Record(each) for each in records.records]
        if any(row.headers or row.timestamp_ms is not None for row in rows):
            raise InvalidMessageError(
                f"topic {records.topic}: messages of Kafka 0.8 have no headers or timestamps: use bootstrap.servers"
            )
        columns = Records.to_append([row.key for row in rows], [row.value for row in rows], -1)
        return to_message_set(columns, records.codec)

    def send(self, connection: Connection, sets: Encoded) -> list[Failed]:
        data = {TopicPartition(each.topic, each.place.partition): encoded for _, each, encoded in sets}
        broker = Broker(connection, self._client_id)
        answered = produce(broker, data, acks=self._acks, timeout_ms=self._timeout_ms)
        return [failure for number, each, _ in sets if self._acks and (failure := _failure(number, each, answered))]


def _failure(number: int, records: RecordSet, answered: Mapping[TopicPartition, Produced]) -> Failed | None:
    place = TopicPartition(records.topic, records.place.partition)
    if place not in answered:
        return Failed(
            number,
            MalformedAnswerError(
                f"{place}: the broker's answer lacks this partition; it may or may not have the messages"
            ),
        )
    try:
        check(answered[place].error, f"{place}: sending messages")
    except LogStoreError as error:
        return Failed(number, error)
    return None
