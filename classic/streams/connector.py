"""ConsumerConnector: the high-level consumer: streams of messages from a whole cluster, shared with a group."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Self, TypeVar

from ...registry.port import Registry
from ...storage import InvalidConfigError
from ..errors import ClientError
from ..topic_filters import TopicFilter
from ..zookeeper_groups.assignment import Partition
from .config import Cluster, ConsumerConfig
from .kafka_stream import Decoder, KafkaStream, as_bytes
from .old_wires import OldWireConnector
from .port import StartOffsets, Wire

K = TypeVar("K")
V = TypeVar("V")


class ConsumerConnector:
    """A consumer of a cluster, made by :meth:`create`; a context manager that shuts it down.

    Create all streams in one call: it registers the consumer, and the group rebalances.
    """

    def __init__(self, config: ConsumerConfig, wire: Wire) -> None:
        self.config, self._wire = config, wire
        self._lock = threading.Lock()  # Guards the two flags.
        self._is_open, self._is_closed = False, False

    @classmethod
    def create(
        cls,
        config: ConsumerConfig | Mapping[str, object],
        *,
        registry: Registry | None = None,
        start_offsets: StartOffsets | None = None,
    ) -> Self:
        """Returns a consumer that is connected to ZooKeeper, if it needs that, but reads nothing yet.

        ``config``: a config, or settings by Kafka's names. ``registry``: a session of another registry to use instead
        of ZooKeeper; the consumer closes it. ``start_offsets``: where to begin, instead of the committed offsets, for a
        program that stores offsets with its results. It is used whenever partitions are assigned to this consumer, so
        pass a function if partitions may be assigned more than once. Raises InvalidConfigError, and ConnectionLossError
        without ZooKeeper.
        """
        checked = config if isinstance(config, ConsumerConfig) else ConsumerConfig.from_mapping(config)
        if checked.cluster is not Cluster.TODAY:
            return cls(checked, OldWireConnector(checked, registry, start_offsets))
        if registry is not None:
            raise InvalidConfigError("with bootstrap.servers consumers meet at a broker: there is no registry")
        from .todays_wire import TodaysConnector  # noqa: PLC0415  needs the extra

        return cls(checked, TodaysConnector(checked, start_offsets))

    def create_message_streams(
        self,
        topic_count_map: Mapping[str, int],
        key_decoder: Decoder[K] = as_bytes,  # type: ignore[assignment]
        value_decoder: Decoder[V] = as_bytes,  # type: ignore[assignment]
    ) -> dict[str, list[KafkaStream[K, V]]]:
        """Returns streams, by topic; ``topic_count_map``: the number of streams of each topic.

        Each partition is read by one stream of one consumer of the group. Raises ConsumerRebalanceFailedError if other
        consumers do not release their partitions in time.
        """
        wrong = [topic for topic, count in topic_count_map.items() if count < 1]
        if wrong or not topic_count_map:
            raise InvalidConfigError(f"each topic needs at least one stream: {dict(topic_count_map)}")
        queues = self._open(topic_count_map, None)
        return {
            topic: [self._stream(queues[topic, each], key_decoder, value_decoder) for each in range(count)]
            for topic, count in topic_count_map.items()
        }

    def create_message_streams_by_filter(
        self,
        topic_filter: TopicFilter,
        num_streams: int = 1,
        key_decoder: Decoder[K] = as_bytes,  # type: ignore[assignment]
        value_decoder: Decoder[V] = as_bytes,  # type: ignore[assignment]
    ) -> list[KafkaStream[K, V]]:
        """Returns streams that share all topics that a filter allows, including later ones.

        Raises like the method above.
        """
        if num_streams < 1:
            raise InvalidConfigError(f"num_streams must be at least 1, not {num_streams}")
        queues = self._open({"": num_streams}, topic_filter)
        return [self._stream(queues["", each], key_decoder, value_decoder) for each in range(num_streams)]

    def commit_offsets(self) -> None:
        """Commits the offsets of all messages that the streams have yielded so far.

        Raises BrokerError, BrokerUnreachableError or RegistryError after ``offsets.commit.max.retries`` retries.
        """
        self._wire.commit_offsets()

    def positions(self) -> dict[Partition, int]:
        """Returns, for each partition that this consumer reads now, the offset after the last message yielded."""
        return dict(self._wire.positions())

    def rewind(self, offsets: Mapping[Any, int]) -> None:
        """Reads partitions again from offsets, by topic, partition and, in 0.7, broker.

        Messages that were read ahead are dropped. Raises ClientError for a partition that this consumer does not read
        now.
        """
        self._wire.rewind({Partition(*each): offset for each, offset in offsets.items()})

    def shutdown(self) -> None:
        """Leaves the group and ends all streams. With ``autocommit.enable``, commits the messages that were yielded."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._wire.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()

    def _open(self, counts: Mapping[str, int], topic_filter: TopicFilter | None) -> Mapping[tuple[str, int], Any]:
        with self._lock:
            if self._is_closed:
                raise ClientError("the consumer is shut down")
            if self._is_open:
                raise ClientError("a consumer creates its streams once: create all of them in one call")
            self._is_open = True
        return self._wire.open(counts, topic_filter)

    def _stream(self, queue: Any, decode_key: Decoder[K], decode_value: Decoder[V]) -> KafkaStream[K, V]:
        return KafkaStream(queue, self.config.consumer_timeout_ms, decode_key, decode_value)
