"""Internal topics, whose records only coordinators write: they stay compacted, and most changes are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ..config import LogConfig
from ..errors import InvalidConfigError, InvalidTopicError, PolicyViolationError
from ..format.internal.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

POLICY_KEY = "cleanup.policy"
INTERNAL_TOPICS: Mapping[str, Mapping[str, str]] = {
    GROUP_METADATA_TOPIC: {POLICY_KEY: "compact", "segment.bytes": "104857600"},
    TRANSACTION_STATE_TOPIC: {POLICY_KEY: "compact", "segment.bytes": "104857600"},
}
_OF_A_BROKER = frozenset({"__share_group_state", "__remote_log_metadata"})  # which only a broker writes
_INSTEAD = {
    GROUP_METADATA_TOPIC: ". To set a group's offsets, use commitlog groups --reset-offsets; to forget it, --delete",
    TRANSACTION_STATE_TOPIC: ". To end a transaction, use commitlog transactions --abort",
}
# Default names of topics that Schema Registry and other Confluent tools, Connect, MirrorMaker and Streams always keep.
_OF_A_TOOL = re.compile(
    r"_.*|.*connect-?(configs|offsets|status)|mm2-.*\.internal|.*\.checkpoints\.internal|.*-changelog"
)


def is_internal(topic: str) -> bool:
    """Whether a topic is internal; maintenance then selects it only by its name, not by a pattern or with all."""
    return topic in INTERNAL_TOPICS or topic in _OF_A_BROKER


def is_state_of_a_tool(topic: str) -> bool:
    """Whether the topic's name is one under which a tool keeps compacted state, which must not be deleted by age."""
    return not is_internal(topic) and _OF_A_TOOL.fullmatch(topic) is not None


def settled(topic: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings of a topic, with ``cleanup.policy=compact`` for an internal one, whatever was requested.

    Internal topics have the progress of queries and the decisions on transactions, as the newest record of a key, which
    no retention may delete.
    """
    return {**settings, POLICY_KEY: "compact"} if topic in INTERNAL_TOPICS else dict(settings)


def stays_compacted(topic: str, config: LogConfig) -> LogConfig:
    """Returns a config, with ``cleanup.policy=compact`` for an internal topic: as :func:`settled`, but parsed."""
    return replace(config, cleanup_policy=frozenset({"compact"})) if topic in INTERNAL_TOPICS else config


def check_stays_compacted(topic: str, settings: Mapping[str, str]) -> None:
    """Raises InvalidConfigError if ``settings`` give an internal topic another ``cleanup.policy`` than compact."""
    if topic in INTERNAL_TOPICS and settings.get(POLICY_KEY, "compact").strip() != "compact":
        raise InvalidConfigError(
            f"{POLICY_KEY} = {settings[POLICY_KEY]}: topic {topic!r} is internal and stays compacted, as it keeps the "
            "progress of queries and groups, and the decisions on transactions"
        )


def check_changeable(topic: str, what: str) -> None:
    """Raises PolicyViolationError for an internal topic; ``what`` names the requested change in the message."""
    if topic in INTERNAL_TOPICS:
        raise PolicyViolationError(
            f"topic {topic!r} is internal, and {what} is refused: it keeps the progress of queries and groups, or the "
            "decisions on transactions. To forget a group, use commitlog groups --delete"
        )
    if is_internal(topic):
        raise PolicyViolationError(
            f"topic {topic!r} is internal, and {what} is refused: a broker keeps its own state there"
        )


def check_takes_records(topic: str) -> None:
    """Raises InvalidTopicError for an internal topic, to which users must not write records.

    Readers take each of its records for a coordinator's, so a wrong one hides progress stored beside it. A broker
    answers a client INVALID_TOPIC_EXCEPTION (``ReplicaManager.appendRecords``). Replicas, such as the mirror's, may
    copy batches of an internal topic.
    """
    if is_internal(topic):
        raise InvalidTopicError(
            f"topic {topic!r} is internal, and writing records into it is refused: only coordinators do"
            f"{_INSTEAD.get(topic, '')}"
        )
