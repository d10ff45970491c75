"""The settings of this node under all names that a broker has, so that tools find the settings they read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ....storage import NODE_KEYS, CleanerConfig, Key, LogConfig, keys_of
from ...config import SECRETS, GatewayConfig, keys_of_gateway
from ...security.listener import listener_setting
from .kafka_settings import DYNAMIC, KafkaSetting, kafka_settings

_WITHOUT_EFFECT = "A setting of Kafka's brokers, which has no effect here; the value is Kafka's default."
_UNKNOWN = KafkaSetting(0, None)
_NO_DEFAULT = frozenset({"log.flush.interval.ms"})  # null on a broker, which means the interval of its scheduler
_FIXED = {  # the value here, whatever a broker's default is
    "auto.leader.rebalance.enable": ("false", "Nodes lead partitions by the list of live nodes."),
    "controlled.shutdown.enable": ("true", "A node that ends leaves the list of nodes first."),
    "default.replication.factor": ("1", "A partition has one replica, in the directory that all nodes share."),
    "offsets.topic.replication.factor": ("1", "__consumer_offsets has one replica."),
    "process.roles": ("", "A gateway is no node of KRaft."),
    "remote.log.storage.system.enable": ("false", "Segments are not moved to another store."),
    "transaction.state.log.min.isr": ("1", "__transaction_state has one replica."),
    "transaction.state.log.replication.factor": ("1", "__transaction_state has one replica."),
}


class NodeSetting(NamedTuple):
    """A setting as DescribeConfigs shows it, without what clients have set."""

    name: str
    started_with: str | None  # None: the default
    default: str | None
    type: int  # 0: that of ``key``
    key: Key | None  # None: a setting that the gateway does not have
    doc: str
    is_read_only: bool = True
    is_sensitive: bool = False

    @property
    def names(self) -> Sequence[str]:
        """The names that set this value: in other units, or the setting that a listener overrides; the first counts."""
        of_listener = listener_setting(self.name)
        if of_listener is not None:
            return [self.name, of_listener[1]]
        synonyms = () if self.key is None else self.key.synonyms
        return [each.name for each in synonyms] if any(each.name == self.name for each in synonyms) else [self.name]


def node_settings(config: GatewayConfig, log_path: str, set_by_clients: Iterable[str] = ()) -> list[NodeSetting]:
    """Returns all settings: first a broker's, by name, then those of the gateway alone, then ``set_by_clients``."""
    own = {key.name: (key, getattr(config, field)) for field, key in keys_of_gateway().items()}
    places = dict.fromkeys(("log.dir", "log.dirs"), (log_path, "Where the log is."))
    fixed = {**_FIXED, **places, "broker.id": (str(config.node_id), "The id of this node.")}
    alterable = settings_of_logs()
    found = []
    for name in dict.fromkeys([*kafka_settings(), *own, *set_by_clients]):
        known = kafka_settings().get(name, _UNKNOWN)
        if name in alterable and name not in own:
            found.append(_for_all(name, known, alterable[name]))
        elif name in own:
            found.append(_own(*own[name], known))
        elif (of_listener := listener_setting(name)) is not None and of_listener[1] in own:
            key = own[of_listener[1]][0]
            found.append(NodeSetting(name, None, None, kafka_settings()[key.name].type, key, key.doc, False))
        elif name in fixed:
            value, doc = fixed[name]
            started_with = None if value == known.default else value
            found.append(NodeSetting(name, started_with, known.default, known.type, None, doc))
        else:
            doc, secret = _WITHOUT_EFFECT, known.is_sensitive
            found.append(NodeSetting(name, None, known.default, known.type, None, doc, is_sensitive=secret))
    return found


def _own(key: Key, value: Any, known: KafkaSetting) -> NodeSetting:
    default = _or_null(key.kind.render(key.default), known)
    if key.name in SECRETS or known.is_sensitive:
        return NodeSetting(key.name, None, None, known.type, key, key.doc, is_sensitive=True)
    rendered, is_fixed = _or_null(key.kind.render(value), known), key.name not in NODE_KEYS
    started_with = None if rendered == default else rendered
    return NodeSetting(key.name, started_with, default, known.type, key, key.doc, is_fixed)


def _or_null(text: str, known: KafkaSetting) -> str | None:
    """Returns a value; null for an empty one where a broker has null."""
    return None if not text and known is not _UNKNOWN and known.default is None else text


def _for_all(name: str, known: KafkaSetting, key: Key) -> NodeSetting:
    """Returns a setting for all topics, or of the cleaner."""
    default = known.default if name in _NO_DEFAULT else _default(name, key, known)
    return NodeSetting(name, None, default, known.type, key, key.doc, is_read_only=name not in DYNAMIC)


def _default(name: str, key: Key, known: KafkaSetting) -> str | None:
    """Returns the default of a setting for all topics. If it exists in several units, only the longest has one."""
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


def settings_of_logs() -> dict[str, Key]:
    """Returns the topic's or cleaner's key for each setting for all topics, by its name."""
    keys = (*keys_of(CleanerConfig).values(), *keys_of(LogConfig).values())
    return {synonym.name: key for key in keys for synonym in key.synonyms}
