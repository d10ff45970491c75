"""The settings of this node under all names that a broker has, so that tools find those that they read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ....storage import CleanerConfig, Key, LogConfig, keys_of
from ...config import SECRETS, GatewayConfig, keys_of_gateway
from .kafka_settings import KafkaSetting, kafka_settings

_WITHOUT_EFFECT = "A setting of Kafka's brokers, which has no effect here; the value is Kafka's default."
_UNKNOWN = KafkaSetting(0, None)
_NO_DEFAULT = frozenset({"log.flush.interval.ms"})  # null on a broker, which means the interval of its scheduler
_FIXED = {  # what holds here, whatever a broker's default is
    "auto.leader.rebalance.enable": ("false", "Nodes lead partitions by the list of live nodes."),
    "controlled.shutdown.enable": ("true", "A node that ends leaves the list of nodes first."),
    "default.replication.factor": ("1", "A partition has one replica, in the directory that all nodes share."),
    "group.coordinator.rebalance.protocols": ("classic", "Groups use the classic protocol."),
    "max.incremental.fetch.session.cache.slots": ("0", "There are no fetch sessions: clients send whole requests."),
    "offsets.topic.replication.factor": ("1", "__consumer_offsets has one replica."),
    "process.roles": ("", "A gateway is no node of KRaft."),
    "remote.log.storage.system.enable": ("false", "Segments are not moved to another store."),
    "transaction.state.log.min.isr": ("1", "__transaction_state has one replica."),
    "transaction.state.log.replication.factor": ("1", "__transaction_state has one replica."),
}


class NodeSetting(NamedTuple):
    """A setting as DescribeConfigs shows it."""

    name: str
    value: str | None
    default: str | None
    type: int  # 0: that of ``key``
    key: Key | None  # None: a setting that the gateway does not have
    doc: str
    is_read_only: bool = True
    is_sensitive: bool = False


def node_settings(config: GatewayConfig, log_path: str, broker: Mapping[str, str]) -> list[NodeSetting]:
    """Returns all settings: a broker's, in its names' order, and those that only the gateway has.

    ``broker``: settings for all topics that are set in the directory; only such settings can be changed by clients.
    """
    own = {key.name: (key, getattr(config, field)) for field, key in keys_of_gateway().items()}
    places = dict.fromkeys(("log.dir", "log.dirs"), (log_path, "Where the log is."))
    fixed = {**_FIXED, **places, "broker.id": (str(config.node_id), "The id of this node.")}
    alterable = _alterable()
    found = []
    for name in dict.fromkeys([*kafka_settings(), *own, *broker]):
        known = kafka_settings().get(name, _UNKNOWN)
        if name in broker or (name in alterable and name not in own):
            found.append(_for_all(name, known, broker, alterable))
        elif name in own:
            found.append(_own(*own[name], known))
        elif name in fixed:
            value, doc = fixed[name]
            found.append(NodeSetting(name, value, known.default, known.type, None, doc))
        else:
            doc = _WITHOUT_EFFECT
            found.append(
                NodeSetting(name, known.default, known.default, known.type, None, doc, is_sensitive=known.is_sensitive)
            )
    return found


def _own(key: Key, value: Any, known: KafkaSetting) -> NodeSetting:
    default = _or_null(key.kind.render(key.default), known)
    if key.name in SECRETS or known.is_sensitive:
        return NodeSetting(key.name, None, None, known.type, key, key.doc, is_sensitive=True)
    return NodeSetting(key.name, _or_null(key.kind.render(value), known), default, known.type, key, key.doc)


def _or_null(text: str, known: KafkaSetting) -> str | None:
    """Returns a value; null for an empty one where a broker has null."""
    return None if not text and known is not _UNKNOWN and known.default is None else text


def _for_all(name: str, known: KafkaSetting, broker: Mapping[str, str], alterable: Mapping[str, Key]) -> NodeSetting:
    """Returns a setting for all topics, or of the cleaner."""
    key = alterable.get(name)
    default = known.default if key is None or name in _NO_DEFAULT else _default(name, key, known)
    doc = "" if key is None else key.doc
    return NodeSetting(name, broker.get(name, default), default, known.type, key, doc, is_read_only=False)


def _default(name: str, key: Key, known: KafkaSetting) -> str | None:
    """Returns the default of a setting for all topics: of several units of time, the one with the longest has it."""
    synonym = key.synonyms[-1]
    if name != synonym.name:
        return None
    default = key.default if len(key.synonyms) == 1 else key.default // synonym.convert(1)
    rendered = key.kind.render(default)
    return known.default if _is_same(rendered, known.default) else rendered


def _is_same(ours: str, kafkas: str | None) -> bool:
    """Whether two values are the same number, which Java may write in another way."""
    try:
        return kafkas is not None and float(ours) == float(kafkas)
    except ValueError:
        return ours == kafkas


def _alterable() -> dict[str, Key]:
    """Returns the topic's or cleaner's key for each setting for all topics, by its name."""
    keys = (*keys_of(CleanerConfig).values(), *keys_of(LogConfig).values())
    return {synonym.name: key for key in keys for synonym in key.synonyms}
