"""Manifests of Aiven's plugin, version 1 (``SegmentManifestV1``), in JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...errors import CorruptionError
from ...format.files import checkpoints, file_names as names
from ..metadata_records import SegmentEpoch, SegmentMetadata, SegmentState, TopicIdPartition
from .chunk_index import ChunkIndex, parse_chunk_index

MANIFEST_BYTES_MAX = 64 << 20
VERSION = "1"
_INDEXES = {
    names.INDEX: "offset",
    names.TIME_INDEX: "timestamp",
    names.SNAPSHOT: "producerSnapshot",
    names.EPOCHS: "leaderEpoch",
    names.TXN_INDEX: "transaction",
}


class Encryption(NamedTuple):
    """The encryption of a segment: AES-256 in GCM, with a key of its own."""

    key_id: str  # names the pair of RSA keys that the segment's key is encrypted with
    encrypted_key: bytes
    aad: bytes  # additional authenticated data of each chunk


@dataclass(frozen=True)
class Manifest:
    """The storage of a segment."""

    chunks: ChunkIndex
    indexes: Mapping[str, tuple[int, int]]  # by kind, such as ``.index``: position and size in the ``.indexes`` object
    is_compressed: bool  # each chunk is one frame of zstd
    encryption: Encryption | None
    metadata: SegmentMetadata


def parse_manifest(data: bytes) -> Manifest:
    """Returns the content of a manifest. Raises CorruptionError, without the path."""
    try:
        content = json.loads(data)
        if content["version"] != VERSION:
            raise CorruptionError(
                f"the manifest has version {content['version']!r}, but {VERSION!r} is known: install a newer release"
            )
        return Manifest(
            parse_chunk_index(content["chunkIndex"]),
            dict(_indexes(content["segmentIndexes"])),
            bool(content["compression"]),
            _encryption(content.get("encryption")),
            _metadata(content["remoteLogSegmentMetadata"], content["chunkIndex"]["originalFileSize"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptionError(f"this is not a manifest of Aiven's plugin: {type(error).__name__}: {error}") from None


def _indexes(fields: Mapping[str, Any]) -> list[tuple[str, tuple[int, int]]]:
    found = [(kind, fields.get(name)) for kind, name in _INDEXES.items()]
    return [(kind, (int(each["position"]), int(each["size"]))) for kind, each in found if each is not None]


def _encryption(fields: Mapping[str, Any] | None) -> Encryption | None:
    if fields is None:
        return None
    key_id, _, key = fields["dataKey"].partition(":")
    return Encryption(key_id, base64.b64decode(key, validate=True), base64.b64decode(fields["aad"], validate=True))


def _metadata(fields: Mapping[str, Any], size: int) -> SegmentMetadata:
    segment, place = fields["remoteLogSegmentId"], fields["remoteLogSegmentId"]["topicIdPartition"]
    checkpoints.decode_id(place["topicId"])
    partition = TopicIdPartition(
        place["topicPartition"]["topic"], place["topicId"], int(place["topicPartition"]["partition"])
    )
    epochs = sorted((int(epoch), int(start)) for epoch, start in fields["segmentLeaderEpochs"].items())
    return SegmentMetadata(
        partition,
        segment["id"],
        int(fields["startOffset"]),
        int(fields["endOffset"]),
        int(fields["brokerId"]),
        int(fields["maxTimestampMs"]),
        int(fields["eventTimestampMs"]),
        tuple(SegmentEpoch(*each) for each in epochs),
        size,
        state=SegmentState.COPY_SEGMENT_FINISHED,
    )
