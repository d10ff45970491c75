"""The settings for all topics of a directory, by the names of a broker's keys (Kafka's dynamic cluster-wide defaults).

They are in ``topics.json`` under ``broker``, beside those of single nodes and groups, and rank as Kafka's
``kafka-configs --entity-type brokers --entity-default``: below those of a topic, above the defaults. A directory
without ``topics.json`` has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..config import CHECK_INTERVAL, CHECK_INTERVAL_MS, CleanerConfig, LogConfig, keys_of
from ..errors import InvalidConfigError, PolicyViolationError, TopicSettingError, did_you_mean
from ..node_config import NODE_KEYS
from .given_settings import config_of
from .manager import LogManager
from .topics_file import Owner

Changes = Mapping[str, str | None]  # None: back to the default

OWNERS_MAX = 10_000  # nodes, or groups, with settings of their own: the file is replaced as a whole

BROKER_KEYS = frozenset(
    [
        CHECK_INTERVAL.name,
        *(
            synonym.name
            for config in (LogConfig, CleanerConfig)
            for key in keys_of(config).values()
            for synonym in key.synonyms
        ),
    ]
)
_OF_TOPICS = {key.name: key for key in keys_of(LogConfig).values()}


def check_broker_settings(settings: Mapping[str, str]) -> None:
    """Raises InvalidConfigError for an invalid value or an unknown key, with the most similar known key."""
    for name in settings:
        if name not in BROKER_KEYS and name not in NODE_KEYS:
            raise InvalidConfigError(f"unknown broker config {name}{_meant(name)}")
        if name in NODE_KEYS:
            NODE_KEYS[name].check(settings[name])
    LogConfig.from_mapping({}, broker=settings)
    CleanerConfig.from_mapping(settings)
    check_interval_ms(settings)


def check_interval_ms(broker: Mapping[str, str]) -> int:
    """Returns ``log.retention.check.interval.ms``, the time between two runs of retention, from a broker's settings.

    Defaults to Kafka's. Raises InvalidConfigError for an invalid value.
    """
    if CHECK_INTERVAL.name not in broker:
        return CHECK_INTERVAL_MS
    found: int = CHECK_INTERVAL.read(broker[CHECK_INTERVAL.name])
    return found


def alter_broker_settings(manager: LogManager, changes: Changes, *, dry_run: bool = False) -> dict[str, str]:
    """Changes settings for all topics of a directory, by a broker's keys; a value of None resets one.

    Returns all such settings; durable. With ``dry_run``, changes nothing. A process that has logs open keeps the
    settings with which it opened them. Raises InvalidConfigError for an invalid setting, for a reset of one that is not
    set, and if a topic's own settings contradict a change, LogDirLockedError while a broker runs here, and
    PolicyViolationError for a log on an object store, where topics have settings only.
    """
    _check_local(manager)
    if dry_run:
        return _altered(manager, changes)
    manager.check_writable()
    with manager.root_lock():
        settings = _altered(manager, changes)
        manager.describe_topics(manager.described_topics(), settings)
        return settings


def alter_own_settings(
    manager: LogManager,
    owner: Owner,
    name: str,
    changes: Changes,
    check: Callable[[Mapping[str, str]], None],
    *,
    for_all: Changes | None = None,
    dry_run: bool = False,
) -> dict[str, str]:
    """Changes a node's or a group's own settings; a value of None resets one.

    ``check`` is called with all its new settings, and raises an error for an invalid one. ``for_all``: changes of
    settings for all topics, at the same moment. Returns all its new settings; durable. With ``dry_run``, changes
    nothing. Raises the errors of ``check`` and of :func:`alter_broker_settings`; PolicyViolationError also if too many
    nodes or groups have settings of their own.
    """
    _check_local(manager)
    if dry_run:
        return _altered_own(manager, owner, name, changes, check, for_all)[0]
    manager.check_writable()
    with manager.root_lock():
        own, broker = _altered_own(manager, owner, name, changes, check, for_all)
        of_all = {**manager.topics_file().owned.get(owner, {}), name: own}
        of_all = {each: settings for each, settings in of_all.items() if settings}
        if own and len(of_all) > OWNERS_MAX:
            raise PolicyViolationError(f"only {OWNERS_MAX} {owner.value} may have settings of their own")
        owned = {**manager.topics_file().owned, owner: of_all}
        manager.describe_topics(manager.described_topics(), broker, owned)
        return own


def _altered_own(
    manager: LogManager,
    owner: Owner,
    name: str,
    changes: Changes,
    check: Callable[[Mapping[str, str]], None],
    for_all: Changes | None,
) -> tuple[dict[str, str], dict[str, str] | None]:
    own = _merged(manager.topics_file().owned_by(owner, name), changes)
    check(own)
    return own, _altered(manager, for_all) if for_all else None


def _check_local(manager: LogManager) -> None:
    if manager.bucket is not None:
        raise PolicyViolationError("a log on an object store has no settings for all topics; set them for each topic")


def _merged(before: Mapping[str, str], changes: Changes) -> dict[str, str]:
    return {key: value for key, value in {**before, **changes}.items() if value is not None}


def _altered(manager: LogManager, changes: Changes) -> dict[str, str]:
    before = manager.broker_settings()
    missing = [key for key, value in changes.items() if value is None and key not in before]
    if missing:
        raise InvalidConfigError(f"the directory has no config {', '.join(missing)} for all topics to reset")
    settings = _merged(before, changes)
    check_broker_settings(settings)
    for topic in manager.described_topics().values():
        try:
            config_of(topic, {}, settings)
        except InvalidConfigError as error:
            raise TopicSettingError(topic.name, str(error)) from None
    return settings


def _meant(name: str) -> str:
    key = _OF_TOPICS.get(name)
    if key is not None and key.synonyms:
        return f": that is a topic's key; for a broker it is {key.synonyms[0].name}"
    return did_you_mean(name, sorted(BROKER_KEYS))
