"""Chooses the kind of source by the settings of a consumer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...classic.wire.connection import Address
from ...storage import InvalidConfigError, did_you_mean, parse_names
from ..brokers.cluster import Cluster
from ..brokers.requests import FetchLimits
from .kafka_0_7 import BrokerSources, Finder, Listed, Registered
from .kafka_0_8 import ZooKeeperSources
from .log_directory import DirectorySources
from .port import AnySources, Sources
from .todays_wire import ClusterSources

_LIMITS = {
    "fetch.max.bytes": "fetch_max_bytes",
    "max.partition.fetch.bytes": "max_partition_fetch_bytes",
    "fetch.max.wait.ms": "fetch_max_wait_ms",
}
_OLD_LIMITS = {"fetch.message.max.bytes": "fetch_bytes", "fetch.wait.max.ms": "wait_ms"}
_OLDEST_LIMITS = {"fetch.size": "fetch_bytes", "fetcher.backoff.ms": "pause_ms", "socket.timeout.ms": "timeout_ms"}
_DIRECTORY_LIMITS = {"max.partition.fetch.bytes": "fetch_bytes", "fetch.max.wait.ms": "wait_ms"}


def sources_of(settings: Mapping[str, str]) -> Sources:
    """Returns the cluster that a consumer's settings name.

    ``bootstrap.servers`` names a cluster of today, ``zookeeper.connect`` one of Kafka 0.8. Raises InvalidConfigError
    for a setting that is missing, wrong or unknown.
    """
    given = dict(settings)
    if given.pop("isolation.level", "read_committed") != "read_committed":
        raise InvalidConfigError("only committed records are read here: remove isolation.level")
    if "zookeeper.connect" in given:
        connect = given.pop("zookeeper.connect")
        return ZooKeeperSources(connect, **_limits(given, _OLD_LIMITS, "a consumer with zookeeper.connect"))
    limits = FetchLimits(**{field: number_of(given, name) for name, field in _LIMITS.items() if name in given})
    servers = required(given, "bootstrap.servers", "a consumer.config without zookeeper.connect")
    return ClusterSources(Cluster.parse(servers, given), limits)


def all_sources_of(settings: Mapping[str, str]) -> AnySources[Any, Any]:
    """Returns as :func:`sources_of` a cluster, and also brokers of Kafka 0.7 or a log directory.

    ``zk.connect`` and ``broker.list`` name such brokers, ``log.dir`` a directory.
    """
    given = dict(settings)
    if "log.dir" in given:
        directory = given.pop("log.dir")
        return DirectorySources(directory, **_limits(given, _DIRECTORY_LIMITS, "a consumer with log.dir"))
    for name in ("zk.connect", "broker.list"):
        if name in given:
            finder = Registered(given.pop(name)) if name == "zk.connect" else _listed(given)
            return BrokerSources(finder, **_limits(given, _OLDEST_LIMITS, f"a consumer with {name}"))
    return sources_of(given)


def _listed(given: dict[str, str]) -> Finder:
    brokers = {}
    for entry in given.pop("broker.list").split(","):
        broker, _, address = entry.strip().partition(":")
        if not broker.isdecimal():
            raise InvalidConfigError(
                f"broker.list: {entry!r} is no broker: expected id:host:port, such as 0:localhost:9092"
            )
        brokers[int(broker)] = Address.parse(address)
    names = required(given, "topics", "a consumer.config with broker.list, whose brokers do not tell their topics,")
    return Listed(brokers, tuple(parse_names("topics", [names])))


def _limits(given: dict[str, str], names: Mapping[str, str], whose: str) -> dict[str, int]:
    """Takes all limits out of ``given``, by fields. Raises InvalidConfigError for what is left."""
    found = {field: number_of(given, name) for name, field in names.items() if name in given}
    for name in given:
        raise InvalidConfigError(f"unknown setting {name!r} of {whose}{did_you_mean(name, names)}")
    return found


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
