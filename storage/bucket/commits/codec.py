"""Encodes and decodes commits: JSON in a frame. Values out of bounds are refused as damage."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...errors import CorruptionError
from ...format.files.file_names import PARTITION_MAX, PARTITIONS_MAX
from ...format.tables import Int64s
from .commit import (
    BATCHES,
    BYTES,
    OBJECT,
    POSITION,
    RECORDS,
    SLICE_COLUMNS,
    VERSION,
    Change,
    Commit,
    DataChange,
    EndChange,
    FinishChange,
    GroupOffset,
    GroupOffsets,
    OffsetsChange,
    OpenChange,
    PartitionSlices,
    RetainChange,
    Segment,
    StageChange,
    StagedObject,
    StagedOffsets,
    SwapChange,
    TopicChange,
    TransactionEnd,
    VoidChange,
)
from .fields import INT32_MAX, INT64_MAX, Fields, check_topic
from .frames import decode_frame, encode_frame
from .producers import read_batches
from .transactions import read_transaction

MAGIC = b"CLCOMM1\n"
COMMIT_BYTES_MAX = 32 << 20  # of the object
JSON_BYTES_MAX = 128 << 20  # 3,000,000 slices
TIME_MIN = -1  # Kafka's "no timestamp"
_LEAST = np.array([0, 0, 1, 1, 1, TIME_MIN])  # by column of a slice
_KINDS: Mapping[type, str] = {
    DataChange: "data",
    StageChange: "stage",
    EndChange: "end",
    OffsetsChange: "offsets",
    TopicChange: "topic",
    FinishChange: "finish",
    OpenChange: "open",
    SwapChange: "swap",
    RetainChange: "retain",
    VoidChange: "void",
}


def encode_commit(commit: Commit) -> bytes:
    """Returns the object's bytes. Raises ValueError for a commit above the limits; divide it into several."""
    content: dict[str, Any] = {
        "v": _version(commit.change),
        "n": commit.number,
        "uid": commit.uid,
        "prev": commit.previous,
        "timeMs": commit.time_ms,
        "by": commit.by,
        "kind": _KINDS[type(commit.change)],
        **_content(commit.change),
    }
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
    data = encode_frame(MAGIC, text)
    if len(text) > JSON_BYTES_MAX or len(data) > COMMIT_BYTES_MAX:
        raise ValueError(f"a commit of {len(text)} bytes of JSON and {len(data)} compressed is too large")
    return data


def _version(change: Change) -> int:
    """Returns the version that readers of a commit must know: the oldest one with all of its parts."""
    if isinstance(change, FinishChange) or getattr(change, "is_copied", False):
        return VERSION
    has_transactions = isinstance(change, (StageChange, EndChange)) or bool(getattr(change, "transactions", ()))
    return 2 if has_transactions else 1


def decode_commit(data: bytes) -> Commit:
    """Returns the commit. Raises CorruptionError, without the path."""
    fields = Fields.of(decode_frame(MAGIC, data, JSON_BYTES_MAX))
    if not 1 <= (version := fields.integer("v")) <= VERSION:
        raise CorruptionError(f"is of format {version}; this version reads {VERSION}: use a newer one")
    read = _READ[fields.one_of("kind", *_READ)]
    number, uid, previous = fields.integer("n", 1), fields.uid("uid"), fields.uid("prev")
    return Commit(number, uid, previous, fields.integer("timeMs"), fields.text("by"), read(fields))


# --- to JSON


def _content(change: Change) -> dict[str, Any]:
    content: dict[str, Any]
    match change:
        case DataChange():
            content = _data_content(change)
        case StageChange(stages):
            content = {"stages": [_stage_content(each) for each in stages]}
        case EndChange(ends):
            content = {"ends": [[app, epoch, version, int(is_commit)] for app, epoch, version, is_commit in ends]}
        case OffsetsChange():
            content = {"offsets": _offsets_content(change.offsets)}
        case TopicChange():
            content = _topic_content(change)
        case FinishChange():
            content = {"topicId": change.topic_id, "p": change.partition}
        case OpenChange():
            content = {"app": change.app, "epoch": change.epoch, "query": change.query, "run": change.run}
        case SwapChange():
            content = _swap_content(change)
        case RetainChange():
            content = {"topicId": change.topic_id, "p": change.partition, "logStart": change.log_start}
        case VoidChange():
            content = {"writes": list(change.writes)}
    return content


def _stage_content(stage: StagedOffsets) -> dict[str, Any]:
    content: dict[str, Any] = {"transaction": list(stage.transaction), "group": stage.group}
    content["offsets"] = {name: list(each) for name, each in stage.offsets.items()}
    return content


def _data_content(change: DataChange) -> dict[str, Any]:
    content: dict[str, Any] = {"write": change.write, "objects": [list(each) for each in change.objects]}
    content["parts"] = [_part_content(part) for part in change.parts]
    if change.app is not None:
        content |= {"app": change.app, "version": change.version, "epoch": change.epoch}
    content |= {"query": change.query, "run": change.run}
    if change.offsets:
        content["offsets"] = _offsets_content(change.offsets)
    if change.transactions:
        content["transactions"] = [list(each) for each in change.transactions]
    return content


def _part_content(part: PartitionSlices) -> dict[str, Any]:
    content: dict[str, Any] = {"topicId": part.topic_id, "p": part.partition, "base": part.base_offset}
    content["slices"] = part.slices.tolist()
    if part.producers is not None:
        content["producers"] = part.producers.tolist()
    if part.transactions:
        content["transactions"] = list(part.transactions)
    return content


def _offsets_content(offsets: GroupOffsets) -> dict[str, Any]:
    return {
        group: {partition: None if each is None else list(each) for partition, each in partitions.items()}
        for group, partitions in offsets.items()
    }


def _topic_content(change: TopicChange) -> dict[str, Any]:
    content: dict[str, Any] = {"op": change.op, "name": change.name, "topicId": change.topic_id}
    if change.op in ("create", "partitions"):
        content["partitions"] = change.partitions
    if change.op in ("create", "alter"):
        content["configs"] = dict(change.configs or {})
    if change.is_copied:
        content["copied"] = 1
    return content


def _swap_content(change: SwapChange) -> dict[str, Any]:
    base, end, uuid, size, records, max_timestamp, sha256, is_compacted = change.segment
    segment: dict[str, Any] = {
        "uuid": uuid,
        "bytes": size,
        "records": records,
        "maxTs": max_timestamp,
        "sha256": sha256,
    }
    segment["compacted"] = int(is_compacted)
    return {"topicId": change.topic_id, "p": change.partition, "from": base, "to": end, "segment": segment}


# --- from JSON


def _read_data(fields: Fields) -> DataChange:
    objects = [StagedObject(*row) for row in _not_negative(fields, "objects", fields.rows("objects", 4)).tolist()]
    parts = [_read_part(part) for part in fields.objects("parts")]
    transactions = list(map(read_transaction, fields.values("transactions"))) if fields.has("transactions") else []
    if any(each >= len(transactions) for part in parts for each in part.transactions):
        raise fields.wrong("transactions", "those of all slices")
    _check_slices(fields, objects, parts)
    has_app = fields.has("app")
    return DataChange(
        write=fields.uid("write"),
        objects=objects,
        parts=parts,
        app=fields.optional("app", fields.text),
        version=fields.optional("version", fields.integer) if has_app else None,
        epoch=fields.integer("epoch", 1) if has_app else None,
        query=fields.optional("query", fields.text),
        run=fields.optional("run", fields.text),
        offsets=_read_offsets(fields) if fields.has("offsets") else None,
        transactions=transactions,
    )


def _read_part(fields: Fields) -> PartitionSlices:
    slices = fields.rows("slices", SLICE_COLUMNS)
    if not len(slices):
        raise fields.wrong("slices", "a list that is not empty")
    partition = fields.integer("p", most=PARTITION_MAX)
    producers = read_batches(fields, int(slices[:, RECORDS].sum()))
    topic_id, base = fields.topic_id("topicId"), fields.integer("base")
    return PartitionSlices(topic_id, partition, base, slices, producers, _read_transactions(fields, len(slices)))


def _read_transactions(fields: Fields, slices: int) -> list[int]:
    if not fields.has("transactions"):
        return []
    found = fields.values("transactions")
    if len(found) != slices or not all(type(each) is int and each >= -1 for each in found):
        raise fields.wrong("transactions", "a number for each slice")
    return found


def _check_slices(fields: Fields, objects: list[StagedObject], parts: list[PartitionSlices]) -> None:
    """Raises CorruptionError unless slices lie inside their objects without overlaps, and nothing is named twice."""
    if len(set(objects)) != len(objects):
        raise fields.wrong("objects", "no object twice")
    if len({(part.topic_id, part.partition) for part in parts}) != len(parts):
        raise fields.wrong("parts", "no partition twice")
    if not parts:
        return
    rows = np.concatenate([part.slices for part in parts])
    sizes = np.array([each.size for each in objects], dtype=np.int64)
    if problem := _problem_of(rows, sizes):
        raise fields.wrong("parts", f"a list of slices in which {problem}")


def _problem_of(rows: Int64s, sizes: Int64s) -> str | None:
    most = np.array([len(sizes) - 1, INT64_MAX, INT64_MAX, INT32_MAX, INT32_MAX, INT64_MAX])
    if (rows < _LEAST).any() or (rows > most).any():
        return "every number is within its bounds"
    if (rows[:, RECORDS] < rows[:, BATCHES]).any():
        return "every batch has a record"
    if (rows[:, BYTES] > sizes[rows[:, OBJECT]] - rows[:, POSITION]).any():
        return "no slice ends after its object"
    by_place = rows[np.lexsort((rows[:, POSITION], rows[:, OBJECT]))]
    is_next = by_place[1:, OBJECT] == by_place[:-1, OBJECT]
    ends = by_place[:-1, POSITION] + by_place[:-1, BYTES]
    return "no two overlap" if (is_next & (by_place[1:, POSITION] < ends)).any() else None


def _read_offsets(fields: Fields) -> GroupOffsets:
    groups = fields.inside("offsets")
    found: dict[str, dict[str, GroupOffset | None]] = {}
    for group, _ in groups.items():
        partitions = groups.inside(group)
        found[group] = {
            partition: None if value is None else _group_offset(partitions, partition, value)
            for partition, value in partitions.items()
        }
    return found


def _group_offset(fields: Fields, partition: str, value: Any) -> GroupOffset:
    match value:
        case [int(offset), str(metadata)] if type(offset) is int and 0 <= offset < 2**63:
            return GroupOffset(offset, metadata)
    raise fields.wrong(partition, "an offset with metadata")


def _read_stages(fields: Fields) -> StageChange:
    return StageChange([_read_stage(each) for each in fields.objects("stages")])


def _read_stage(fields: Fields) -> StagedOffsets:
    offsets = fields.inside("offsets")
    found = {name: _group_offset(offsets, name, value) for name, value in offsets.items()}
    return StagedOffsets(read_transaction(fields.values("transaction")), fields.text("group"), found)


def _read_end(fields: Fields) -> EndChange:
    ends = [_transaction_end(fields, value) for value in fields.values("ends")]
    if len({each.app for each in ends}) != len(ends):
        raise fields.wrong("ends", "no app twice")
    return EndChange(ends)


def _transaction_end(fields: Fields, value: Any) -> TransactionEnd:
    match value:
        case [str(app), int(epoch), int(version), 0 | 1 as is_commit] if bool not in map(type, value):
            return TransactionEnd(app, epoch, version, bool(is_commit))
    raise fields.wrong("ends", "a list of ends")


def _read_topic(fields: Fields) -> TopicChange:
    op, name = fields.one_of("op", "create", "alter", "partitions", "delete"), fields.text("name")
    check_topic(name)
    partitions = fields.integer("partitions", 1, PARTITIONS_MAX) if op in ("create", "partitions") else 0
    configs = fields.texts("configs") if op in ("create", "alter") else None
    is_copied = op == "create" and fields.has("copied") and bool(fields.integer("copied", most=1))
    return TopicChange(op, name, fields.topic_id("topicId"), partitions, configs, is_copied)  # type: ignore[arg-type]  # one of four


def _read_open(fields: Fields) -> OpenChange:
    query, run = fields.optional("query", fields.text), fields.optional("run", fields.text)
    return OpenChange(fields.text("app"), fields.integer("epoch", 1), query, run)


def _read_swap(fields: Fields) -> SwapChange:
    inner, base = fields.inside("segment"), fields.integer("from")
    segment = read_segment(inner, base, fields.integer("to", base + 1))
    return SwapChange(fields.topic_id("topicId"), fields.integer("p", most=PARTITION_MAX), segment)


def read_segment(fields: Fields, base: int, end: int) -> Segment:
    """Returns the segment in a commit. Raises CorruptionError."""
    return Segment(
        base=base,
        end=end,
        uuid=fields.uid("uuid"),
        size=fields.integer("bytes", most=INT32_MAX),
        records=fields.integer("records", most=end - base),
        max_timestamp=fields.integer("maxTs", TIME_MIN),
        sha256=fields.sha256("sha256"),
        is_compacted=bool(fields.integer("compacted", most=1)),
    )


def _read_retain(fields: Fields) -> RetainChange:
    return RetainChange(fields.topic_id("topicId"), fields.integer("p", most=PARTITION_MAX), fields.integer("logStart"))


def _not_negative(fields: Fields, name: str, rows: Int64s) -> Int64s:
    if (rows < 0).any():
        raise fields.wrong(name, "a list without negative numbers")
    return rows


_READ: Mapping[str, Callable[[Fields], Change]] = {
    "data": _read_data,
    "stage": _read_stages,
    "end": _read_end,
    "offsets": lambda fields: OffsetsChange(_read_offsets(fields)),
    "topic": _read_topic,
    "finish": lambda fields: FinishChange(fields.topic_id("topicId"), fields.integer("p", most=PARTITION_MAX)),
    "open": _read_open,
    "swap": _read_swap,
    "retain": _read_retain,
    "void": lambda fields: VoidChange(fields.uids("writes")),
}
