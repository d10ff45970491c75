"""What may be changed of topics: each function proposes a commit on a state, or refuses."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from ..config import LogConfig
from ..errors import InvalidConfigError, TopicExistsError, UnknownTopicOrPartitionError
from ..format.files import checkpoints, file_names
from .commits.commit import TopicChange
from .commits.state import State, Topic


def find_topic(state: State, name: str) -> Topic:
    """Returns a topic. Raises UnknownTopicOrPartitionError."""
    if name not in state.topic_ids:
        raise UnknownTopicOrPartitionError(f"there is no topic {name!r}")
    return state.topics[state.topic_ids[name]]


def create_topic(state: State, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> TopicChange:
    """Proposes a new topic, with an id of its own.

    Raises InvalidTopicError, InvalidConfigError, and TopicExistsError also for a name that Kafka's metrics cannot tell
    from another.
    """
    file_names.check_topic_name(name)
    LogConfig.from_mapping(configs or {})
    if not 1 <= partitions <= file_names.PARTITIONS_MAX:
        raise InvalidConfigError(
            f"topic {name!r} cannot have {partitions} partitions: give a number from 1 to {file_names.PARTITIONS_MAX}"
        )
    clash = next((other for other in state.topic_ids if file_names.collides(name, other)), None)
    if clash is not None:
        why = "" if clash == name else f": {name!r} would have the same name in Kafka's metrics; choose another"
        raise TopicExistsError(f"topic {clash!r} exists{why}")
    return TopicChange("create", name, checkpoints.encode_id(uuid4()), partitions, dict(configs or {}))


def ensure_topic(
    state: State, name: str, partitions: int | None = None, configs: Mapping[str, str] | None = None
) -> TopicChange | None:
    """Proposes a topic if it is missing, with one partition by default; None if it is there.

    Raises TopicExistsError if the topic has another number of partitions or other ``configs``; None: any.
    """
    if name not in state.topic_ids:
        return create_topic(state, name, partitions or 1, configs)
    topic = find_topic(state, name)
    if partitions not in (None, topic.partitions):
        raise TopicExistsError(f"topic {name!r} exists with {topic.partitions} partitions, not {partitions}")
    if configs is not None and dict(configs) != dict(topic.configs):
        raise TopicExistsError(f"topic {name!r} exists with the settings {dict(topic.configs)}, not {dict(configs)}")
    return None


def alter_configs(state: State, name: str, changes: Mapping[str, str | None]) -> TopicChange:
    """Proposes other settings; a value of None resets one. Raises UnknownTopicOrPartitionError, InvalidConfigError."""
    topic = find_topic(state, name)
    missing = [key for key, value in changes.items() if value is None and key not in topic.configs]
    if missing:
        raise InvalidConfigError(f"topic {name!r} has no config {', '.join(missing)} of its own to reset")
    configs = {key: value for key, value in {**topic.configs, **changes}.items() if value is not None}
    LogConfig.from_mapping(configs)
    return TopicChange("alter", name, topic.topic_id, configs=configs)


def add_partitions(state: State, name: str, total: int) -> TopicChange:
    """Proposes more partitions, so that there are ``total``. Raises as :func:`alter_configs`."""
    topic = find_topic(state, name)
    if not topic.partitions < total <= file_names.PARTITIONS_MAX:
        raise InvalidConfigError(
            f"topic {name!r} has {topic.partitions} partitions, so it cannot get {total}: give a number from "
            f"{topic.partitions + 1} to {file_names.PARTITIONS_MAX}"
        )
    return TopicChange("partitions", name, topic.topic_id, total)


def delete_topic(state: State, name: str) -> TopicChange:
    """Proposes to delete a topic, its records and the offsets of groups for it. Raises UnknownTopicOrPartitionError."""
    return TopicChange("delete", name, find_topic(state, name).topic_id)
