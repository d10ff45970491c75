"""Records that brokers write for themselves, as Kafka's tool prints them: those of controllers and remote storage."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import InvalidRecordError
from ..format.internal.messages import Message, Messages
from .jackson import json_text

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SEGMENT_STATES = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
_PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")

Fields = Mapping[str, Any]


def parse_cluster_metadata(offset: int, _: bytes | None, value: bytes | None) -> tuple[None, str]:
    """A record of ``__cluster_metadata``."""
    try:
        message = Messages("metadata").framed(value or b"")
    except InvalidRecordError as error:
        return None, f"Error at {offset}, skipping. {error}"
    type_ = _WORD.sub("_", message.name).upper()
    return None, json_text({"type": type_, "version": message.version, "data": message.fields})


def parse_remote_log_metadata(offset: int, _: bytes | None, value: bytes | None) -> tuple[None, str]:
    """A record of ``__remote_log_metadata``, as written by Kafka's own implementation."""
    try:
        message = Messages("remote_log").framed(value or b"")
        return None, _remote(message)
    except InvalidRecordError as error:
        return None, f"Error at offset {offset}, skipping. {error}"


def _remote(message: Message) -> str:
    if message.name not in _SHOWN:
        raise InvalidRecordError(f"{message.name} is not expected in this topic", position=0)
    name, parts = _SHOWN[message.name]
    return f"{name}{{{', '.join(f'{label}={text(message.fields)}' for label, text in parts.items())}}}"


def _topic_partition(entry: Fields) -> str:
    return f"{entry['id']}:{entry['name']}-{entry['partition']}"


def _segment_id(fields: Fields) -> str:
    entry = fields["remoteLogSegmentId"]
    return f"RemoteLogSegmentId{{topicIdPartition={_topic_partition(entry['topicIdPartition'])}, id={entry['id']}}}"


def _custom(fields: Fields) -> str:
    data = fields["customMetadata"]
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _epochs(fields: Fields) -> str:
    by_epoch = sorted((each["leaderEpoch"], each["offset"]) for each in fields["segmentLeaderEpochs"])
    return f"{{{', '.join(f'{epoch}={offset}' for epoch, offset in by_epoch)}}}"


def _state(field: str, names: Sequence[str]) -> Callable[[Fields], str]:
    def name(fields: Fields) -> str:
        number = fields[field]
        if not 0 <= number < len(names):
            raise InvalidRecordError(f"{field} {number} is unknown, the last known is {len(names) - 1}", position=0)
        return names[number]

    return name


def _as_is(field: str) -> Callable[[Fields], str]:
    return lambda fields: str(fields[field])


_SEGMENT_STATE = _state("remoteLogSegmentState", _SEGMENT_STATES)
_SHOWN: Mapping[str, tuple[str, Mapping[str, Callable[[Fields], str]]]] = {  # by message: as Java's toString
    "RemoteLogSegmentMetadataRecord": (
        "RemoteLogSegmentMetadata",
        {
            "remoteLogSegmentId": _segment_id,
            "startOffset": _as_is("startOffset"),
            "endOffset": _as_is("endOffset"),
            "brokerId": _as_is("brokerId"),
            "maxTimestampMs": _as_is("maxTimestampMs"),
            "eventTimestampMs": _as_is("eventTimestampMs"),
            "segmentLeaderEpochs": _epochs,
            "segmentSizeInBytes": _as_is("segmentSizeInBytes"),
            "customMetadata": _custom,
            "state": _SEGMENT_STATE,
        },
    ),
    "RemoteLogSegmentMetadataUpdateRecord": (
        "RemoteLogSegmentMetadataUpdate",
        {
            "remoteLogSegmentId": _segment_id,
            "customMetadata": _custom,
            "state": _SEGMENT_STATE,
            "eventTimestampMs": _as_is("eventTimestampMs"),
            "brokerId": _as_is("brokerId"),
        },
    ),
    "RemotePartitionDeleteMetadataRecord": (
        "RemotePartitionDeleteMetadata",
        {
            "topicPartition": lambda fields: _topic_partition(fields["topicIdPartition"]),
            "state": _state("remotePartitionDeleteState", _PARTITION_STATES),
            "eventTimestampMs": _as_is("eventTimestampMs"),
            "brokerId": _as_is("brokerId"),
        },
    ),
}
