"""The topics that rows are written to: asked for with settings, made where they are missing, never changed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Self

from pyspark_commitlog.pipeline.columns import nearest
from pyspark_commitlog.pipeline.kafka_options import KAFKAS, log_once, notice_of
from pyspark_commitlog.pipeline.options import local_directory
from pyspark_commitlog.storage import (
    Codec,
    Compression,
    InvalidConfigError,
    LogConfig,
    LogManager,
    TopicDescription,
    check_takes_records,
    check_whole,
    target_compression,
)

# Bytes of records in a batch (a producer's batch.size), or what a topic takes, which by default is as much. Kafka's
# 16 KiB is for producers that wait for records one by one; here whole tables arrive. Each batch costs whoever appends
# beside its writer a read of its header: 2,000,000 rows of 116 bytes in batches of 256 KiB took 50 ms longer of 1,000.
# Ten records by offset are found in 2.2 ms instead of 1.7.
BATCH_SIZE_BYTES = 1 << 20

_CODECS = {codec.name.lower(): codec for codec in Codec}
_LEVELS = ("compression.gzip.level", "compression.lz4.level", "compression.zstd.level")
_IGNORE_KEYS = "partitioner.ignore.keys"
PRODUCER_SETTINGS = (
    *("batch.size", "compression.type", *_LEVELS, "partitioner.class", _IGNORE_KEYS, "transaction.timeout.ms"),
)
# Settings of a producer that would change what is written, and that nothing here heeds.
_REFUSED = {
    "key.serializer": "keys are written as bytes; cast the column key",  # refused by Spark's Kafka sink, too
    "value.serializer": "values are written as bytes; cast the column value",
    "interceptor.classes": "there is no producer to intercept",
    "transactional.id": "set txnAppId instead",
}
# The broker's transaction.max.timeout.ms: what is still open when one takes the directory over must suit it.
TRANSACTION_TIMEOUT_MS = 900_000

logger = logging.getLogger(__name__)


class Partitioner(Enum):
    """How a row that names no partition finds one; the values are those of ``partitioner.class``."""

    DEFAULT = "default"  # murmur2 of the key, else where all rows without a key of a table go
    ROUND_ROBIN = "RoundRobinPartitioner"  # one partition after the other, whatever the key
    COLUMN = "column"  # not at all: each row must name its partition


@dataclass(frozen=True)
class ProducerSettings:
    """How rows become batches: some of the settings of Kafka's producer, by its names."""

    batch_bytes: int
    compression: Compression
    partitioner: Partitioner
    transaction_timeout_ms: int  # how old a transaction of a driver that is gone may become

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> Self:
        """``batch.size`` (1048576), ``compression.type`` (``none``) and its levels, ``partitioner.class``
        (``default``), ``partitioner.ignore.keys`` (``false``), ``transaction.timeout.ms`` (900000).

        ``kafka.`` may stand before a name, as Spark's Kafka sink has it; then other settings of a producer pass, with
        one notice that they change nothing. Raises InvalidConfigError naming the setting that is unknown or wrong.
        """
        settings = _by_kafkas_names(given)
        return cls(
            _whole(settings, "batch.size", BATCH_SIZE_BYTES),
            _compression(settings),
            _partitioner(settings),
            _whole(settings, "transaction.timeout.ms", TRANSACTION_TIMEOUT_MS),
        )

    def compression_in(self, topic: LogConfig) -> Compression:
        """What batches are compressed with: as the topic says, or, where it leaves that to producers, as they say."""
        if topic.compression_type == "producer":
            return self.compression
        return target_compression(topic, Codec.NONE)


@dataclass(frozen=True)
class Targets:
    """The topics of a sink in a directory, and what was asked of them."""

    directory: str
    names: tuple[str, ...]
    by_column: bool  # rows say in their column topic where they go; else all go to the only topic
    partitions: int | None  # None: as they are, one for a new topic
    configs: dict[str, str]  # Kafka's topic settings by name
    producer: ProducerSettings
    bad_records: str | None  # the topic for rows that the others refuse; None: such a row fails the write

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
        """Raises InvalidConfigError naming what is wrong in itself, PolicyViolationError for an internal topic: nothing
        is looked at on the disk.
        """
        names = _names(topic, topics)
        for name in (*names, bad_records or ""):
            check_takes_records(name)
        own = {name: str(value) for name, value in (configs or {}).items()}
        for name in own:
            if name in ("batch.size", "partitioner.class", "transaction.timeout.ms"):
                raise InvalidConfigError(f"{name} is a setting of the producer, not of a topic: give it in producer")
        LogConfig.from_mapping(own)
        if partitions is not None and partitions < 1:
            raise InvalidConfigError(f"topic {names[0]}: a topic has at least one partition, not {partitions}")
        if bad_records in names:
            raise InvalidConfigError(
                f"badRecords = {bad_records!r} is a topic of the write itself, and would refuse the rows again: name "
                "another one"
            )
        settings = ProducerSettings.parse(producer or {})
        return cls(local_directory(log_dir), names, topics is not None, partitions, own, settings, bad_records)

    def __str__(self) -> str:
        return f"topic{'s' if len(self.names) > 1 else ''} {', '.join(self.names)}"

    def prepare(self, manager: LogManager) -> dict[str, TopicDescription]:
        """The topics as they are, or newly made, with that for bad records; nothing is written where one is wrong.

        Raises TopicExistsError where one has other settings than asked, LogDirLockedError where a broker runs on the
        directory, InvalidConfigError for a topic of bad records that is compacted, UnknownTopicOrPartitionError for one
        of which a broker has partitions elsewhere.
        """
        manager.check_writable()
        found = {
            name: manager.ensure_topic(name, partitions=self.partitions, configs=self.configs) for name in self.names
        }
        if self.bad_records is not None:
            bad = manager.ensure_topic(self.bad_records)
            if LogConfig.from_mapping(bad.configs).compact:
                raise InvalidConfigError(
                    f"badRecords = {bad.name!r}: the topic is compacted, and would delete rows or refuse them"
                )
            found[bad.name] = bad
        for each in found.values():
            check_whole(manager, each)
        return found


def manager_for(directory: str, topics: Mapping[str, TopicDescription]) -> LogManager:
    """The manager this process keeps for ``directory``; for tasks, which come to a worker one after the other.

    Opening a log to write means reading its tail, so it stays open as long as the process; but a topic that was deleted
    and made again, or has other settings now, is opened anew.
    """
    return _shared_manager(directory, tuple((each.topic_id, *sorted(each.configs.items())) for each in topics.values()))


@cache
def _shared_manager(directory: str, _topics: tuple[object, ...]) -> LogManager:
    return LogManager.open(directory)


def _names(topic: str | None, topics: str | list[str] | tuple[str, ...] | None) -> tuple[str, ...]:
    if (topic is None) == (topics is None):
        raise InvalidConfigError("exactly one of topic (for all rows) and topics (rows name theirs) must be given")
    listed = topics.split(",") if isinstance(topics, str) else topics or [topic or ""]
    names = tuple(dict.fromkeys(name.strip() for name in listed if name.strip()))
    if not names:
        raise InvalidConfigError("topics names no topic" if topic is None else "topic is empty")
    return names


def _by_kafkas_names(given: Mapping[str, object]) -> dict[str, object]:
    """The settings of ``PRODUCER_SETTINGS`` among those given."""
    found: dict[str, object] = {}
    unused = []
    for name, value in given.items():
        setting = name.lower().removeprefix(KAFKAS)
        if setting in _REFUSED:
            raise InvalidConfigError(f"producer setting {name} is not supported: {_REFUSED[setting]}")
        if setting in PRODUCER_SETTINGS:
            if found.setdefault(setting, value) != value:
                raise InvalidConfigError(f"{setting} is given twice, as {found[setting]!r} and as {value!r}")
        elif name.lower().startswith(KAFKAS):
            unused.append(name)
        else:
            raise InvalidConfigError(
                f"unknown producer setting {name!r}{nearest(name, PRODUCER_SETTINGS)}; "
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
    """The levels mean in a producer what they mean in a topic, so the topic's rules check them."""
    name = str(given.get("compression.type", "none")).lower()
    if name not in _CODECS:
        raise InvalidConfigError(f"compression.type = {name!r}: must be one of {', '.join(_CODECS)}")
    levels = {level: str(given[level]) for level in _LEVELS if level in given}
    return target_compression(LogConfig.from_mapping(levels), _CODECS[name])


def _partitioner(given: Mapping[str, object]) -> Partitioner:
    """Kafka's classes by their names, with or without the package; its older ones did what is the default here."""
    text = str(given.get("partitioner.class", Partitioner.DEFAULT.value))
    known = {each.value.lower(): each for each in Partitioner} | {
        "defaultpartitioner": Partitioner.DEFAULT,
        "uniformstickypartitioner": Partitioner.DEFAULT,
    }
    name = text.rsplit(".", 1)[-1].lower()
    if name not in known:
        raise InvalidConfigError(
            f"partitioner.class = {text!r}: must be one of {', '.join(each.value for each in Partitioner)}"
        )
    ignores_keys = str(given.get(_IGNORE_KEYS, "false")).lower()
    if ignores_keys not in ("true", "false"):
        raise InvalidConfigError(f"{_IGNORE_KEYS} = {ignores_keys!r}: must be true or false")
    if known[name] is Partitioner.DEFAULT and ignores_keys == "true":
        return Partitioner.ROUND_ROBIN
    return known[name]
