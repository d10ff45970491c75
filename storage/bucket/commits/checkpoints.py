"""Checkpoints: a state as one object, so that opening a log does not read all its commits.

A checkpoint of commit n follows from the commits up to n, so all writers would write the same. It is used only if its
checksum is right, its content is consistent, and commit n has the uid that it names.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import CorruptionError
from ...format.files.file_names import PARTITIONS_MAX
from ...format.tables import Int64s
from . import transactions
from .commit import DIGITS, GroupOffset, Segment
from .fields import INT32_MAX, Fields, check_topic
from .frames import decode_frame, encode_frame
from .producers import from_json, to_json
from .rows import Rows, decode_rows, encode_rows
from .state import (
    BASE,
    BYTES,
    OBJECT,
    OBJECT_COLUMNS,
    POSITION,
    RECORDS,
    SLICE_COLUMNS,
    App,
    OpenTransaction,
    PartitionState,
    State,
    Topic,
)

MAGIC = b"CLCHKP1\n"
VERSION = 3  # 1 has no open transactions, 2 no partitions that are being copied
EVERY = 100  # commits
NEWEST = "checkpoints/newest"  # a hint: may be missing, old or wrong
CHECKPOINT_BYTES_MAX = 1 << 30
PAYLOAD_BYTES_MAX = 2 << 30  # 37,000,000 slices

_SEGMENT_COLUMNS = 6  # base, end, size, records, max timestamp, whether compacted
_UIDS = 16 + 32  # bytes of a segment's uuid and SHA-256


def checkpoint_key(number: int) -> str:
    """Returns the name of a checkpoint's object below the log's URL."""
    return f"checkpoints/{number:0{DIGITS}}"


def encode_checkpoint(state: State) -> bytes:
    """Returns the object's bytes. Drops objects that nothing names from ``state``."""
    state.forget_unnamed()
    partitions = sorted(state.partitions.items())
    slices = [partition.slices.table for _, partition in partitions]
    segments = [segment for _, partition in partitions for segment in partition.segments]
    head = json.dumps(_head(state), separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()
    parts = [
        struct.pack(">I", len(head)),
        head,
        b"".join(map(bytes.fromhex, state.writes)),
        encode_rows(state.objects.table),
        encode_rows(np.concatenate([np.empty((0, SLICE_COLUMNS), np.int64), *slices])),
        encode_rows(np.array([_numbers(each) for each in segments], np.int64).reshape(-1, _SEGMENT_COLUMNS)),
        b"".join(bytes.fromhex(each.uuid + each.sha256) for each in segments),
    ]
    return encode_frame(MAGIC, b"".join(parts))


def _numbers(segment: Segment) -> tuple[int, ...]:
    return segment.base, segment.end, segment.size, segment.records, segment.max_timestamp, segment.is_compacted


def _head(state: State) -> dict[str, Any]:
    unfinished = [list(key) for key, each in sorted(state.partitions.items()) if each.is_unfinished]
    return {
        "v": VERSION if unfinished else 2 if state.open else 1,
        "logId": state.log_id,
        "n": state.number,
        "uid": state.uid,
        "topics": [[each.name, each.topic_id, each.partitions, dict(each.configs)] for each in _sorted_topics(state)],
        "apps": {app: list(each) for app, each in state.apps.items()},
        "groups": {group: {name: list(each) for name, each in found.items()} for group, found in state.groups.items()},
        "void": sorted(state.void),
        "dropped": dict(sorted(state.dropped.items())),
        "producers": to_json(state.producers),
        **({"open": transactions.to_json(state)} if state.open else {}),
        **({"unfinished": unfinished} if unfinished else {}),
        "writes": len(state.writes),
        "objects": len(state.objects),
        "partitions": [
            [topic_id, number, each.log_start, each.end, len(each.slices), len(each.segments)]
            for (topic_id, number), each in sorted(state.partitions.items())
        ],
    }


def _sorted_topics(state: State) -> list[Topic]:
    return sorted(state.topics.values(), key=lambda topic: topic.name)


def decode_checkpoint(data: bytes) -> State:
    """Returns the state. Raises CorruptionError, without the path, if the content is not consistent."""
    rest = memoryview(decode_frame(MAGIC, data, PAYLOAD_BYTES_MAX))
    if len(rest) < 4:
        raise CorruptionError("ends within its head")
    (length,) = struct.unpack_from(">I", rest)
    fields = Fields.of(bytes(rest[4 : 4 + length]))
    if not 1 <= (version := fields.integer("v")) <= VERSION:
        raise CorruptionError(f"is of format {version}; this version reads {VERSION}")
    state = State(fields.uid("logId"), fields.integer("n"), fields.uid("uid"))
    _read_topics(state, fields)
    _read_progress(state, fields)
    _read_tables(state, fields, rest[4 + length :])
    _read_unfinished(state, fields)
    for opened in transactions.from_json(fields):
        _reopen(state, opened)
    return state


def _read_unfinished(state: State, fields: Fields) -> None:
    for value in fields.values("unfinished") if fields.has("unfinished") else ():
        match value:
            case [str(topic_id), int(number)] if (topic_id, number) in state.partitions:
                state.partitions[topic_id, number].is_unfinished = True
            case _:
                raise fields.wrong("unfinished", "a list of partitions")


def _reopen(state: State, opened: OpenTransaction) -> None:
    app = opened.transaction.app
    if (problem := transactions.problem_of(state, *opened.transaction[:3])) or app in state.open:
        raise CorruptionError(f"has a transaction that cannot be open: {problem or app}")
    state.open[app] = opened
    for key, bases in opened.slices.items():
        if key not in state.partitions:
            raise CorruptionError("has an open transaction in a partition that is not there")
        state.partitions[key].undecided[app] = bases[0]


def _read_topics(state: State, fields: Fields) -> None:
    for value in fields.values("topics"):
        match value:
            case [str(name), str(topic_id), int(partitions), dict(configs)] if 0 < partitions <= PARTITIONS_MAX:
                check_topic(name)
                if topic_id in state.topics or name in state.topic_ids:
                    raise CorruptionError(f"has topic {name} twice")
                state.topics[topic_id] = Topic(name, topic_id, partitions, Fields({"c": configs}).texts("c"))
                state.topic_ids[name] = topic_id
            case _:
                raise fields.wrong("topics", "a list of topics")


def _read_progress(state: State, fields: Fields) -> None:
    for app, value in fields.inside("apps").items():
        match value:
            case [int(epoch), None | int() as version, None | str() as query, None | str() as run]:
                state.apps[app] = App(epoch, version, query, run)
            case _:
                raise fields.wrong("apps", "apps with their progress")
    for group, found in fields.inside("groups").items():
        for partition, value in Fields(found, group).items():
            match value:
                case [int(offset), str(metadata)]:
                    state.groups.setdefault(group, {})[partition] = GroupOffset(offset, metadata)
                case _:
                    raise fields.wrong("groups", "groups with their offsets")
    state.producers = from_json(fields)
    state.void = set(fields.uids("void"))
    dropped = fields.inside("dropped")
    Fields({"ids": [each for each, _ in dropped.items()]}).uids("ids")
    state.dropped = {each: dropped.integer(each, 1) for each, _ in dropped.items()}


def _read_tables(state: State, fields: Fields, rest: memoryview) -> None:
    writes, objects = fields.integer("writes", most=INT32_MAX), fields.integer("objects", most=INT32_MAX)
    listed = fields.values("partitions")
    counts = Fields({"c": [row[2:] if isinstance(row, list) else row for row in listed]}).rows("c", 4)
    if (counts < 0).any() or (counts[:, 2:] > INT32_MAX).any():
        raise fields.wrong("partitions", "a list of partitions")
    slices, segments = (int(counts[:, column].sum()) for column in (2, 3))
    sizes = [16 * writes, 8 * OBJECT_COLUMNS * objects, 8 * SLICE_COLUMNS * slices]
    sizes += [8 * _SEGMENT_COLUMNS * segments, _UIDS * segments]
    if sum(sizes) != len(rest):
        raise CorruptionError(f"{len(rest)} bytes of tables, where its head names {sum(sizes)}")
    parts = list(_divided(rest, sizes))
    ids = parts[0].hex()
    state.writes = [ids[at : at + 32] for at in range(0, len(ids), 32)]
    state.objects = Rows(OBJECT_COLUMNS, decode_rows(parts[1], objects, OBJECT_COLUMNS))
    numbers = decode_rows(parts[3], segments, _SEGMENT_COLUMNS)
    found = [_segment(row, parts[4][_UIDS * at : _UIDS * (at + 1)]) for at, row in enumerate(numbers.tolist())]
    _fill(state, listed, decode_rows(parts[2], slices, SLICE_COLUMNS), found)
    _check_tables(state)
    state.count_uses()


def _divided(data: memoryview, sizes: list[int]) -> Iterator[memoryview]:
    for size in sizes:
        yield data[:size]
        data = data[size:]


def _segment(row: list[int], uids: memoryview) -> Segment:
    base, end, size, records, max_timestamp, is_compacted = row
    uuid, sha256 = bytes(uids[:16]).hex(), bytes(uids[16:]).hex()
    return Segment(base, end, uuid, size, records, max_timestamp, sha256, bool(is_compacted))


def _fill(state: State, listed: list[Any], slices: Int64s, segments: list[Segment]) -> None:
    """Assigns slices and segments to the partitions of the head."""
    slice_at = segment_at = 0
    for topic_id, number, log_start, end, slice_count, segment_count in listed:
        rows = slices[slice_at : slice_at + slice_count].copy()
        own = segments[segment_at : segment_at + segment_count]
        if topic_id not in state.topics or type(number) is not int or (topic_id, number) in state.partitions:
            raise CorruptionError("has a partition of no topic, or one twice")
        state.partitions[topic_id, number] = PartitionState(log_start, end, Rows(SLICE_COLUMNS, rows), own)
        slice_at, segment_at = slice_at + slice_count, segment_at + segment_count
    wanted = sum(topic.partitions for topic in state.topics.values())
    if wanted != len(listed) or any(not 0 <= number < state.topics[id_].partitions for id_, number in state.partitions):
        raise CorruptionError("does not have the partitions of its topics")


def _check_tables(state: State) -> None:
    objects = state.objects.table
    if (objects < 0).any() or (objects[:, 0] >= len(state.writes)).any():
        raise CorruptionError("has objects of no write")
    for partition in state.partitions.values():
        table = partition.slices.table
        if (table[:, :-1] < 0).any() or (table[:, OBJECT] >= len(objects)).any() or (table[:, RECORDS] < 1).any():
            raise CorruptionError("has slices of no object")
        if (table[:, BYTES] > objects[table[:, OBJECT], -1] - table[:, POSITION]).any():
            raise CorruptionError("has slices that end after their object")
        _check_covered(partition)


def _check_covered(partition: PartitionState) -> None:
    """Raises CorruptionError unless slices and segments cover each offset from the log start to the end once."""
    table, segments = partition.slices.table, np.array([_numbers(each) for each in partition.segments], np.int64)
    segments = segments.reshape(-1, _SEGMENT_COLUMNS)
    bases = np.concatenate([table[:, BASE], segments[:, 0]])
    ends = np.concatenate([table[:, BASE] + table[:, RECORDS], segments[:, 1]])
    order = np.argsort(bases, kind="stable")
    are_sorted = (np.diff(table[:, BASE]) > 0).all() and (np.diff(segments[:, 0]) > 0).all()
    if not are_sorted or (ends <= bases).any() or (bases[order][1:] != ends[order][:-1]).any():
        raise CorruptionError("has a partition with a gap")
    if (segments[:, 2:4] < 0).any() or (segments[:, 3] > segments[:, 1] - segments[:, 0]).any():
        raise CorruptionError("has segments with more records than offsets")
    start, end = partition.log_start, partition.end
    begin, covered = (int(bases.min()), int(ends.max())) if len(bases) else (start, start)
    if not 0 <= begin <= start <= end == covered:
        raise CorruptionError("has a partition whose offsets do not reach from its start to its end")
