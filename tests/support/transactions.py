"""A transactional producer that sends requests as it is told, with the answers' error codes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import LogManager, Producer
from tests.support.gateway import WireClient, produce_fields
from tests.support.logs import building
from tests.support.logs.building import now_ms

TIMEOUT_MS = 60_000


class Initialised(NamedTuple):
    error: int
    producer: Producer


class WireProducer:
    """One producer of a transactional id."""

    def __init__(self, client: WireClient, transactional_id: str) -> None:
        self.client, self.id = client, transactional_id
        self.producer = Producer(-1, -1)
        self._sequences: dict[tuple[str, int], int] = {}
        self.last_offset = -1  # that the last batch got
        self.last_start = -1  # the start of the log in the answer to the last batch

    def init(self, expected: Producer | None = None, *, version: int = 4, timeout_ms: int = TIMEOUT_MS) -> Initialised:
        """Sends InitProducerId, and takes over its answer."""
        own = {} if expected is None else {"producer_id": expected.id, "producer_epoch": expected.epoch}
        given = {"producer_id": -1, "producer_epoch": -1, **own}
        answer = self.client.ask(
            22, version, transactional_id=self.id, transaction_timeout=timeout_ms, **(given if version >= 3 else {})
        )
        if not answer.error_code:
            self.producer = Producer(answer.producer_id, answer.producer_epoch)
            self._sequences = {}
        return Initialised(answer.error_code, Producer(answer.producer_id, answer.producer_epoch))

    def add(self, topic: str, *partitions: int, version: int = 3) -> int:
        """Sends AddPartitionsToTxn for partitions of a topic."""
        answer = self.client.ask(
            24,
            version,
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer.id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=[{"name": topic, "partitions": partitions or (0,)}],
        )
        codes = {
            each.partition_error_code
            for found in answer.results_by_topic_v3_and_below
            for each in found.results_by_partition
        }
        return int(max(codes))

    def add_group(self, group: str, version: int = 3) -> int:
        """Sends AddOffsetsToTxn."""
        return int(self.client.ask(25, version, **self._names, group_id=group).error_code)

    def commit_offset(self, group: str, topic: str, offset: int, version: int = 3) -> int:
        """Sends TxnOffsetCommit for partition 0 of a topic."""
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        topics = [{"name": topic, "partitions": [partition]}]
        member = {"generation_id": -1, "member_id": ""} if version >= 3 else {}
        answer = self.client.ask(28, version, **self._names, group_id=group, topics=topics, **member)
        return int(answer.topics[0].partitions[0].error_code)

    def produce(self, topic: str, *values: bytes, partition: int = 0, version: int = 9) -> int:
        """Sends one batch; the sequence of its partition goes on if it is not refused."""
        place = topic, partition
        records = self.batch(values, self._sequences.get(place, 0))
        fields = produce_fields(topic, records, partition=partition)
        answer = self.client.ask(0, version, transactional_id=self.id, **fields)
        found = answer.responses[0].partition_responses[0]
        error, self.last_offset = int(found.error_code), int(found.base_offset)
        self.last_start = int(getattr(found, "log_start_offset", -1))
        if not error:
            self._sequences[place] = self._sequences.get(place, 0) + len(values)
        return error

    def batch(self, values: Iterable[bytes], sequence: int) -> bytes:
        """A transactional batch of this producer."""
        data = building.batch(
            *values,
            producer_id=self.producer.id,
            producer_epoch=self.producer.epoch,
            base_sequence=sequence,
            transactional=True,
            timestamps=now_ms(),
        )
        return data.tobytes()

    def end(self, *, commit: bool = True, version: int = 3) -> int:
        """Sends EndTxn."""
        return int(self.client.ask(26, version, **self._names, committed=commit).error_code)

    def state(self) -> str:
        """The state of the id, as DescribeTransactions has it; its time may be none."""
        found = self.client.ask(66, 0, state_filters=(), producer_id_filters=()).transaction_states
        return next((each.transaction_state for each in found if each.transactional_id == self.id), "")

    @property
    def _names(self) -> dict[str, Any]:
        return {
            "transactional_id": self.id,
            "producer_id": self.producer.id,
            "producer_epoch": self.producer.epoch,
        }


def committed(gateway: Gateway | str, topic: str, partition: int = 0) -> list[bytes | None]:
    """What readers of committed records see in the directory."""
    directory = gateway if isinstance(gateway, str) else gateway.context.log_dir
    with LogManager.open(directory) as manager, manager.open_reader(topic, partition) as reader:
        return [value for _, value in building.committed(reader)]
