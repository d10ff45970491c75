"""The settings of a mirror's sources and of its target: what Kafka's tools call consumer.config and producer.config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from ...storage import InvalidConfigError, InvalidTopicError, check_topic_name, did_you_mean
from ..brokers import Cluster, FetchLimits
from .cluster_target import ClusterTargets
from .directory_target import DirectoryTargets
from .progress import progress_topic
from .sources import ClusterSources, Sources
from .targets import Targets

EARLIEST, LATEST, NONE = "earliest", "latest", "none"
_RESETS = {"smallest": EARLIEST, "largest": LATEST, EARLIEST: EARLIEST, LATEST: LATEST, NONE: NONE}
_LIMITS = {
    "fetch.max.bytes": "fetch_max_bytes",
    "max.partition.fetch.bytes": "max_partition_fetch_bytes",
    "fetch.max.wait.ms": "fetch_max_wait_ms",
}
_TIMEOUT = "transaction.timeout.ms"
TIMEOUT_MS = 60_000


@dataclass(frozen=True)
class SourceSettings:
    """A source: its group.id, by which the target knows the mirror's progress, and what opens it."""

    group: str
    reset: str  # where to begin without progress, and when the source has deleted what is next
    sources: Sources

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> Self:
        """Reads the settings of a consumer. Raises InvalidConfigError for one that is missing, wrong or unknown."""
        given = dict(settings)
        group = _required(given, "group.id", "a consumer.config")
        try:
            check_topic_name(progress_topic(group))
        except InvalidTopicError as error:
            raise InvalidConfigError(f"group.id {group!r} is part of the name of a topic: {error}") from None
        reset = given.pop("auto.offset.reset", EARLIEST)
        if reset not in _RESETS:
            raise InvalidConfigError(f"auto.offset.reset is {reset!r}; it must be {', '.join(_RESETS)}")
        if given.pop("isolation.level", "read_committed") != "read_committed":
            raise InvalidConfigError("a mirror reads committed records only: leave isolation.level out")
        limits = FetchLimits(**{field: _number(given, name) for name, field in _LIMITS.items() if name in given})
        servers = _required(given, "bootstrap.servers", "a consumer.config")
        return cls(group, _RESETS[reset], ClusterSources(Cluster.parse(servers, given), limits))


@dataclass(frozen=True)
class TargetSettings:
    """The target: a cluster, or a log directory."""

    targets: Targets

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> Self:
        """Reads the settings of a producer; ``log.dir`` in place of ``bootstrap.servers`` names a log directory.

        Raises InvalidConfigError for a setting that is missing, wrong or unknown.
        """
        given = dict(settings)
        timeout_ms = _number(given, _TIMEOUT) if _TIMEOUT in given else TIMEOUT_MS
        if "log.dir" not in given:
            servers = _required(given, "bootstrap.servers", "a producer.config")
            return cls(ClusterTargets(Cluster.parse(servers, given), timeout_ms))
        directory = given.pop("log.dir")
        for name in given:
            raise InvalidConfigError(
                f"a producer.config with log.dir takes {_TIMEOUT} only, not {name!r}{did_you_mean(name, [_TIMEOUT])}"
            )
        return cls(DirectoryTargets(directory, timeout_ms))


def _required(given: dict[str, str], name: str, whose: str) -> str:
    if not given.get(name):
        raise InvalidConfigError(f"{whose} needs {name}")
    return given.pop(name)


def _number(given: dict[str, str], name: str) -> int:
    text = given.pop(name)
    if not text.isdecimal() or not int(text):
        raise InvalidConfigError(f"{name} is {text!r}; it must be a positive whole number")
    return int(text)
