"""The topics that rows are written to: created with the given settings if they are missing, but never changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Self

from ...storage import (
    TRANSACTION_TIMEOUT_MS,
    Codec,
    Compression,
    InvalidConfigError,
    LogConfig,
    LogManager,
    TopicDescription,
    check_takes_records,
    check_whole,
    did_you_mean,
    target_compression,
)
from ..locations import log_location
from ..rows.kafka_options import KAFKAS, log_once, notice_of
from .partitioners.setting import (
    IGNORE_KEYS,
    OPTION,
    PARTITIONER,
    KafkasPartitioner,
    OwnPartitioner,
    parse_partitioner,
)

# The bytes of records in a batch (a producer's batch.size), unless the topic accepts only smaller batches; a topic with
# defaults accepts this size. Kafka's 16 KiB is for producers that wait for single records; here whole tables arrive.
# Other writers have to read the header of each batch: with batches of 256 KiB, writing 2,000,000 rows of 116 bytes took
# 50 ms more of about 1,000 ms. Larger batches cost readers time: finding ten records by offset takes 2.2 ms instead of
# 1.7 ms.
BATCH_SIZE_BYTES = 1 << 20

_CODECS = {codec.name.lower(): codec for codec in Codec}
_LEVELS = ("compression.gzip.level", "compression.lz4.level", "compression.zstd.level")
PRODUCER_SETTINGS = (*("batch.size", "compression.type", *_LEVELS, PARTITIONER, IGNORE_KEYS, "transaction.timeout.ms"),)
# Settings that would change what Kafka's producer writes, and that writers here do not have.
_REFUSED = {
    "key.serializer": "keys are written as bytes; cast the column key",  # Spark's Kafka sink rejects it too
    "value.serializer": "values are written as bytes; cast the column value",
    "interceptor.classes": "there is no producer to intercept",
    "transactional.id": "set txnAppId instead",
}

Ensure = Callable[[str, int | None, Mapping[str, str] | None], TopicDescription]  # name, partitions, settings

logger = logging.getLogger(__name__)


def is_producers(name: str) -> bool:
    """Whether ``name``, in lower case and without prefix, is a setting that :class:`ProducerSettings` has."""
    return name in PRODUCER_SETTINGS or name.startswith(OPTION)


@dataclass(frozen=True)
class ProducerSettings:
    """Settings for turning rows into record batches: some of those of Kafka's producer."""

    batch_bytes: int
    compression: Compression
    partitioner: KafkasPartitioner | OwnPartitioner
    transaction_timeout_ms: int  # the maximum age of a transaction whose driver died

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> Self:
        """Parses settings by the names of Kafka's producer.

        They are, with defaults, ``batch.size`` (1048576), ``compression.type`` (``none``) and its levels,
        ``partitioner.class`` (``default``), ``partitioner.ignore.keys`` (``false``) and ``transaction.timeout.ms``
        (900000). ``partitioner.option.NAME`` is an argument of a partitioner's class. Names may begin with ``kafka.``,
        as in Spark's Kafka sink. With this prefix, other settings of a producer are accepted too, and a single notice
        says that they change nothing. Raises InvalidConfigError naming an unknown or invalid setting.
        """
        settings = _by_kafkas_names(given)
        return cls(
            _whole(settings, "batch.size", BATCH_SIZE_BYTES),
            _compression(settings),
            parse_partitioner(settings),
            _whole(settings, "transaction.timeout.ms", TRANSACTION_TIMEOUT_MS),
        )

    def compression_in(self, topic: LogConfig) -> Compression:
        """Returns the topic's compression, or the producer's if the topic leaves it to producers."""
        if topic.compression_type == "producer":
            return self.compression
        return target_compression(topic, Codec.NONE)


@dataclass(frozen=True)
class Targets:
    """The topics that a sink writes to, and their settings."""

    directory: str  # absolute, or the URL of an object store
    names: tuple[str, ...]
    by_column: bool  # the column topic names each row's topic; otherwise there is only one topic
    partitions: int | None  # of each topic; None: as many as it has, or 1 for a new topic
    configs: dict[str, str]  # Kafka's topic settings by name
    producer: ProducerSettings
    bad_records: str | None  # the topic for rows that the other topics refuse; None: such a row fails the write

    @classmethod
    def parse(
        cls,
        log_dir: str,
        *,
        topic: str | None = None,
        topics: str | list[str] | tuple[str, ...] | None = None,
        partitions: int | None = None,
        configs: Mapping[str, object] | None = None,
        producer: Mapping[str, object] | None = None,
        bad_records: str | None = None,
    ) -> Self:
        """Checks the arguments without reading the disk.

        Raises InvalidConfigError naming an invalid argument, InvalidTopicError for an internal topic.
        """
        names = _names(topic, topics)
        for name in (*names, bad_records or ""):
            check_takes_records(name)
        own = {name: str(value) for name, value in (configs or {}).items()}
        for name in own:
            if name in ("batch.size", PARTITIONER, "transaction.timeout.ms"):
                raise InvalidConfigError(f"{name} is a setting of the producer, not of a topic: give it in producer")
        LogConfig.from_mapping(own)
        if partitions is not None and partitions < 1:
            raise InvalidConfigError(f"partitions is {partitions}; it must be 1 or more")
        if bad_records in names:
            raise InvalidConfigError(
                f"badRecords = {bad_records!r} is a topic that the rows are written to, and would refuse them again: "
                "name another topic"
            )
        settings = ProducerSettings.parse(producer or {})
        return cls(log_location(log_dir), names, topics is not None, partitions, own, settings, bad_records)

    def __str__(self) -> str:
        return f"topic{'s' if len(self.names) > 1 else ''} {', '.join(self.names)}"

    def prepare(self, manager: LogManager) -> dict[str, TopicDescription]:
        """Returns the topics by name, including the topic for bad records; creates those that are missing.

        Raises TopicExistsError if a topic has other settings than requested, LogDirLockedError if a broker runs on the
        directory, InvalidConfigError if the topic for bad records is compacted, and UnknownTopicOrPartitionError if
        partitions of a topic are missing in the directory.
        """
        manager.check_writable()
        found = self.prepared(
            lambda name, count, configs: manager.ensure_topic(name, partitions=count, configs=configs)
        )
        for each in found.values():
            check_whole(manager, each)
        return found

    def prepared(self, ensure: Ensure) -> dict[str, TopicDescription]:
        """Like :meth:`prepare`, with ``ensure`` to return a topic, or create it."""
        found = {name: ensure(name, self.partitions, self.configs) for name in self.names}
        if self.bad_records is not None:
            bad = ensure(self.bad_records, None, None)
            if LogConfig.from_mapping(bad.configs, broker=bad.broker).compact:
                raise InvalidConfigError(
                    f"badRecords = {bad.name!r}: the topic is compacted, and would delete rows or refuse them: name a "
                    "topic without compaction"
                )
            found[bad.name] = bad
        return found


def manager_for(directory: str, topics: Mapping[str, TopicDescription]) -> LogManager:
    """Returns a manager for tasks, opened once per process: a worker runs its tasks one after the other.

    Opening a log for writing means reading its tail, so logs stay open as long as the process. A topic that was deleted
    and created again, or has other settings now, gets a new manager.
    """
    settings = ((each.topic_id, *sorted({**each.broker, **each.configs}.items())) for each in topics.values())
    return _shared_manager(directory, tuple(settings))


@cache
def _shared_manager(directory: str, _topics: tuple[object, ...]) -> LogManager:
    return LogManager.open(directory)


def _names(topic: str | None, topics: str | list[str] | tuple[str, ...] | None) -> tuple[str, ...]:
    if (topic is None) == (topics is None):
        raise InvalidConfigError("give either topic, for all rows, or topics, if a column topic names each row's topic")
    listed = topics.split(",") if isinstance(topics, str) else topics or [topic or ""]
    names = tuple(dict.fromkeys(name.strip() for name in listed if name.strip()))
    if not names:
        raise InvalidConfigError("topics names no topic" if topic is None else "topic is empty: name a topic")
    return names


def _by_kafkas_names(given: Mapping[str, object]) -> dict[str, object]:
    """Returns those settings of ``given`` that have an effect (``PRODUCER_SETTINGS``), without prefix."""
    found: dict[str, object] = {}
    unused = []
    for name, value in given.items():
        setting = name.lower().removeprefix(KAFKAS)
        if setting in _REFUSED:
            raise InvalidConfigError(f"producer setting {name} is not supported: {_REFUSED[setting]}")
        if is_producers(setting):
            if found.setdefault(setting, value) != value:
                raise InvalidConfigError(
                    f"{setting} is given twice, as {found[setting]!r} and as {value!r}: give it once"
                )
        elif name.lower().startswith(KAFKAS):
            unused.append(name)
        else:
            raise InvalidConfigError(
                f"unknown producer setting {name!r}{did_you_mean(name, PRODUCER_SETTINGS)}; "
                f"there are {', '.join(PRODUCER_SETTINGS)}"
            )
    for notice in notice_of(unused):
        log_once(notice)
    return found


def _whole(given: Mapping[str, object], name: str, default: int) -> int:
    text = str(given.get(name, default))
    if not text.isdecimal() or not 0 < int(text) < 2**31:
        raise InvalidConfigError(f"{name} = {text!r}: must be a whole number from 1 to {2**31 - 1}")
    return int(text)


def _compression(given: Mapping[str, object]) -> Compression:
    """Parses ``compression.type`` and the levels of codecs, which have the same bounds as those of a topic."""
    name = str(given.get("compression.type", "none")).lower()
    if name not in _CODECS:
        raise InvalidConfigError(f"compression.type = {name!r}: must be one of {', '.join(_CODECS)}")
    levels = {level: str(given[level]) for level in _LEVELS if level in given}
    return target_compression(LogConfig.from_mapping(levels), _CODECS[name])
