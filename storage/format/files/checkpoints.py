"""The small files beside the segments: producer snapshots, text checkpoints, ids.

Converts bytes to values and back; opens no files. Errors carry no path: the caller adds it with ``located``. None of
these files may prevent a log from opening: their content can be rebuilt from the log or replaced by a safe assumption.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple
from uuid import UUID

import numpy as np

from ...config import INT64_MAX
from ...errors import CorruptCheckpointError, CorruptSnapshotError
from ...filesystem.port import Buffer
from ..checksums import crc32c
from ..constants import INT32_MAX
from .file_names import TopicPartition

# --- Producer snapshot. Nothing in these layouts may change.

SNAPSHOT_HEADER = np.dtype(
    [  #                  byte  meaning
        ("version", ">i2"),  # 0  1
        ("crc", ">u4"),  #     2  CRC-32C of everything after it
        ("count", ">i4"),  #   6  entries
    ]
)
assert SNAPSHOT_HEADER.itemsize == 10

SNAPSHOT_ENTRY = np.dtype(
    [  #                                    byte  meaning
        ("producer_id", ">i8"),  #              0
        ("producer_epoch", ">i2"),  #           8
        ("last_sequence", ">i4"),  #           10  of the last batch; -1: no batch of this epoch yet
        ("last_offset", ">i8"),  #             14  of the last batch; -1: none
        ("offset_delta", ">i4"),  #            22  records of the last batch, less one
        ("timestamp", ">i8"),  #               26  ms, of the last batch or marker
        ("coordinator_epoch", ">i4"),  #       34  of the last marker; -1: none
        ("current_txn_first_offset", ">i8"),  # 38  of the open transaction; -1: none
    ]
)
assert SNAPSHOT_ENTRY.itemsize == 46

SNAPSHOT_VERSION = 1
CRC_FROM = 6


class ProducerEntry(NamedTuple):
    """The entry of a producer in a snapshot: its state, with only the last of its batches."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Returns the bytes of a ``.snapshot`` with the entries in the given order."""
    table = np.array(list(entries), dtype=SNAPSHOT_ENTRY)
    header = np.zeros(1, dtype=SNAPSHOT_HEADER)
    header["version"], header["count"] = SNAPSHOT_VERSION, len(table)
    body = header.tobytes()[CRC_FROM:] + table.tobytes()
    header["crc"] = crc32c(body)
    return header.tobytes()[:CRC_FROM] + body


def decode_snapshot(data: Buffer) -> list[ProducerEntry]:
    """Returns the entries of a ``.snapshot``, in file order.

    Raises CorruptSnapshotError for a wrong version, length or checksum.
    """
    if len(data) < SNAPSHOT_HEADER.itemsize:
        raise CorruptSnapshotError(
            (f"the snapshot has {len(data)} bytes, but needs at least {SNAPSHOT_HEADER.itemsize}"), position=0
        )
    version, crc, count = np.frombuffer(data, dtype=SNAPSHOT_HEADER, count=1)[0].tolist()
    if version != SNAPSHOT_VERSION:
        raise CorruptSnapshotError(
            f"the snapshot has version {version}, but only {SNAPSHOT_VERSION} is known", position=0
        )
    expected = SNAPSHOT_HEADER.itemsize + count * SNAPSHOT_ENTRY.itemsize
    if count < 0 or len(data) != expected:
        raise CorruptSnapshotError(
            f"the snapshot has {len(data)} bytes, but its {count} entries take {expected}", position=6
        )
    computed = crc32c(memoryview(data)[CRC_FROM:])
    if computed != crc:
        raise CorruptSnapshotError(f"checksum {computed:#010x} does not match {crc:#010x} in the file", position=2)
    rows = np.frombuffer(data, dtype=SNAPSHOT_ENTRY, offset=SNAPSHOT_HEADER.itemsize)
    return [ProducerEntry(*row) for row in rows.tolist()]


# --- Text checkpoints: the version, the number of entries, one entry per line (Kafka's CheckpointFile).

CHECKPOINT_VERSION = 0

# Fast path: what encode_offsets and Kafka write, with numbers well within their limits, takes less than half the time.
_OFFSETS_AS_WRITTEN = re.compile(rb"0\n([0-9]{1,9})\n((?:[A-Za-z0-9._-]+ [0-9]{1,9} [0-9]{1,18}\n)*)")
_NUMBER = re.compile(r"-?[0-9]{1,20}")


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of its first record."""

    epoch: int
    start_offset: int


def encode_leader_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """Returns the bytes of a ``leader-epoch-checkpoint``."""
    return _encode_lines([f"{entry.epoch} {entry.start_offset}" for entry in entries])


def decode_leader_epochs(data: Buffer) -> list[EpochEntry]:
    """Returns the entries, in file order; none for an empty file.

    Raises CorruptCheckpointError, with the line, for malformed data.
    """
    return [
        EpochEntry(_number(at, epoch, INT32_MAX), _number(at, start_offset, INT64_MAX))
        for at, (epoch, start_offset) in _decode_lines(data, fields=2)
    ]


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Returns the bytes of an offset checkpoint (recovery point, log start, high watermark, cleaner)."""
    return _encode_lines([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def decode_offsets(data: Buffer) -> dict[TopicPartition, int]:
    """Returns the offsets by partition, in file order. Raises CorruptCheckpointError, with the line, if malformed."""
    return dict(_offsets_in(bytes(data)))


@lru_cache(maxsize=4)  # opening one log after the other reads the same three files of all partitions
def _offsets_in(data: bytes) -> Mapping[TopicPartition, int]:
    written = _OFFSETS_AS_WRITTEN.fullmatch(data)
    if written is not None:  # every log that is closed reads the file of all partitions, often ten thousand
        fields = written[2].decode().split()
        if len(fields) == 3 * int(written[1]):
            pairs = zip(fields[::3], map(int, fields[1::3]), strict=True)
            partitions = map(tuple.__new__, repeat(TopicPartition), pairs)  # skips a call of Python for each
            return dict(zip(partitions, map(int, fields[2::3]), strict=True))
    return {
        TopicPartition(topic, _number(at, partition, INT32_MAX)): _number(at, offset, INT64_MAX)
        for at, (topic, partition, offset) in _decode_lines(data, fields=3)
    }


def _encode_lines(lines: list[str]) -> bytes:
    return "\n".join([str(CHECKPOINT_VERSION), str(len(lines)), *lines, ""]).encode()


def _decode_lines(data: Buffer, fields: int) -> Iterator[tuple[int, list[str]]]:
    """Yields the line number and the fields of every entry."""
    lines = _lines(data)
    if lines and _number(1, lines[0].strip(), INT32_MAX) != CHECKPOINT_VERSION:
        raise CorruptCheckpointError(f"line 1: the version is {lines[0]!r}, but only {CHECKPOINT_VERSION} is known")
    if len(lines) < 2:
        return  # created and never written to: like Kafka, treat it as empty
    count = _number(2, lines[1].strip(), INT32_MAX)
    if count != len(lines) - 2:
        raise CorruptCheckpointError(f"line 2: the file states {count} entries, but has {len(lines) - 2} more lines")
    for at, line in enumerate(lines[2:], start=3):
        found = line.split()
        if len(found) != fields:
            raise CorruptCheckpointError(f"line {at}: expected {fields} fields, found {line!r}")
        yield at, found


def _lines(data: Buffer) -> list[str]:
    try:
        text = bytes(data).decode()
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(f"the text is not UTF-8: {error.reason}", position=error.start) from None
    lines = re.split(r"\r\n|\n|\r", text)
    return lines[:-1] if not lines[-1] else lines


def _number(line: int, text: str, limit: int) -> int:
    if not _NUMBER.fullmatch(text) or not 0 <= int(text) <= limit:
        raise CorruptCheckpointError(f"line {line}: expected a number from 0 to {limit}, found {text!r}")
    return int(text)


# --- partition.metadata and meta.properties.


def encode_id(value: UUID) -> str:
    """Returns an id as Kafka writes it: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_id(text: str) -> UUID:
    """Returns the id that 22 characters of URL-safe base64 encode; raises ValueError for other text."""
    check_id(text)
    return UUID(bytes=urlsafe_b64decode(text + "=="))


def check_id(text: str) -> None:
    """Raises ValueError unless ``text`` is an id."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{22}", text):
        raise ValueError(f"not an id (22 characters of URL-safe base64): {text!r}")


def encode_partition_metadata(topic_id: UUID) -> bytes:
    """Returns the bytes of ``partition.metadata``: two lines, the last without a line end."""
    return f"version: 0\ntopic_id: {encode_id(topic_id)}".encode()


def decode_partition_metadata(data: Buffer) -> UUID:
    """Returns the topic id.

    Raises CorruptCheckpointError, with the line, if the version or the id is malformed, or the id is zero.
    """
    lines = _lines(data)
    if len(lines) != 2:
        raise CorruptCheckpointError(f"the file has {len(lines)} lines, expected two: 'version: ' and 'topic_id: '")
    _number(1, _after(1, lines[0], "version:"), INT32_MAX)  # any version: Kafka reads later ones as 0
    text = _after(2, lines[1], "topic_id:")
    try:
        topic_id = decode_id(text)
    except ValueError as error:
        raise CorruptCheckpointError(f"line 2: {error}") from None
    if not topic_id.int:
        raise CorruptCheckpointError(f"line 2: the topic id {text} is all zero, which no topic has")
    return topic_id


def _after(line: int, text: str, label: str) -> str:
    if not text.startswith(label):
        raise CorruptCheckpointError(f"line {line}: expected {label!r}, found {text!r}")
    return text.removeprefix(label).strip()


@dataclass(frozen=True)
class MetaProperties:
    """The identity of a log directory."""

    version: int  # 0: ZooKeeper era, 1: KRaft
    cluster_id: str | None  # version 0 may lack it
    node_id: int | None  # in version 0 the key is broker.id
    directory_id: str | None  # as encode_id writes it


NODE_ID_KEYS = {0: "broker.id", 1: "node.id"}


def encode_meta_properties(meta: MetaProperties, written_ms: int) -> bytes:
    """Returns the bytes of ``meta.properties``, with the time of writing (ms) in the second line, as Java writes it."""
    values = {
        "version": meta.version,
        "cluster.id": meta.cluster_id,
        NODE_ID_KEYS[meta.version]: meta.node_id,
        "directory.id": meta.directory_id,
    }
    written = datetime.fromtimestamp(written_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    lines = ["#", f"#{written}", *(f"{key}={value}" for key, value in values.items() if value is not None)]
    return "".join(f"{line}\n" for line in lines).encode()


def decode_meta_properties(data: Buffer) -> MetaProperties:
    """Returns the content of ``meta.properties``; ignores unknown keys.

    Raises CorruptCheckpointError for a line that is not ``key=value``, and for a version above 1 or a missing one.
    """
    values: dict[str, str] = {}
    for at, line in enumerate(_lines(data), start=1):
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            key, equals, value = line.partition("=")
            if not equals:
                raise CorruptCheckpointError(f"line {at}: expected key=value, found {line!r}")
            values[key.strip()] = re.sub(r"\\(.)", r"\1", value.strip())
    version = values.get("version", "")
    if version not in ("0", "1"):
        raise CorruptCheckpointError(f"the version is {version!r}, but only 0 and 1 are known")
    node_id = values.get(NODE_ID_KEYS[int(version)])
    if node_id is not None and not _NUMBER.fullmatch(node_id):
        raise CorruptCheckpointError(f"the node id {node_id!r} is not a number")
    number = None if node_id is None else int(node_id)
    return MetaProperties(int(version), values.get("cluster.id"), number, values.get("directory.id"))
