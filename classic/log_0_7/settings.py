"""PositionLogSettings: the settings of Kafka 0.7.2 for its logs, with its names, defaults and bounds (KafkaConfig)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from ...storage.config import ANYTHING, DECOMPRESSED_BYTES_MAX, INT, LONG, Between, Key, Kind, keys_of
from ...storage.errors import InvalidConfigError, did_you_mean

HOUR_MS = 3_600_000


def _pairs(value: object) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, str):
        if not isinstance(value, Iterable):
            raise ValueError
        return tuple((str(topic), INT.parse(number)) for topic, number in value)
    pairs = [each.strip().rpartition(":") for each in value.split(",") if each.strip()]
    if not all(topic and colon for topic, colon, _ in pairs):
        raise ValueError
    return tuple((topic.strip(), INT.parse(number)) for topic, _, number in pairs)


PAIRS = Kind(
    "pairs of a topic and a number, such as orders:3,users:1",
    _pairs,
    lambda pairs: ",".join(f"{topic}:{number}" for topic, number in pairs),
)


@dataclass(frozen=True)
class _EachAtLeast:
    """Pairs whose number is at least ``low``."""

    low: int

    def holds(self, value: Any) -> bool:
        return all(number >= self.low for _, number in value)

    def __str__(self) -> str:
        return f"each number at least {self.low}"


def _key(name: str, kind: Kind, default: Any, bounds: Any, doc: str) -> Any:
    return field(default=default, metadata={"key": Key(name, kind, default, bounds, doc)})


# fmt: off
@dataclass(frozen=True)
class PositionLogSettings:
    """Settings of a log directory of 0.7; creating one with a bad value raises InvalidConfigError."""

    num_partitions: int = _key("num.partitions", INT, 1, Between(1),
        "Partitions of a topic.")
    partition_counts: tuple[tuple[str, int], ...] = _key("topic.partition.count.map", PAIRS, (), _EachAtLeast(1),
        "Partitions of these topics.")
    file_size: int = _key("log.file.size", INT, 1 << 30, Between(5),
        "A file that is larger than this before an append is closed, and a new one begun.")
    max_message_size: int = _key("max.message.size", INT, 1_000_000, Between(0),
        "The largest payload of a message, compressed as it is; a set with a larger one is dropped.")
    max_decompressed_bytes: int = _key("max.decompressed.bytes", INT, DECOMPRESSED_BYTES_MAX,
        Between(1, DECOMPRESSED_BYTES_MAX),
        "The most that one compressed message may hold; not a setting of Kafka.")
    flush_interval: int = _key("log.flush.interval", INT, 500, Between(1),
        "Messages after which a log is synced. Readers see only what was synced.")
    flush_interval_ms: int | None = _key("log.default.flush.interval.ms", INT, None, Between(1),
        "Time after which a log is synced; default: log.default.flush.scheduler.interval.ms.")
    flush_intervals_ms: tuple[tuple[str, int], ...] = _key("topic.flush.intervals.ms", PAIRS, (), _EachAtLeast(1),
        "The same, for these topics.")
    flush_check_ms: int = _key("log.default.flush.scheduler.interval.ms", INT, 3000, Between(1),
        "How often it is checked which logs to sync.")
    retention_hours: int = _key("log.retention.hours", INT, 168, Between(1),
        "Files that were last changed before this are deleted.")
    topic_retention_hours: tuple[tuple[str, int], ...] = _key("topic.log.retention.hours", PAIRS, (), _EachAtLeast(1),
        "The same, for these topics.")
    retention_size: int = _key("log.retention.size", LONG, -1, ANYTHING,
        "The first files of a log are deleted while at least this many bytes remain; negative: no limit.")
    cleanup_interval_mins: int = _key("log.cleanup.interval.mins", INT, 10, Between(1),
        "How often files are deleted.")
# fmt: on

    def __post_init__(self) -> None:
        for name, key in keys_of(type(self)).items():
            value = getattr(self, name)
            if value is not None or key.default is not None:
                object.__setattr__(self, name, key.check(value))

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> Self:
        """Returns the settings for Kafka's names. Raises InvalidConfigError for an unknown name or a bad value."""
        names = {key.name: name for name, key in keys_of(cls).items()}
        for given in mapping:
            if given not in names:
                raise InvalidConfigError(f"unknown setting of Kafka 0.7: {given}{did_you_mean(given, names)}")
        return cls(**{names[given]: value for given, value in mapping.items()})  # type: ignore[arg-type]

    @staticmethod
    def names() -> list[str]:
        """Kafka's names of all settings."""
        return [key.name for key in keys_of(PositionLogSettings).values()]

    def partitions_of(self, topic: str) -> int:
        """How many partitions ``topic`` has, or would have."""
        return dict(self.partition_counts).get(topic, self.num_partitions)

    def flush_ms_of(self, topic: str) -> int:
        """After how many ms a log of ``topic`` is synced."""
        default = self.flush_check_ms if self.flush_interval_ms is None else self.flush_interval_ms
        return dict(self.flush_intervals_ms).get(topic, default)

    def retention_ms_of(self, topic: str) -> int:
        """How many ms after its last change a file of ``topic`` is deleted."""
        return dict(self.topic_retention_hours).get(topic, self.retention_hours) * HOUR_MS
