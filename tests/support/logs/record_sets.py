"""The record sets that Kafka wrote, and what Kafka's own file reader says of each (``tests/golden/record-sets``)."""

from __future__ import annotations

import base64
import hashlib
import json
import tarfile
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.format.constants import NO_SEQUENCE, Codec
from pyspark_commitlog.storage.format.internal import control_records
from pyspark_commitlog.storage.format.tables import BatchHeaders, Bytes, Records, last_sequence

FOLDER = Path(__file__).parents[2] / "golden" / "record-sets"
DAMAGED = ("corrupt-", "torn-", "foreign-")
TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
LONG = 65536  # of a key or value longer than this the twin has only size and hash


@cache
def _files() -> dict[str, bytes]:
    with tarfile.open(FOLDER / "record-sets.tar.xz") as packed:
        return {member.name: packed.extractfile(member).read() for member in packed}  # type: ignore[union-attr]


def names() -> list[str]:
    return sorted(name.removesuffix(".log") for name in _files() if name.endswith(".log"))


@cache
def load(name: str) -> Any:
    """The JSON file of that name."""
    return json.loads(_files()[f"{name}.json"])


def log_bytes(name: str) -> Bytes:
    return np.frombuffer(_files()[f"{name}.log"], dtype=np.uint8)


def as_twin(buffer: Bytes, headers: BatchHeaders) -> list[dict[str, Any]]:
    """Batches as the JSON twins have them, all decoded in one call."""
    decoded = formats.decode(buffer, headers)
    bounds = np.concatenate(([0], np.cumsum(decoded.counts))).tolist()
    assert bounds[-1] == len(decoded.records)
    return [
        _batch(headers[row : row + 1], decoded.records.slice(first, last))
        for row, (first, last) in enumerate(pairwise(bounds))
    ]


def _batch(headers: BatchHeaders, records: Records) -> dict[str, Any]:
    row = {name: headers.table[name][0].item() for name in headers.table.dtype.names or ()}
    is_new = row["magic"] == 2
    is_control = bool(headers.is_control[0])
    return {
        "baseOffset": row["base_offset"] if is_new else int(records.offsets[0]),
        "lastOffset": row["last_offset"],
        "magic": row["magic"],
        "crc": row["crc"],
        "sizeInBytes": row["size"],
        "position": row["position"],
        "compression": Codec(int(headers.codec[0])).name.lower(),
        "timestampType": TYPES[int(headers.timestamp_type[0])],
        "baseTimestamp": row["base_timestamp"] if is_new else None,
        "maxTimestamp": row["max_timestamp"],
        "partitionLeaderEpoch": row["leader_epoch"],
        "producerId": row["producer_id"],
        "producerEpoch": row["producer_epoch"],
        "baseSequence": row["base_sequence"],
        "lastSequence": last_sequence(row["base_sequence"], row["last_offset"] - row["base_offset"]),
        "isTransactional": bool(headers.is_transactional[0]),
        "isControl": is_control,
        "deleteHorizonMs": row["base_timestamp"] if headers.has_delete_horizon[0] else None,
        "count": row["count"] if is_new else None,
        "records": [_record(row, is_control, record) for record in _rows(records)],
    }


def _rows(records: Records) -> list[tuple[Any, ...]]:
    assert records.keys is not None
    assert records.values is not None
    headers: list[list[tuple[bytes | None, bytes | None]]] = [[] for _ in range(len(records))]
    if records.headers is not None:
        pairs = list(zip(records.headers.keys.to_list(), records.headers.values.to_list(), strict=True))
        headers = [pairs[first:last] for first, last in pairwise(records.headers.offsets.tolist())]
    columns = (records.offsets.tolist(), records.timestamps.tolist(), records.keys.to_list(), records.values.to_list())
    return list(zip(*columns, headers, strict=True))


def _record(batch: dict[str, Any], is_control: bool, record: tuple[Any, ...]) -> dict[str, Any]:
    offset, timestamp, key, value, headers = record
    kind, coordinator_epoch = control_records.parse(key, value) if is_control else (None, None)
    sequence = NO_SEQUENCE
    if batch["base_sequence"] >= 0:
        sequence = last_sequence(batch["base_sequence"], offset - batch["base_offset"])
    twin = {
        "offset": offset,
        "timestamp": timestamp,
        **_text("key", key),
        **_text("value", value),
        "headers": [[name.decode(errors="replace"), _base64(text)] for name, text in headers],
        "sequence": sequence,
        "controlType": None if kind is None else kind.name,
    }
    return twin if coordinator_epoch is None else {**twin, "coordinatorEpoch": coordinator_epoch}


def _text(name: str, text: bytes | None) -> dict[str, Any]:
    if text is not None and len(text) > LONG:
        return {f"{name}Size": len(text), f"{name}Sha256": hashlib.sha256(text).hexdigest()}
    return {f"{name}Base64": _base64(text)}


def _base64(text: bytes | None) -> str | None:
    return None if text is None else base64.b64encode(text).decode()
