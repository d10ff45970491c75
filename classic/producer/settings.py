"""ProducerConfig: the settings of a producer, with the names of Kafka 0.7 and 0.8 and the defaults of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Self

from ...storage import (
    ANYTHING,
    INT,
    LIST,
    STRING,
    Between,
    Codec,
    InvalidConfigError,
    OneOf,
    parse_pairs,
)
from ..named_settings import check_settings, fields_given, fill_defaults, only_given, setting as _key

_CODECS = {"0": Codec.NONE, "1": Codec.GZIP, "2": Codec.SNAPPY} | {codec.name.lower(): codec for codec in Codec}


class Wire(Enum):
    """The kinds of targets, by the setting that names one."""

    ZOOKEEPER = "zk.connect"  # brokers that ZooKeeper knows, of 0.7 or later
    BROKER_LIST = "broker.list"  # these brokers of 0.7, and no others
    METADATA = "metadata.broker.list"  # a cluster of 0.8 or later, on 0.8's wire
    BOOTSTRAP = "bootstrap.servers"  # a cluster, on today's wire
    LOG_DIRECTORY = "log.dir"  # a log directory, without a broker

    @property
    def is_old(self) -> bool:
        """Whether Kafka 0.7 has this setting; then the defaults of 0.7 apply."""
        return self in (Wire.ZOOKEEPER, Wire.BROKER_LIST)


# One setting: field and type; 0.7's name, type, default, bounds; meaning; 0.8's name if it has another.
# fmt: off
@dataclass(frozen=True)
class ProducerConfig:
    """The settings of a producer; creating one with a bad value raises InvalidConfigError."""

    zk_connect: str = _key("zk.connect", STRING, "", ANYTHING,
        "The ZooKeeper that knows the brokers, such as h1:2181,h2:2181/chroot.")
    broker_list: str = _key("broker.list", STRING, "", ANYTHING,
        "Brokers of Kafka 0.7, such as 0:host:9092,1:host:9092; each request goes to one of them at random.")
    metadata_broker_list: str = _key("metadata.broker.list", STRING, "", ANYTHING,
        "Some brokers of a cluster of Kafka 0.8 to 3, such as h1:9092,h2:9092; they name the others.")
    bootstrap_servers: str = _key("bootstrap.servers", STRING, "", ANYTHING,
        "Some brokers of a cluster, such as h1:9092,h2:9092; today's wire.")
    log_dir: str = _key("log.dir", STRING, "", ANYTHING,
        "A log directory of this project, which is created if it is missing.")
    producer_type: str = _key("producer.type", STRING, "sync", OneOf(("sync", "async")),
        "Whether send returns when the messages are sent, or when they are in a queue.")
    queue_time_ms: int = _key("queue.time", INT, 5000, Between(0),
        "The longest time in ms that a message waits for its batch to fill.", "queue.buffering.max.ms")
    queue_size: int = _key("queue.size", INT, 10_000, Between(1),
        "Messages that the queue holds.", "queue.buffering.max.messages")
    enqueue_timeout_ms: int | None = _key("queue.enqueueTimeout.ms", INT, None, ANYTHING,
        "How long send waits for room in the queue. 0: not at all; negative: without limit. Default: 0 with "
        "zk.connect and broker.list, else -1.", "queue.enqueue.timeout.ms")
    batch_size: int = _key("batch.size", INT, 200, Between(1),
        "Messages that are sent together; fewer once queue.time is over.", "batch.num.messages")
    serializer_class: str = _key("serializer.class", STRING, "kafka.serializer.DefaultEncoder", ANYTHING,
        "The encoder of messages: kafka.serializer.DefaultEncoder, kafka.serializer.StringEncoder, or your own.")
    key_serializer_class: str = _key("key.serializer.class", STRING, "", ANYTHING,
        "The encoder of keys; default: that of messages.")
    partitioner_class: str = _key("partitioner.class", STRING, "", ANYTHING,
        "What chooses the partition of a key. Default: the key's hashCode as Java has it; with bootstrap.servers and "
        "log.dir murmur2 of the key, as Kafka has it today.")
    event_handler: str = _key("event.handler", STRING, "", ANYTHING,
        "What encodes and sends the batches, in place of the default.")
    event_handler_props: str = _key("event.handler.props", STRING, "", ANYTHING,
        "What its init gets, such as a=1,b=2.")
    callback_handler: str = _key("callback.handler", STRING, "", ANYTHING,
        "What is called at each stage of the queue.")
    callback_handler_props: str = _key("callback.handler.props", STRING, "", ANYTHING,
        "What its init gets, such as a=1,b=2.")
    compression: str = _key("compression.codec", STRING, "none", OneOf(tuple(_CODECS)),
        "How messages of a request to one partition are compressed together; lz4 and zstd not on old wires.")
    compressed_topics: frozenset[str] = _key("compressed.topics", LIST, frozenset(), ANYTHING,
        "The topics that are compressed; empty: all.")
    buffer_size: int = _key("buffer.size", INT, 102_400, Between(1),
        "The send buffer of a connection in bytes.", "send.buffer.bytes")
    connect_timeout_ms: int = _key("connect.timeout.ms", INT, 5000, Between(1),
        "How long to wait for a connection.")
    socket_timeout_ms: int | None = _key("socket.timeout.ms", INT, None, Between(1),
        "How long to wait for a broker. Default: 30000 with zk.connect and broker.list, else 10000.",
        "request.timeout.ms")
    reconnect_interval: int = _key("reconnect.interval", INT, 30_000, Between(1),
        "Requests after which a connection to a broker is opened again, on old wires.")
    max_message_size: int = _key("max.message.size", INT, 1_000_000, Between(0),
        "The largest message that is sent: bytes of key, value and headers.")
    num_retries: int | None = _key("num.retries", INT, None, Between(0),
        "How often a failed request is repeated. Default: 0 with zk.connect and broker.list, else 3.",
        "message.send.max.retries")
    retry_backoff_ms: int = _key("retry.backoff.ms", INT, 100, Between(0),
        "How long to wait before a request is repeated.")
    required_acks: int | None = _key("request.required.acks", INT, None, Between(-1),
        "The replicas that must have the messages before a broker answers; 0: no answer; -1: all that are in sync. "
        "Default: -1 with bootstrap.servers, else 0.")
    metadata_refresh_ms: int = _key("topic.metadata.refresh.interval.ms", INT, 600_000, Between(-1),
        "The time in ms after which partitions are looked for again; negative: only after an error.")
    client_id: str = _key("client.id", STRING, "", ANYTHING,
        "The name of the producer in the brokers' logs and figures.")
    zk_read_num_retries: int = _key("zk.read.num.retries", INT, 3, Between(0),
        "How often ZooKeeper is read again for a broker that it did not know.")
    zk_session_timeout_ms: int = _key("zk.sessiontimeout.ms", INT, 6000, Between(1),
        "How long a session of ZooKeeper goes on without contact.")
    zk_connection_timeout_ms: int = _key("zk.connectiontimeout.ms", INT, 6000, Between(1),
        "How long to wait for ZooKeeper.")
    passed_on: Mapping[str, str] = field(default_factory=dict, repr=False)  # of today's wire, such as sasl.*
# fmt: on

    def __post_init__(self) -> None:
        check_settings(self)
        self._check_target()
        self._fill_defaults()
        self._check_rest()

    def _check_rest(self) -> None:
        if self.batch_size > self.queue_size:
            raise InvalidConfigError(
                f"batch.size = {self.batch_size} is larger than queue.size = {self.queue_size}: a batch never fills"
            )
        if self.producer_type == "sync" and (self.event_handler or self.callback_handler):
            raise InvalidConfigError("event.handler and callback.handler need producer.type = async")
        _ = self.event_handler_pairs, self.callback_handler_pairs  # raises if they are none

    def _check_target(self) -> None:
        wire = self.wire
        if wire is Wire.BROKER_LIST and self.partitioner_class:
            raise InvalidConfigError(
                "partitioner.class needs zk.connect: with broker.list the broker chooses the partition"
            )
        if self.passed_on and wire is not Wire.BOOTSTRAP:
            raise InvalidConfigError(f"{min(self.passed_on)} needs bootstrap.servers: other wires have no security")
        if wire not in (Wire.BOOTSTRAP, Wire.LOG_DIRECTORY) and self.codec > Codec.SNAPPY:
            raise InvalidConfigError(f"compression.codec = {self.compression}: {wire.value} takes gzip and snappy")

    def _fill_defaults(self) -> None:
        is_old, is_todays = self.wire.is_old, self.wire is Wire.BOOTSTRAP
        defaults = {
            "enqueue_timeout_ms": 0 if is_old else -1,
            "socket_timeout_ms": 30_000 if is_old else 10_000,
            "num_retries": 0 if is_old else 3,
            "required_acks": -1 if is_todays else 0,
        }
        fill_defaults(self, defaults)

    @cached_property
    def wire(self) -> Wire:
        """The kind of target."""
        return only_given(self, Wire, "a producer")

    @property
    def codec(self) -> Codec:
        """The compression of messages."""
        return _CODECS[self.compression]

    def codec_of(self, topic: str) -> Codec:
        """The compression of a topic's messages."""
        return self.codec if not self.compressed_topics or topic in self.compressed_topics else Codec.NONE

    @property
    def tries(self) -> int:
        """The most times that a request is sent.

        On today's wire it is 1: librdkafka repeats requests itself, without duplicates.
        """
        return 1 if self.wire is Wire.BOOTSTRAP else 1 + (self.num_retries or 0)

    @property
    def is_async(self) -> bool:
        """Whether messages go through a queue."""
        return self.producer_type == "async"

    @property
    def event_handler_pairs(self) -> dict[str, str]:
        """The argument of the event handler's ``init``, from ``event.handler.props``."""
        return _pairs("event.handler.props", self.event_handler_props)

    @property
    def callback_handler_pairs(self) -> dict[str, str]:
        """The argument of the callback handler's ``init``, from ``callback.handler.props``."""
        return _pairs("callback.handler.props", self.callback_handler_props)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> Self:
        """Returns the settings for Kafka's names, 0.7's or 0.8's.

        Raises InvalidConfigError for an unknown name, a bad value, or a setting that is given by both names.
        """
        given, passed_on = fields_given(cls, mapping, "a producer")
        if "compression" in given:
            given["compression"] = str(given["compression"])
        return cls(**given, passed_on=passed_on)


def _pairs(setting: str, text: str) -> dict[str, str]:
    return parse_pairs(setting, text.split(",")) if text else {}
