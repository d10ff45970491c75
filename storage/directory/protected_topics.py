"""Topics that only coordinators and brokers write: most changes are refused, and coordinators' stay compacted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ..config import LogConfig
from ..errors import InvalidConfigError, InvalidTopicError, PolicyViolationError
from ..format.internal.internal_topics import (
    GROUP_METADATA_TOPIC,
    REMOTE_LOG_METADATA_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from ..topic_rules import check_not_reserved

POLICY_KEY = "cleanup.policy"
# Kafka's list, from 3.9; every check whether a topic is internal uses it.
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC})
COORDINATOR_TOPICS: Mapping[str, Mapping[str, str]] = {  # the ones that our coordinators write, with their settings
    GROUP_METADATA_TOPIC: {POLICY_KEY: "compact", "segment.bytes": "104857600"},
    TRANSACTION_STATE_TOPIC: {POLICY_KEY: "compact", "segment.bytes": "104857600"},
}
_OF_A_BROKER = frozenset({REMOTE_LOG_METADATA_TOPIC})  # only a broker writes these, although they are not internal
_INSTEAD = {
    GROUP_METADATA_TOPIC: ". To set a group's offsets, use commitlog groups --reset-offsets; to forget it, --delete",
    TRANSACTION_STATE_TOPIC: ". To end a transaction, use commitlog transactions --abort",
}
# Default names of topics that Schema Registry and other Confluent tools, Connect, MirrorMaker and Streams always keep.
_OF_A_TOOL = re.compile(
    r"_.*|.*connect-?(configs|offsets|status)|mm2-.*\.internal|.*\.checkpoints\.internal|.*-changelog"
)


def is_protected(topic: str) -> bool:
    """Whether only coordinators or a broker write a topic.

    Maintenance and copies then select it only by its name, not by a pattern or with all.
    """
    return topic in INTERNAL_TOPICS or topic in _OF_A_BROKER


def is_state_of_a_tool(topic: str) -> bool:
    """Whether a tool keeps compacted state in a topic of this name; such state must not be deleted by age."""
    return not is_protected(topic) and _OF_A_TOOL.fullmatch(topic) is not None


def settled(topic: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings of a topic, with ``cleanup.policy=compact`` for a coordinator's, whatever was requested.

    These topics have the progress of queries and the decisions on transactions, each as the newest record of its key,
    which no retention may delete.
    """
    return {**settings, POLICY_KEY: "compact"} if topic in COORDINATOR_TOPICS else dict(settings)


def stays_compacted(topic: str, config: LogConfig) -> LogConfig:
    """Like :func:`settled`, for a parsed config.

    Such a topic also accepts records of Kafka's default size, whatever the default of the directory is: with a smaller
    limit, no commit would succeed.
    """
    if topic not in COORDINATOR_TOPICS:
        return config
    size = max(config.max_message_bytes, LogConfig().max_message_bytes)
    return replace(config, cleanup_policy=frozenset({"compact"}), max_message_bytes=size)


def check_stays_compacted(topic: str, settings: Mapping[str, str]) -> None:
    """Raises InvalidConfigError if ``settings`` give a coordinator's topic another ``cleanup.policy`` than compact."""
    if topic in COORDINATOR_TOPICS and settings.get(POLICY_KEY, "compact").strip() != "compact":
        raise InvalidConfigError(
            f"{POLICY_KEY} = {settings[POLICY_KEY]}: topic {topic!r} is internal and stays compacted, as it keeps the "
            "progress of queries and groups, and the decisions on transactions"
        )


def check_changeable(topic: str, what: str) -> None:
    """Raises PolicyViolationError for a protected topic, and InvalidTopicError for a reserved name.

    ``what`` names the requested change in the message.
    """
    check_not_reserved(topic)
    if topic in COORDINATOR_TOPICS:
        raise PolicyViolationError(
            f"topic {topic!r} is internal, and {what} is refused: it keeps the progress of queries and groups, or the "
            "decisions on transactions. To forget a group, use commitlog groups --delete"
        )
    if is_protected(topic):
        raise PolicyViolationError(
            f"topic {topic!r} is internal, and {what} is refused: a broker keeps its own state there"
        )


def check_takes_records(topic: str) -> None:
    """Raises InvalidTopicError for a protected topic or a reserved name, to which users must not write records.

    Readers treat each of its records as a coordinator's, so a wrong one hides progress stored beside it. A broker
    answers a client INVALID_TOPIC_EXCEPTION (``ReplicaManager.appendRecords``). Replicas, such as the mirror's, may
    copy batches of an internal topic.
    """
    check_not_reserved(topic)
    if is_protected(topic):
        raise InvalidTopicError(
            f"topic {topic!r} is internal, and writing records into it is refused: only coordinators do"
            f"{_INSTEAD.get(topic, '')}"
        )
