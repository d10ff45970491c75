"""Settings that a group of Kafka 4 may have: session timeout and heartbeat interval (``GroupConfig`` of 4.3.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...storage import GROUP_KEYS, InvalidConfigError
from ..config import GatewayConfig

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
SettingsOf = Callable[[str], Mapping[str, str]]


def no_settings(group: str) -> Mapping[str, str]:
    """Returns the settings of a group where groups cannot have any: none."""
    return {}


class _Bounds(NamedTuple):
    setting: str  # the node's setting, for groups without a value of their own
    low: str
    high: str


BOUNDS: Mapping[str, _Bounds] = {
    SESSION: _Bounds(
        "group.consumer.session.timeout.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
    HEARTBEAT: _Bounds(
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
}


class GroupTimes:
    """The timeouts of groups: a group's own, within the node's bounds, or else the node's. For any thread."""

    def __init__(self, config: GatewayConfig, settings_of: SettingsOf) -> None:
        self._config, self._settings_of = config, settings_of

    def session_timeout_ms(self, group: str) -> int:
        """Returns for how long a member may send nothing."""
        return self._of(group, SESSION)

    def heartbeat_interval_ms(self, group: str) -> int:
        """Returns how often members send heartbeats."""
        return self._of(group, HEARTBEAT)

    def _of(self, group: str, name: str) -> int:
        of_node = _value(self._config, BOUNDS[name].setting)
        try:
            given = int(GROUP_KEYS[name].check(self._settings_of(group).get(name, of_node)))
        except InvalidConfigError:  # someone has edited the file
            return of_node
        low, high = (_value(self._config, each) for each in BOUNDS[name][1:])
        return given if given == of_node else max(low, min(given, high))  # the bounds may have changed since it was set


def check_group_settings(settings: Mapping[str, str], config: GatewayConfig) -> None:
    """Raises InvalidConfigError for settings that no group can have, like ``GroupConfigManager.validate``."""
    values = {}
    for name, text in settings.items():
        if name not in GROUP_KEYS:
            raise InvalidConfigError(f"Unknown group config name: {name}")
        values[name] = GROUP_KEYS[name].check(text)
    for name, value in values.items():
        _, low, high = BOUNDS[name]
        if value < _value(config, low):
            raise InvalidConfigError(f"{name} must be greater than or equal to {low}")
        if value > _value(config, high):
            raise InvalidConfigError(f"{name} must be less than or equal to {high}")
    session, heartbeat = (values.get(each, _value(config, BOUNDS[each].setting)) for each in (SESSION, HEARTBEAT))
    if session <= heartbeat:
        raise InvalidConfigError(f"{SESSION} must be greater than {HEARTBEAT}")


def _value(config: GatewayConfig, setting: str) -> int:
    return int(getattr(config, setting.replace(".", "_")))
