"""The settings of a mirror's sources and target, which Kafka's tools call consumer.config and producer.config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ...storage import InvalidConfigError, InvalidTopicError, check_topic_name, did_you_mean
from ..brokers import Cluster
from ..sources import AnySources, all_sources_of, number_of, required
from .cluster_target import ClusterTargets
from .directory_target import DirectoryTargets
from .progress import progress_topic
from .targets import Targets

EARLIEST, LATEST, NONE = "earliest", "latest", "none"
_RESETS = {"smallest": EARLIEST, "largest": LATEST, EARLIEST: EARLIEST, LATEST: LATEST, NONE: NONE}
_OLD_NAMES = {"groupid": "group.id", "autooffset.reset": "auto.offset.reset"}  # in 0.7
_TIMEOUT = "transaction.timeout.ms"
TIMEOUT_MS = 60_000


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
        """Parses a producer's settings; ``log.dir`` instead of ``bootstrap.servers`` names a log directory.

        Raises InvalidConfigError for a setting that is missing, wrong or unknown.
        """
        given = dict(settings)
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
