"""The settings of a mirror's sources and target, which Kafka's tools call consumer.config and producer.config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ..classic.wire.connection import Address
from ..storage import InvalidConfigError, InvalidTopicError, check_topic_name, did_you_mean
from .brokers.cluster import Cluster
from .progress import progress_topic
from .sources.port import AnySources
from .sources.settings import all_sources_of, number_of, required
from .targets.kafka_0_8 import OldTargets
from .targets.log_directory import DirectoryTargets
from .targets.port import Targets
from .targets.todays_wire import ClusterTargets

EARLIEST, LATEST, NONE = "earliest", "latest", "none"
_RESETS = {"smallest": EARLIEST, "largest": LATEST, EARLIEST: EARLIEST, LATEST: LATEST, NONE: NONE}
_OLD_NAMES = {"groupid": "group.id", "autooffset.reset": "auto.offset.reset"}  # in 0.7
_TIMEOUT = "transaction.timeout.ms"
TIMEOUT_MS = 60_000
_OLD_LIMITS = {"message.max.bytes": "message_bytes_max", "request.timeout.ms": "timeout_ms"}


@dataclass(frozen=True)
class SourceSettings:
    """A source: its group.id, under which the target stores the mirror's progress, and how to open it."""

    group: str
    reset: str  # where to begin without progress, and when the source has deleted what is next
    sources: AnySources[Any, Any]

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> Self:
        """Parses a consumer's settings. Raises InvalidConfigError for one that is missing, wrong or unknown."""
        given = dict(settings)
        for old, name in _OLD_NAMES.items():
            if old in given and name in given:
                raise InvalidConfigError(f"{name} is given twice, by its names in Kafka 0.7 and in 0.8")
            if old in given:
                given[name] = given.pop(old)
        group = required(given, "group.id", "a consumer.config")
        try:
            check_topic_name(progress_topic(group))
        except InvalidTopicError as error:
            raise InvalidConfigError(
                f"group.id {group!r} cannot be part of the name of the progress topic: {error}"
            ) from None
        reset = given.pop("auto.offset.reset", EARLIEST)
        if reset not in _RESETS:
            raise InvalidConfigError(f"auto.offset.reset is {reset!r}; it must be {', '.join(_RESETS)}")
        return cls(group, _RESETS[reset], all_sources_of(given))


@dataclass(frozen=True)
class TargetSettings:
    """The target: a cluster, or a log directory."""

    targets: Targets

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> Self:
        """Parses a producer's settings.

        Instead of ``bootstrap.servers``, ``log.dir`` names a log directory, and ``metadata.broker.list`` brokers of
        Kafka 0.8.2 to 0.10.

        Raises InvalidConfigError for a setting that is missing, wrong or unknown.
        """
        given = dict(settings)
        if "metadata.broker.list" in given:
            return cls(_old_targets(given))
        timeout_ms = number_of(given, _TIMEOUT) if _TIMEOUT in given else TIMEOUT_MS
        if "log.dir" not in given:
            servers = required(given, "bootstrap.servers", "a producer.config")
            return cls(ClusterTargets(Cluster.parse(servers, given), timeout_ms))
        directory = given.pop("log.dir")
        for name in given:
            raise InvalidConfigError(
                f"a producer.config with log.dir takes {_TIMEOUT} only, not {name!r}{did_you_mean(name, [_TIMEOUT])}"
            )
        return cls(DirectoryTargets(directory, timeout_ms))


def _old_targets(given: dict[str, str]) -> OldTargets:
    addresses = tuple(Address.parse(each) for each in given.pop("metadata.broker.list").split(","))
    limits = {field: number_of(given, name) for name, field in _OLD_LIMITS.items() if name in given}
    for name in given:
        raise InvalidConfigError(
            f"unknown setting {name!r} of a producer.config with metadata.broker.list{did_you_mean(name, _OLD_LIMITS)}"
        )
    return OldTargets(addresses, **limits)
