"""Topic and cleaner settings: Kafka's keys, defaults and bounds (LogConfig and CleanerConfig of Kafka 3.9.1).

One key is our own: ``max.decompressed.bytes``, because Kafka decompresses batches without a limit.

One :class:`Key` per field contains everything about a setting: its Kafka name, type, default, bounds, the broker's keys
that give its default, and a sentence of documentation. Checks, errors, rendering and the documentation all use it. A
config is checked whenever it is created, and is immutable.

(Longer than modules should be here because of the table of keys, which is best read in one piece.)
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, NamedTuple, Protocol, Self

from .errors import InvalidConfigError, nearest

INT64_MAX = 2**63 - 1  # how Kafka expresses "never" and "no limit" for keys without -1
# Limit for the decompressed size of one batch. gzip, the codec of old Kafka with the weakest bound, expands at most
# 1032 times, so a batch of the default max.message.bytes (1 MiB) stays below; anything larger is a decompression bomb.
DECOMPRESSED_BYTES_MAX = 2**30 + 2**23

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
CHECK_INTERVAL_MS = 5 * MINUTE_MS  # how often Kafka checks: the default of CHECK_INTERVAL


class Kind(NamedTuple):
    """A type of Kafka's configs; ``parse`` raises ValueError for a value of another type (ConfigDef.parseType)."""

    name: str
    parse: Callable[[object], Any]
    render: Callable[[Any], str]


_INTEGER = re.compile(r"[+-]?[0-9]+")  # int() alone would accept 1_000 and the digits of other scripts
_BOOLEANS = {"true": True, "false": False}


def _integer(bits: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise ValueError
        return value

    return parse


def _double(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError
    return float(value)


def _boolean(value: object) -> bool:
    if isinstance(value, str):
        value = _BOOLEANS.get(value.strip().lower())
    if not isinstance(value, bool):
        raise ValueError
    return value


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value.strip()


class ListedItems(frozenset[str]):
    """The items of a setting that is a list: equal to others in any order, but shown as they were given."""

    given: tuple[str, ...]

    def __new__(cls, items: Iterable[str] = ()) -> Self:
        given = tuple(items)
        made = super().__new__(cls, given)
        made.given = given
        return made


def _list(value: object) -> frozenset[str]:
    if isinstance(value, str):
        value = value.split(",") if value.strip() else ()
    if not isinstance(value, Iterable):
        raise ValueError
    return ListedItems(_string(item) for item in value)


def _list_text(items: frozenset[str]) -> str:
    return ",".join(items.given if isinstance(items, ListedItems) else sorted(items))


INT = Kind("a whole number of 32 bits", _integer(32), str)
LONG = Kind("a whole number of 64 bits", _integer(64), str)
DOUBLE = Kind("a number", _double, repr)
BOOLEAN = Kind("true or false", _boolean, lambda value: str(value).lower())
STRING = Kind("a text", _string, str)
LIST = Kind("a comma-separated list", _list, _list_text)


class Bounds(Protocol):
    """The allowed values of a key; their ``str`` completes the sentence "must be …"."""

    def holds(self, value: Any) -> bool: ...


@dataclass(frozen=True)
class Anything:
    """Every value of the type."""

    def holds(self, value: Any) -> bool:
        return True

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True)
class Between:
    """Numbers from ``low`` to ``high``, both included, or one of ``also``."""

    low: float
    high: float = float("inf")
    also: tuple[int, ...] = ()

    def holds(self, value: Any) -> bool:
        return value in self.also or self.low <= value <= self.high

    def __str__(self) -> str:
        limits = f"at least {self.low}" if self.high == float("inf") else f"from {self.low} to {self.high}"
        return ", or ".join([limits, *map(str, self.also)])


@dataclass(frozen=True)
class NotZero:
    """Any number but zero, for the broker's retention keys: negative numbers mean no limit."""

    def holds(self, value: Any) -> bool:
        return bool(value != 0)

    def __str__(self) -> str:
        return "at least 1, or negative for no limit"


@dataclass(frozen=True)
class OneOf:
    """One of a few texts or, for a list, any of them."""

    choices: tuple[str, ...]

    def holds(self, value: Any) -> bool:
        return ({value} if isinstance(value, str) else value) <= set(self.choices)

    def __str__(self) -> str:
        return "of " + ", ".join(self.choices)


@dataclass(frozen=True)
class Matching:
    """Texts that match a regular expression, or lists of such texts."""

    pattern: str
    example: str

    def holds(self, value: Any) -> bool:
        return all(re.fullmatch(self.pattern, text) for text in ([value] if isinstance(value, str) else value))

    def __str__(self) -> str:
        return f"such as {self.example}"


ANYTHING = Anything()
_RELEASE = (  # ``MetadataVersion.fromVersionString`` reads two numbers, or three that begin with 0
    r"(0\.8\.[0-2]|0\.9\.0|0\.10\.[0-2]|0\.11\.0|1\.[01]|2\.[0-8]|3\.\d|4\.0)(-IV\d+)?(\..*)?"
)
THROTTLED = Matching(r"\*|\d+:\d+", "0:1,1:2 (partition:broker) or *")


@dataclass(frozen=True)
class Synonym:
    """A broker's key for the default of a topic's key (ServerTopicConfigSynonyms); ``convert`` converts the unit."""

    name: str
    kind: Kind
    bounds: Bounds
    convert: Callable[[Any], Any] = lambda value: value

    def read(self, value: object) -> Any:
        return self.convert(_checked(self.name, value, self.kind, self.bounds))


CHECK_INTERVAL = Synonym("log.retention.check.interval.ms", LONG, Between(1))  # a broker's, of no topic


@dataclass(frozen=True)
class Key:
    """A setting with all its properties.

    ``has_effect`` is False for settings that matter only to a broker, ``is_kafkas`` for settings that no broker knows.
    """

    name: str
    kind: Kind
    default: Any
    bounds: Bounds
    doc: str
    synonyms: tuple[Synonym, ...] = ()
    has_effect: bool = True
    is_kafkas: bool = True

    def check(self, value: object) -> Any:
        """Returns ``value`` in the type of the key. Raises InvalidConfigError, which names key, value and bounds."""
        return _checked(self.name, value, self.kind, self.bounds)


def _checked(name: str, value: object, kind: Kind, bounds: Bounds) -> Any:
    try:
        parsed = kind.parse(value)
        if bounds.holds(parsed):
            return parsed
    except (ValueError, OverflowError):
        pass  # reported below, together with the bounds
    raise InvalidConfigError(f"{name} = {value!r}: must be {', '.join(filter(None, [kind.name, str(bounds)]))}")


def _key(name: str, kind: Kind, default: Any, bounds: Bounds, doc: str, *synonyms: str | Synonym, **more: bool) -> Any:
    """Returns a dataclass field for a key. A synonym that is only a name has the type, bounds and unit of the key."""
    whole = tuple(Synonym(given, kind, bounds) if isinstance(given, str) else given for given in synonyms)
    key = Key(name, kind, default, bounds, " ".join(doc.split()), whole, **more)
    return field(default=default, metadata={"key": key})


def _hours(name: str, at_least: int) -> Synonym:
    return Synonym(name, INT, Between(at_least), lambda hours: hours * HOUR_MS)


def _retention(name: str, kind: Kind, unit_ms: int) -> Synonym:
    return Synonym(name, kind, NotZero(), lambda duration: max(duration * unit_ms, -1))


def keys_of(config: type[Any]) -> dict[str, Key]:
    """Returns the keys of a config class, a dataclass, by the names of its fields, in the order of the class."""
    return {one.name: one.metadata["key"] for one in fields(config) if "key" in one.metadata}


def _check_all(config: LogConfig | CleanerConfig) -> None:
    for name, key in keys_of(type(config)).items():
        object.__setattr__(config, name, key.check(getattr(config, name)))  # frozen: set only while being built


def _values(config: type[LogConfig | CleanerConfig], broker: Mapping[str, object]) -> dict[str, Any]:
    """Returns values by field from a broker's settings: of each key's synonyms, the first that ``broker`` has."""
    return {
        name: synonym.read(broker[synonym.name])
        for name, key in keys_of(config).items()
        for synonym in reversed(key.synonyms)  # the first is read last and overrides the others
        if synonym.name in broker
    }


# One key: field and type; Kafka's name, type, default, bounds; meaning; the broker's keys, of which the first set wins.
# fmt: off
@dataclass(frozen=True)
class LogConfig:
    """The settings of a topic; creating one with a bad value raises InvalidConfigError.

    :meth:`from_mapping` takes Kafka's names, the constructor the same values by field.
    """

    segment_bytes: int = _key("segment.bytes", INT, 1 << 30, Between(14),
        "A segment is closed before it would grow beyond this many bytes.", "log.segment.bytes")
    segment_ms: int = _key("segment.ms", LONG, 7 * DAY_MS, Between(1),
        "A segment is closed once its records span more time than this, so that retention and compaction can reach it.",
        "log.roll.ms", _hours("log.roll.hours", 1))
    segment_jitter_ms: int = _key("segment.jitter.ms", LONG, 0, Between(0),
        "Random time up to which segment.ms is shortened for each segment, so that partitions do not roll all at once.",
        "log.roll.jitter.ms", _hours("log.roll.jitter.hours", 0))
    segment_index_bytes: int = _key("segment.index.bytes", INT, 10 << 20, Between(4),
        "Size of each index file; a segment is closed when one of its indexes is full.", "log.index.size.max.bytes")
    index_interval_bytes: int = _key("index.interval.bytes", INT, 4096, Between(0),
        "An index entry is added after at least this many bytes of records.", "log.index.interval.bytes")
    flush_messages: int = _key("flush.messages", LONG, INT64_MAX, Between(1),
        "Sync after this many records.", "log.flush.interval.messages")
    flush_ms: int = _key("flush.ms", LONG, INT64_MAX, Between(0),
        "Sync when this much time has passed since the last sync, even if nothing more is appended.",
        "log.flush.interval.ms", "log.flush.scheduler.interval.ms")
    retention_bytes: int = _key("retention.bytes", LONG, -1, ANYTHING,
        "Old segments are deleted as long as the partition keeps at least this many bytes; -1: no limit.",
        "log.retention.bytes")
    retention_ms: int = _key("retention.ms", LONG, 7 * DAY_MS, Between(-1),
        "Segments whose newest record is older than this are deleted; -1: no limit.",
        _retention("log.retention.ms", LONG, 1), _retention("log.retention.minutes", INT, MINUTE_MS),
        _retention("log.retention.hours", INT, HOUR_MS))
    max_message_bytes: int = _key("max.message.bytes", INT, (1 << 20) + 12, Between(0),
        "Size of the largest record batch as stored, including its header.", "message.max.bytes")
    max_decompressed_bytes: int = _key("max.decompressed.bytes", INT, DECOMPRESSED_BYTES_MAX,
        Between(1, DECOMPRESSED_BYTES_MAX),
        "Largest decompressed size of a record batch in memory; a larger batch is rejected as damaged.",
        is_kafkas=False)
    keyfilter_enable: bool = _key("keyfilter.enable", BOOLEAN, False, ANYTHING,
        "Whether closed segments get a filter of their keys, by which a search for a key passes over them.",
        is_kafkas=False)
    delete_retention_ms: int = _key("delete.retention.ms", LONG, DAY_MS, Between(0),
        "Compaction keeps tombstones and transaction markers for this long after it could first have dropped them.",
        "log.cleaner.delete.retention.ms")
    min_compaction_lag_ms: int = _key("min.compaction.lag.ms", LONG, 0, Between(0),
        "Records younger than this are not compacted.", "log.cleaner.min.compaction.lag.ms")
    max_compaction_lag_ms: int = _key("max.compaction.lag.ms", LONG, INT64_MAX, Between(1),
        "Records older than this are compacted even if little is dirty.", "log.cleaner.max.compaction.lag.ms")
    min_cleanable_dirty_ratio: float = _key("min.cleanable.dirty.ratio", DOUBLE, 0.5, Between(0, 1),
        "A log is compacted when more than this fraction of it is dirty.", "log.cleaner.min.cleanable.ratio")
    cleanup_policy: frozenset[str] = _key("cleanup.policy", LIST, frozenset({"delete"}), OneOf(("compact", "delete")),
        "delete: old segments are deleted by time and size; compact: old values of a key are deleted; or both.",
        "log.cleanup.policy")
    file_delete_delay_ms: int = _key("file.delete.delay.ms", LONG, MINUTE_MS, Between(0),
        "Segments removed from a log are kept for this long as .deleted files, for readers that still use them.",
        "log.segment.delete.delay.ms")
    compression_type: str = _key("compression.type", STRING, "producer",
        OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
        "The codec that batches are stored with; producer: the one they arrive with.", "compression.type")
    compression_gzip_level: int = _key("compression.gzip.level", INT, -1, Between(1, 9, also=(-1,)),
        "Level of gzip; -1: the default of zlib.", "compression.gzip.level")
    compression_lz4_level: int = _key("compression.lz4.level", INT, 9, Between(1, 17),
        "Level of LZ4.", "compression.lz4.level")
    compression_zstd_level: int = _key("compression.zstd.level", INT, 3, Between(-131072, 22),
        "Level of zstd.", "compression.zstd.level")
    preallocate: bool = _key("preallocate", BOOLEAN, False, ANYTHING,
        "Whether a new segment file is allocated with segment.bytes at once.", "log.preallocate")
    message_timestamp_type: str = _key("message.timestamp.type", STRING, "CreateTime",
        OneOf(("CreateTime", "LogAppendTime")),
        "Whether records keep their own time or get the time of the append.", "log.message.timestamp.type")
    message_timestamp_before_max_ms: int = _key("message.timestamp.before.max.ms", LONG, INT64_MAX, Between(0),
        "Records whose time is more than this before the time of the append are rejected.",
        "log.message.timestamp.before.max.ms")
    message_timestamp_after_max_ms: int = _key("message.timestamp.after.max.ms", LONG, INT64_MAX, Between(0),
        "Records whose time is more than this after the time of the append are rejected.",
        "log.message.timestamp.after.max.ms")
    message_timestamp_difference_max_ms: int = _key("message.timestamp.difference.max.ms", LONG, INT64_MAX, Between(0),
        "Deprecated: used for message.timestamp.before.max.ms and after.max.ms if those have no limit.",
        "log.message.timestamp.difference.max.ms")
    message_format_version: str = _key("message.format.version", STRING, "3.0-IV1",
        Matching(_RELEASE, "3.0-IV1"),
        "If the gateway's inter.broker.protocol.version is below 3.0, clients' records are stored in the format of "
        "this version: 0.8 to 0.10 have message sets. Otherwise ignored.",
        "log.message.format.version")
    message_downconversion_enable: bool = _key("message.downconversion.enable", BOOLEAN, True, ANYTHING,
        "Whether consumers of Kafka before 0.11 get records in their older formats; otherwise an error.",
        "log.message.downconversion.enable")
    min_insync_replicas: int = _key("min.insync.replicas", INT, 1, Between(1),
        "Replicas that must have a record before it is acknowledged.", "min.insync.replicas", has_effect=False)
    unclean_leader_election_enable: bool = _key("unclean.leader.election.enable", BOOLEAN, False, ANYTHING,
        "Whether a replica that lags may become leader.", "unclean.leader.election.enable", has_effect=False)
    leader_replication_throttled_replicas: frozenset[str] = _key("leader.replication.throttled.replicas", LIST,
        frozenset(), THROTTLED, "Replicas throttled on the leader.", has_effect=False)
    follower_replication_throttled_replicas: frozenset[str] = _key("follower.replication.throttled.replicas", LIST,
        frozenset(), THROTTLED, "Replicas throttled on the follower.", has_effect=False)
    remote_storage_enable: bool = _key("remote.storage.enable", BOOLEAN, False, ANYTHING,
        "Whether closed segments are copied to remote storage: commitlog tier copy.")
    remote_log_copy_disable: bool = _key("remote.log.copy.disable", BOOLEAN, False, ANYTHING,
        "Whether copying to remote storage is stopped.")
    remote_log_delete_on_disable: bool = _key("remote.log.delete.on.disable", BOOLEAN, False, ANYTHING,
        "Whether remote segments are deleted when remote.storage.enable is turned off.", has_effect=False)
    local_retention_ms: int = _key("local.retention.ms", LONG, -2, Between(-2),
        "retention.ms for local segments that are also in remote storage; -2: as retention.ms.",
        "log.local.retention.ms")
    local_retention_bytes: int = _key("local.retention.bytes", LONG, -2, Between(-2),
        "retention.bytes for local segments that are also in remote storage; -2: as retention.bytes.",
        "log.local.retention.bytes")
    # fmt: on

    def __post_init__(self) -> None:
        _check_all(self)
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise InvalidConfigError(
                f"min.compaction.lag.ms = {self.min_compaction_lag_ms}: must be at most max.compaction.lag.ms, "
                f"which is {self.max_compaction_lag_ms}"
            )
        if self.max_decompressed_bytes < min(self.max_message_bytes, DECOMPRESSED_BYTES_MAX):
            raise InvalidConfigError(
                f"max.decompressed.bytes = {self.max_decompressed_bytes}: must be at least max.message.bytes, which is "
                f"{self.max_message_bytes}"
            )
        for name in ("message_timestamp_before_max_ms", "message_timestamp_after_max_ms"):
            if getattr(self, name) == INT64_MAX:
                object.__setattr__(self, name, self.message_timestamp_difference_max_ms)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object], *, broker: Mapping[str, object] | None = None) -> Self:
        """Returns the config for a topic's settings by Kafka's names, else for those of ``broker``, else the defaults.

        A value has the type of its key, or is text as in a properties file. An unknown topic key or a bad value raises
        InvalidConfigError. ``broker`` may contain any of a broker's keys; :meth:`without_effect` lists unused ones.
        """
        fields_by_name = {key.name: name for name, key in keys_of(cls).items()}
        for given in mapping:
            if given not in fields_by_name:
                raise InvalidConfigError(f"unknown topic config {given}{_did_you_mean(given)}")
        own = {fields_by_name[given]: value for given, value in mapping.items()}
        return cls(**_values(cls, broker or {}) | own)

    def to_mapping(self) -> dict[str, str]:
        """Returns every value as text by Kafka's name; :meth:`from_mapping` makes an equal config of the result."""
        return {key.name: key.kind.render(getattr(self, name)) for name, key in keys_of(type(self)).items()}

    @staticmethod
    def of_kafka(mapping: Mapping[str, str]) -> dict[str, str]:
        """Returns ``mapping`` without the settings that only this engine has, which a broker rejects."""
        ours = {key.name for key in keys_of(LogConfig).values() if not key.is_kafkas}
        return {name: value for name, value in mapping.items() if name not in ours}

    @staticmethod
    def without_effect(mapping: Mapping[str, object]) -> list[str]:
        """Returns the keys in ``mapping``, of a topic or broker, that have no effect here, so that callers can warn."""
        keys = [key for config in (LogConfig, CleanerConfig) for key in keys_of(config).values() if key.has_effect]
        known = {key.name for key in keys} | {synonym.name for key in keys for synonym in key.synonyms}
        return [given for given in mapping if given not in known and given != CHECK_INTERVAL.name]

    @property
    def batch_size_max(self) -> int:
        """The largest batch that can be appended, in bytes with its header: allowed, and small enough for a segment."""
        return min(self.max_message_bytes, self.segment_bytes)

    @property
    def record_magic(self) -> int:
        """The message format of ``message.format.version``: 0, 1 or 2."""
        return _record_magic(self.message_format_version)

    @property
    def compact(self) -> bool:
        """Whether old values of a key are removed."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether segments are deleted by time and size."""
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """The age in ms at which a segment is closed, in time for max.compaction.lag.ms (LogConfig.maxSegmentMs)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms


@cache
def _record_magic(version: str) -> int:
    """Returns the message format of a version of Kafka (RecordVersion)."""
    major, minor = (int(each) for each in version.split("-", maxsplit=1)[0].split(".")[:2])
    return 2 if (major, minor) >= (0, 11) else int((major, minor) >= (0, 10))


# fmt: off
@dataclass(frozen=True)
class CleanerConfig:
    """Settings of compaction for all topics, which a broker has under the names ``log.cleaner.*``.

    Rejects values with which no compaction could work, even if Kafka sets no bounds.
    """

    threads: int = _key("log.cleaner.threads", INT, 1, Between(1),
        "Concurrent compactions; they share the buffers below.", "log.cleaner.threads")
    dedupe_buffer_size: int = _key("log.cleaner.dedupe.buffer.size", LONG, 128 << 20, Between(1),
        "Bytes for the maps from key to newest offset, 24 per key.", "log.cleaner.dedupe.buffer.size")
    io_buffer_size: int = _key("log.cleaner.io.buffer.size", INT, 512 << 10, Between(0),
        "Bytes for read and write buffers.", "log.cleaner.io.buffer.size")
    io_buffer_load_factor: float = _key("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, Between(0, 1),
        "How full a map may become before a compaction round ends early.", "log.cleaner.io.buffer.load.factor")
    io_max_bytes_per_second: float = _key("log.cleaner.io.max.bytes.per.second", DOUBLE, sys.float_info.max, Between(0),
        "Bytes read and written per second, by all compactions together.", "log.cleaner.io.max.bytes.per.second")
    backoff_ms: int = _key("log.cleaner.backoff.ms", LONG, 15_000, Between(0),
        "Pause when no log needs compaction.", "log.cleaner.backoff.ms")
    enable: bool = _key("log.cleaner.enable", BOOLEAN, True, ANYTHING,
        "Whether logs are compacted at all.", "log.cleaner.enable")
    # fmt: on

    def __post_init__(self) -> None:
        _check_all(self)

    @classmethod
    def from_mapping(cls, broker: Mapping[str, object]) -> Self:
        """Returns the config with a broker's settings; ignores keys that are not the cleaner's."""
        return cls(**_values(cls, broker))


def _did_you_mean(given: str) -> str:
    """Returns the end of an error about an unknown key: the topic's key for a broker's key, or a similar name."""
    topic_keys = keys_of(LogConfig).values()
    names = {synonym.name: key.name for key in topic_keys for synonym in key.synonyms}
    names |= {key.name: key.name for key in topic_keys}
    if given in names:
        return f": that is a broker's key; for a topic it is {names[given]}"
    near = nearest(given, names)
    return ": no topic key has a name like it" if near is None else f" (did you mean {names[near]!r}?)"
