"""Which settings of nodes clients may change (``DynamicBrokerConfig.validateConfigs``), and where they are kept.

Settings of logs belong to the directory, which the nodes share, so they apply to all nodes. Limits of connections apply
to one node or to all; certificates belong to one listener of one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ....protocol.bodies import ErrorCode
from ....protocol.errors import RequestError
from ....storage import NODE_KEYS, InvalidConfigError, did_you_mean
from ...context import Context
from ...listeners import limits_of_addresses, parse_address_limits
from ...live_settings import for_listener, with_live
from ...security.listener import LISTENER_KEYS, listener_setting, made_tls
from ..brokers.kafka_settings import DYNAMIC, is_kafkas
from ..brokers.of_node import settings_of_logs
from .changes import Changes

_NOT_DYNAMIC = "Cannot update these configs dynamically"
_WITH_A_PREFIX = "These security configs can be dynamically updated only per-listener using the listener prefix"
_OF_ONE = "Cannot update these configs at default cluster level, broker id must be specified"


def is_of_node(name: str) -> bool:
    """Whether a setting belongs to one node, and not to all nodes that share its log."""
    return name in NODE_KEYS or listener_setting(name) is not None


def check_may_change(changes: Changes, *, of_all: bool) -> None:
    """Raises RequestError unless clients may make these changes. ``of_all``: for all nodes."""
    given = [name for name, value in changes.items() if value is not None]
    listeners = {name: found[1] for name in given if (found := listener_setting(name)) is not None}
    logs = settings_of_logs()
    _refuse(_NOT_DYNAMIC, (name for name in given if _is_fixed(listeners.get(name, name), logs)))
    _refuse(_WITH_A_PREFIX, (name for name in given if name in LISTENER_KEYS))
    unknown = [
        name for name in given if not (name in logs or name in NODE_KEYS or listeners.get(name) in LISTENER_KEYS)
    ]
    for name in unknown:
        hint = did_you_mean(name, sorted({*(DYNAMIC & {*logs}), *NODE_KEYS}))
        raise RequestError(ErrorCode.invalid_request, f"unknown broker config {name}{hint}")
    if of_all:
        _refuse(_OF_ONE, listeners)


def _is_fixed(name: str, logs: Mapping[str, object]) -> bool:
    """Whether a broker's setting cannot change while the gateway runs."""
    is_changed_here = name in NODE_KEYS or name in logs or name in LISTENER_KEYS
    return is_kafkas(name) and not (name in DYNAMIC and is_changed_here)


def _refuse(why: str, names: Iterable[str]) -> None:
    found = sorted(names)
    if found:
        raise RequestError(ErrorCode.invalid_request, f"{why}: Set({', '.join(found)})")


def check_values(context: Context, broker: Mapping[str, str], own: Mapping[str, str]) -> None:
    """Raises InvalidConfigError unless this node could use these settings of all nodes, and of itself."""
    config = with_live(context.config, broker, own)
    overrides = config.max_connections_per_ip_overrides
    try:
        limits_of_addresses(parse_address_limits("max.connections.per.ip.overrides", overrides))
    except OSError:
        raise InvalidConfigError(f"max.connections.per.ip.overrides = {overrides!r}: a name has no address") from None
    listeners = {each.name.lower(): each for each in config.all_listeners}
    for name in own:
        found = listener_setting(name)
        if found is None:
            continue
        listener = listeners.get(found[0])
        if listener is None or not listener.has_tls:
            raise InvalidConfigError(f"{name}: the node has no listener {found[0]} with TLS")
        made_tls(for_listener(config, own, listener))
