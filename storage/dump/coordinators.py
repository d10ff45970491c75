"""Records of coordinators' topics as Kafka's tool prints them: JSON, by their schemas.

Records of types that Kafka 3.9.1 knows are printed as Kafka 3.9.1 does, later types as Kafka 4.3.1 does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InvalidRecordError
from ..format.internal.internal_topics import CONSUMER, GROUP_METADATA
from ..format.internal.message_schema import INT32, Array, Bytes, Field, FieldDecoder, String, Struct
from ..format.internal.messages import Messages
from .jackson import json_text

DELETED = "<DELETE>"  # printed for a null value, a tombstone

_TOPIC_PARTITIONS = Array(Struct(dict, (Field("topic", String()), Field("partitions", Array(INT32)))))
_FROM_1, _FROM_2, _FROM_3 = (range(first, 100) for first in (1, 2, 3))
_SUBSCRIPTION = Struct(  # ConsumerProtocolSubscription, versions 0 to 3; later ones begin like 3
    dict,
    (
        Field("topics", Array(String())),
        Field("userData", Bytes(nullable=True)),
        Field("ownedPartitions", _TOPIC_PARTITIONS, _FROM_1),
        Field("generationId", INT32, _FROM_2),
        Field("rackId", String(nullable=True), _FROM_3),
    ),
)
_ASSIGNMENT = Struct(  # ConsumerProtocolAssignment
    dict, (Field("assignedPartitions", _TOPIC_PARTITIONS), Field("userData", Bytes(nullable=True)))
)


class CoordinatorRecords:
    """Parses the records of one coordinator's topic."""

    def __init__(self, messages: str) -> None:
        """``messages``: the name of the file with the schemas of these records (``format.messages``)."""
        self._messages = Messages(messages)

    def __call__(self, offset: int, key: bytes | None, value: bytes | None) -> tuple[str, str | None]:
        if key is None:
            raise InvalidRecordError(f"the record at offset {offset} has no key, which internal topics require")
        try:
            found = self._messages.key(key)
            if found is None:
                return f"Unknown record type {version_of(key)} at offset {offset}, skipping.", None
            kind, message = found
            key_text = json_text({"type": str(kind), "data": message.fields})
            return key_text, DELETED if value is None else self._value(kind, value)
        except InvalidRecordError as error:
            return f"Error at offset {offset}, skipping. {error}", None

    def _value(self, kind: int, data: bytes) -> str:
        message = self._messages.value(kind, data)
        is_of_consumers = message.name == GROUP_METADATA and message.fields["protocolType"] == CONSUMER
        shown = _with_protocol(message.fields) if is_of_consumers else message.fields
        return json_text({"version": str(message.version), "data": shown})


def version_of(data: bytes) -> int:
    """Returns the version at the beginning of a key or value."""
    return int.from_bytes(data[:2], "big", signed=True)


def _with_protocol(group: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a group of consumers with the subscriptions and assignments of its members decoded."""
    members = [
        {
            **member,
            "subscription": _embedded(member["subscription"], _SUBSCRIPTION),
            "assignment": _embedded(member["assignment"], _ASSIGNMENT),
        }
        for member in group["members"]
    ]
    return {**group, "members": members}


def _embedded(data: bytes, layout: Struct) -> Any:
    """Returns the decoded value of ``data``; ``data`` itself if it does not decode."""
    try:
        reader = FieldDecoder(data, flexible=False)
        return layout.read(reader, reader.fixed("h"))
    except InvalidRecordError:
        return data
