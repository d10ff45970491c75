"""Chooses the kind of source by the settings of a consumer."""

from __future__ import annotations

from collections.abc import Mapping

from ...storage import InvalidConfigError, did_you_mean
from ..brokers import Cluster, FetchLimits
from .kafka_0_8 import ZooKeeperSources
from .port import Sources
from .todays_wire import ClusterSources

_LIMITS = {
    "fetch.max.bytes": "fetch_max_bytes",
    "max.partition.fetch.bytes": "max_partition_fetch_bytes",
    "fetch.max.wait.ms": "fetch_max_wait_ms",
}
_OLD_LIMITS = {"fetch.message.max.bytes": "fetch_bytes", "fetch.wait.max.ms": "wait_ms"}


def sources_of(settings: Mapping[str, str]) -> Sources:
    """Returns the cluster that a consumer's settings name.

    ``bootstrap.servers`` names a cluster of today, ``zookeeper.connect`` one of Kafka 0.8. Raises InvalidConfigError
    for a setting that is missing, wrong or unknown.
    """
    given = dict(settings)
    if given.pop("isolation.level", "read_committed") != "read_committed":
        raise InvalidConfigError("only committed records are read here: remove isolation.level")
    if "zookeeper.connect" in given:
        return _by_zookeeper(given)
    limits = FetchLimits(**{field: number_of(given, name) for name, field in _LIMITS.items() if name in given})
    servers = required(given, "bootstrap.servers", "a consumer.config without zookeeper.connect")
    return ClusterSources(Cluster.parse(servers, given), limits)


def _by_zookeeper(given: dict[str, str]) -> Sources:
    """Returns a cluster by the settings of a consumer of Kafka 0.8."""
    connect = given.pop("zookeeper.connect")
    limits = {field: number_of(given, name) for name, field in _OLD_LIMITS.items() if name in given}
    for name in given:
        raise InvalidConfigError(
            f"unknown setting {name!r} of a consumer with zookeeper.connect{did_you_mean(name, _OLD_LIMITS)}"
        )
    return ZooKeeperSources(connect, **limits)


def required(given: dict[str, str], name: str, whose: str) -> str:
    """Removes a setting from ``given`` and returns it. Raises InvalidConfigError if it is missing."""
    if not given.get(name):
        raise InvalidConfigError(f"{whose} needs {name}")
    return given.pop(name)


def number_of(given: dict[str, str], name: str) -> int:
    """Removes a setting from ``given`` and returns it, a positive number.

    Raises InvalidConfigError for anything else.
    """
    text = given.pop(name)
    if not text.isdecimal() or not int(text):
        raise InvalidConfigError(f"{name} is {text!r}; it must be a positive whole number")
    return int(text)
