"""ShareOffsets: reads the progress of share groups from ``__share_group_state`` of Kafka 4's share coordinator.

A snapshot of a partition's state is followed by updates with the changes since the snapshot; after some
hundred updates, the next snapshot has a larger epoch. A group may have finished with records above its start offset;
the state has their number only.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from ..directory.manager import LogManager
from ..errors import InvalidRecordError, LogStoreError, kept_in
from ..format.internal.internal_topics import SHARE_STATE_TOPIC
from ..format.internal.messages import Messages
from .coordinator_logs import CoordinatorLogs

UNINITIALIZED = -1  # no offset was set, or no count is known

MESSAGES = Messages("share_state")


class _Kind(IntEnum):
    SNAPSHOT = 0
    UPDATE = 1


class _Key(NamedTuple):
    kind: int
    group: str
    topic_id: str
    partition: int


class ShareOffset(NamedTuple):
    """A share group's progress in a partition."""

    start_offset: int | None  # everything below was acknowledged; None: not begun
    finished: int | None  # records at or above it that were acknowledged, rejected or given up; None: unknown

    def lag(self, log_end_offset: int) -> int | None:
        """Returns the number of offsets that the group has not finished with, as Kafka 4 counts them; None: unknown."""
        if self.start_offset is None or self.finished is None:
            return None
        return log_end_offset - self.start_offset - self.finished


class ShareOffsets:
    """The progress of share groups in one log directory. The manager caches values."""

    def __init__(self, manager: LogManager) -> None:
        self._logs: CoordinatorLogs[_Key, bytes] = CoordinatorLogs(
            manager,
            SHARE_STATE_TOPIC,
            decode_key=_decode_key,
            decode_value=lambda _, data: data,
            name_of=lambda key: key.group,
        )

    def fetch(self, group: str, failures: list[LogStoreError] | None = None) -> dict[tuple[str, int], ShareOffset]:
        """Returns the group's progress, by topic id and partition.

        Raises LogStoreError if a partition cannot be read or a record does not decode; with ``failures``, adds the
        error to that list instead and omits the progress that it concerns.
        """
        records: dict[_Key, bytes] = {}
        for values in self._logs.each(failures):
            records.update((key, data) for key, data in values.items() if key.group == group)
        found = {}
        for key in (key for key in records if key.kind == _Kind.SNAPSHOT):
            with kept_in(failures):
                found[key.topic_id, key.partition] = _share_offset(key, records)
        return found


def _decode_key(data: bytes) -> _Key | None:
    found = MESSAGES.key(data)
    return None if found is None else _Key(found[0], *found[1].fields.values())


def _share_offset(key: _Key, records: Mapping[_Key, bytes]) -> ShareOffset:
    """Returns the progress in a snapshot record, with the changes of a later update that has the same epoch."""
    try:
        snapshot = MESSAGES.value(key.kind, records[key]).fields
        data = records.get(key._replace(kind=_Kind.UPDATE))
        update = {} if data is None else MESSAGES.value(_Kind.UPDATE, data).fields
    except InvalidRecordError as error:
        reason = f"{SHARE_STATE_TOPIC}: group {key.group!r}, {key.topic_id}-{key.partition}: {error.reason}"
        raise InvalidRecordError(reason, position=error.position) from error
    if update.get("snapshotEpoch") != snapshot["snapshotEpoch"]:
        update = {}
    return ShareOffset(*(_newest(name, update, snapshot) for name in ("startOffset", "deliveryCompleteCount")))


def _newest(name: str, *messages: Mapping[str, Any]) -> int | None:
    """Returns the field ``name`` of the first of ``messages`` that initializes it; None: no message does."""
    values = (each.get(name, UNINITIALIZED) for each in messages)
    return next((value for value in values if value != UNINITIALIZED), None)
