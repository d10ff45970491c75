"""Records of controllers and of remote storage, and control records, as Kafka's tool prints them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..errors import InvalidRecordError
from ..format.internal.control_records import ControlType, parse
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

TXN_INDEX = "txnIdxEmpty"  # printed from 4.0 on
_KRAFT = Messages("control")
KRAFT_LABELS = {  # what Kafka's tool prints before the content
    ControlType.LEADER_CHANGE: "LeaderChange",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlType.KRAFT_VERSION: "KRaftVersion",
    ControlType.KRAFT_VOTERS: "KRaftVoters",
}

Fields = Mapping[str, Any]


def control_fields(key: bytes, value: bytes) -> dict[str, object]:
    """Returns the content of a control record, by the names that Kafka's tool prints.

    Has ``endTxnMarker`` and ``coordinatorEpoch`` for a marker, else ``controlType``; for KRaft's records also
    their label with the decoded value, unless that does not decode. Raises InvalidRecordError for a bad key or marker.
    """
    kind, coordinator_epoch = parse(key, value)
    if coordinator_epoch is not None:
        return {"endTxnMarker": kind.name, "coordinatorEpoch": coordinator_epoch}
    number = int.from_bytes(key[2:4], "big", signed=True)
    found: dict[str, object] = {"controlType": f"{kind.name}({number})"}
    if kind in KRAFT_LABELS:
        with suppress(InvalidRecordError):
            found[KRAFT_LABELS[kind]] = _KRAFT.control(number, value).fields
    return found


def parse_cluster_metadata(offset: int, _: bytes | None, value: bytes | None) -> tuple[None, str]:
    """Returns (None, JSON of the value) for a record of ``__cluster_metadata``; an error as text instead of raising."""
    try:
        message = Messages("metadata").framed(value or b"")
    except InvalidRecordError as error:
        return None, f"Error at {offset}, skipping. {error}"
    type_ = _WORD.sub("_", message.name).upper()
    return None, json_text({"type": type_, "version": message.version, "data": message.fields})


def parse_remote_log_metadata(
    offset: int, _: bytes | None, value: bytes | None, *, hidden: Collection[str] = (TXN_INDEX,)
) -> tuple[None, str]:
    """Returns (None, text of the value) for a record of ``__remote_log_metadata``, without the ``hidden`` fields."""
    try:
        message = Messages("remote_log").framed(value or b"")
        return None, _remote(message, hidden)
    except InvalidRecordError as error:
        return None, f"Error at offset {offset}, skipping. {error}"


def _remote(message: Message, hidden: Collection[str]) -> str:
    if message.name not in _SHOWN:
        raise InvalidRecordError(f"{message.name} is not expected in this topic", position=0)
    name, parts = _SHOWN[message.name]
    shown = (f"{label}={text(message.fields)}" for label, text in parts.items() if label not in hidden)
    return f"{name}{{{', '.join(shown)}}}"


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
            TXN_INDEX: lambda fields: str(fields.get("txnIndexEmpty", False)).lower(),
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
