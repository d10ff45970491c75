"""Rules for topics, in a directory or on an object store: names, numbers of partitions, changes of settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .config import LIST, LogConfig, keys_of
from .errors import InvalidConfigError, InvalidTopicError, TopicExistsError
from .format.files.file_names import PARTITIONS_MAX, TopicPartition, check_topic_name, collides

# Offsets committed for a topic of this name, plus the topic's own, are the progress of a writer to that topic.
SINK_PREFIX = "__sink."
_SHOWN = 100  # characters of a refused name, which a client may have made much longer
CONTROLLERS_TOPIC = "__cluster_metadata"  # the log of Kafka's controllers, in directories of brokers
_LISTS = {key.name for key in keys_of(LogConfig).values() if key.kind is LIST}


def is_reserved(name: str) -> bool:
    """Whether writers keep their progress under this name, as offsets of a group, so that no topic may have it."""
    return name.startswith(SINK_PREFIX)


def progress_topic(partition: TopicPartition) -> str | None:
    """The topic in which a writer has the progress that is committed for a partition of a reserved name.

    None for other offsets, and for those that only have more ends of a topic of many partitions.
    """
    topic, number = partition
    return topic.removeprefix(SINK_PREFIX) if is_reserved(topic) and not number else None


def check_not_reserved(name: str) -> None:
    """Raises InvalidTopicError for a reserved name: with such a topic, others could change a writer's progress."""
    if is_reserved(name):
        raise InvalidTopicError(reserved_text(name))


def reserved_text(name: str) -> str:
    """Returns the sentence by which a change of a topic with a reserved name is refused."""
    return (
        f"topic name {name[:_SHOWN]!r} is reserved: names that begin with {SINK_PREFIX!r} stand for the progress of "
        "writers with a txnAppId, so no topic can have one, and only these writers commit offsets under it; choose "
        "another name"
    )


def check_new_name(name: str) -> None:
    """Raises InvalidTopicError, with the reason, unless a new topic may have the name."""
    check_topic_name(name)
    check_not_reserved(name)
    if name == CONTROLLERS_TOPIC:
        raise InvalidTopicError(
            f"topic name {name!r} is that of the log of Kafka's controllers: in a directory, records of such a topic "
            "would count as the settings of a broker; choose another name"
        )


def check_free(name: str, topics: Iterable[str], where: str = "") -> None:
    """Raises TopicExistsError if one of ``topics`` has the name, or one that Kafka's metrics cannot tell from it.

    ``where``: the place of the topics, for the message, such as " in /logs".
    """
    clash = next((other for other in topics if collides(name, other)), None)
    if clash is not None:
        why = "" if clash == name else f": {name!r} would have the same name in Kafka's metrics; choose another"
        raise TopicExistsError(f"topic {clash!r} exists{where}{why}")


def check_partitions(name: str, partitions: int) -> None:
    """Raises InvalidConfigError unless a new topic may have this many partitions."""
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise InvalidConfigError(
            f"topic {name!r} cannot have {partitions} partitions: give a number from 1 to {PARTITIONS_MAX}"
        )


def check_count(name: str, partitions: int, requested: int | None) -> None:
    """Raises TopicExistsError if a topic was requested with another number of partitions; None: any."""
    if requested not in (None, partitions):
        raise TopicExistsError(f"topic {name!r} has {partitions} partitions, but {requested} were requested")


def check_more_partitions(name: str, partitions: int, total: int) -> None:
    """Raises InvalidConfigError unless a topic with ``partitions`` partitions may get ``total``."""
    if not partitions < total <= PARTITIONS_MAX:
        raise InvalidConfigError(
            f"topic {name!r} has {partitions} partitions, so it cannot get {total}: give a number "
            f"from {partitions + 1} to {PARTITIONS_MAX}"
        )


def changed_configs(
    name: str, configs: Mapping[str, str], changes: Mapping[str, str | None], broker: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Returns a topic's settings after ``changes``; a value of None resets one. ``broker``: the defaults below them.

    Raises InvalidConfigError for an invalid setting, and for a reset of one that the topic does not have.
    """
    missing = [key for key, value in changes.items() if value is None and key not in configs]
    if missing:
        raise InvalidConfigError(f"topic {name!r} has no config {', '.join(missing)} of its own to reset")
    changed = {key: value for key, value in {**configs, **changes}.items() if value is not None}
    LogConfig.from_mapping(changed, broker=broker)
    return changed


def _is_same(key: str, one: str, other: str) -> bool:
    """Whether two values of a setting mean the same; the order of a list has no meaning."""
    return sorted(one.split(",")) == sorted(other.split(",")) if key in _LISTS else one == other


def check_requested(
    name: str, requested: Mapping[str, str], configs: Mapping[str, str], broker: Mapping[str, str] | None = None
) -> None:
    """Raises TopicExistsError if a topic with ``configs`` has another value of a requested setting.

    Without requested settings, the topic's own are not checked, so a topic with settings of a newer version can be
    used.
    """
    if not requested:
        return
    asked = LogConfig.from_mapping(requested).to_mapping()
    found = LogConfig.from_mapping(configs, broker=broker).to_mapping()
    for key in requested:
        if not _is_same(key, asked[key], found[key]):
            raise TopicExistsError(f"topic {name!r} has {key} = {found[key]}, but {asked[key]} was requested")
