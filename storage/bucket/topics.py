"""Changes of topics: each function proposes a commit on a state, or raises an error."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from ..config import LogConfig
from ..errors import InvalidConfigError, UnknownTopicOrPartitionError
from ..format.files import checkpoints
from ..topic_rules import (
    changed_configs,
    check_count,
    check_free,
    check_more_partitions,
    check_new_name,
    check_not_reserved,
    check_partitions,
    check_requested,
)
from .commits.commit import TopicChange
from .commits.state import State, Topic
from .staging import BATCH_BYTES_MAX


def find_topic(state: State, name: str) -> Topic:
    """Returns a topic. Raises UnknownTopicOrPartitionError."""
    if name not in state.topic_ids:
        raise UnknownTopicOrPartitionError(f"there is no topic {name!r}")
    return state.topics[state.topic_ids[name]]


def create_topic(
    state: State,
    name: str,
    partitions: int,
    configs: Mapping[str, str] | None = None,
    *,
    topic_id: str | None = None,
) -> TopicChange:
    """Proposes a new topic; ``topic_id`` defaults to a new one.

    Raises InvalidTopicError, InvalidConfigError, and TopicExistsError also for a name that Kafka's metrics cannot tell
    from another.
    """
    check_new_name(name)
    check_configs(configs or {})
    check_partitions(name, partitions)
    check_free(name, state.topic_ids)
    return TopicChange("create", name, topic_id or checkpoints.encode_id(uuid4()), partitions, dict(configs or {}))


def check_configs(configs: Mapping[str, str]) -> None:
    """Raises InvalidConfigError for settings that no topic, or no topic on an object store, can have."""
    _check_bounds(configs, LogConfig.from_mapping(configs))


def _check_bounds(given: Mapping[str, str | None], config: LogConfig) -> None:
    """Raises InvalidConfigError if a ``given`` setting cannot be fulfilled on an object store."""
    if given.get("max.message.bytes") is not None and config.max_message_bytes > BATCH_BYTES_MAX:
        raise InvalidConfigError(
            f"max.message.bytes = {config.max_message_bytes}: must be at most {BATCH_BYTES_MAX} on an object store, "
            "because a record batch is put by one request"
        )


def ensure_topic(
    state: State, name: str, partitions: int | None = None, configs: Mapping[str, str] | None = None
) -> TopicChange | None:
    """Proposes a topic if it is missing, with one partition by default; None if it exists.

    Raises TopicExistsError if the topic has another number of partitions, or other values of ``configs``; None: any.
    """
    if name not in state.topic_ids:
        return create_topic(state, name, partitions or 1, configs)
    topic = find_topic(state, name)
    check_count(name, topic.partitions, partitions)
    check_requested(name, configs or {}, topic.configs)
    return None


def alter_configs(state: State, name: str, changes: Mapping[str, str | None]) -> TopicChange:
    """Proposes changed settings; a value of None resets a setting to its default.

    Raises UnknownTopicOrPartitionError, InvalidConfigError.
    """
    topic = find_topic(state, name)
    configs = changed_configs(name, topic.configs, changes)
    _check_bounds(changes, LogConfig.from_mapping(configs))
    return TopicChange("alter", name, topic.topic_id, configs=configs)


def add_partitions(state: State, name: str, total: int) -> TopicChange:
    """Proposes more partitions, so that there are ``total``. Raises the errors of :func:`alter_configs`."""
    topic = find_topic(state, name)
    check_more_partitions(name, topic.partitions, total)
    return TopicChange("partitions", name, topic.topic_id, total)


def delete_topic(state: State, name: str) -> TopicChange:
    """Proposes to delete a topic, its records and the offsets of groups for it.

    Raises UnknownTopicOrPartitionError, and InvalidTopicError for a reserved name, whose offsets are not the topic's.
    """
    check_not_reserved(name)
    return TopicChange("delete", name, find_topic(state, name).topic_id)
