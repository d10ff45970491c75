"""Which committed offsets have expired (``GroupMetadata.removeExpiredOffsets`` of Kafka 3.9.1)."""

from __future__ import annotations

from collections.abc import Mapping

from ...storage import CONSUMER, SINK_PREFIX, OffsetCommitKey, OffsetCommitValue
from .group import NO_TIMESTAMP, Group, State

Offsets = Mapping[OffsetCommitKey, OffsetCommitValue]


def is_of_sink(key: object) -> bool:
    """Whether a record is the progress of one of Spark's sinks, which never expires and which clients cannot delete."""
    return isinstance(key, OffsetCommitKey) and key.topic.startswith(SINK_PREFIX)


def expired_offsets(group: Group | None, offsets: Offsets, now_ms: int, retention_ms: int) -> Offsets:
    """Returns the offsets of a group that have expired; ``group`` is None for a group that never had members.

    ``retention_ms`` runs from the time when the group became empty. For a group that never had members, and for topics
    that no member of a stable group is subscribed to, it runs from the commit. A commit with its own expiry time
    expires then.
    """
    if group is None or group.protocol_type is None:
        since_ms = None
    elif group.state is State.EMPTY:
        since_ms = None if group.state_since_ms == NO_TIMESTAMP else group.state_since_ms
    elif group.protocol_type == CONSUMER and group.subscribed is not None and group.state is State.STABLE:
        offsets = {key: value for key, value in offsets.items() if key.topic not in group.subscribed}
        since_ms = None
    else:
        return {}

    def has_expired(value: OffsetCommitValue) -> bool:
        if value.expire_timestamp != NO_TIMESTAMP:
            return now_ms >= value.expire_timestamp
        return now_ms - (value.commit_timestamp if since_ms is None else since_ms) >= retention_ms

    return {key: value for key, value in offsets.items() if has_expired(value) and not is_of_sink(key)}
