"""What may come of damage beside an error and the records as they were written; nothing else may.

It walks the damaged files itself, batch by batch. Where anything in them is not sound, a reader must have refused them;
one thing it may pass over: a torn end that no recovery point covers, with a warning. Where all is sound, and joins
where it must, nobody can tell the damaged log from one that was written so: the reader must show exactly what lies
there, and how that differs from what was written is the word under which the case is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.directory.log_directory import TOPICS_FILE
from pyspark_commitlog.storage.directory.protected_topics import COORDINATOR_TOPICS
from pyspark_commitlog.storage.directory.topics_file import decode_topics
from pyspark_commitlog.storage.errors import LogStoreError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import HEADER_UP_TO_MAGIC, INT32_MAX, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT
from pyspark_commitlog.storage.format.files import checkpoints, file_names
from pyspark_commitlog.storage.format.tables import BatchHeaders
from pyspark_commitlog.storage.reading.aborted import Isolation
from tests.support.disk.frozen_filesystem import FrozenFileSystem
from tests.torture.damage.sound_logs import ROOT, Row, SoundLog, rows_of

TORN_END = "a torn end that no recovery point covers, passed over with a warning"
UNSYNCED_END = "an end behind the recovery point that is not sound, as a crash leaves it"
LOST_END = "an end that is missing between two batches, with no recovery point and no snapshot to tell"
LOST_START = "first segments that are missing, as retention takes them"
HOLE = "batches missing where compaction leaves holes"
SHIFTED = "offsets of a batch shifted where compaction leaves holes"
OTHER_START = "another log start in the checkpoint"
OTHER_FILE = "whole batches of another place, in order"


class Told(NamedTuple):
    """What the files at the root say, as far as they can be read."""

    recovery_point: int | None  # None: there is none
    log_start_offset: int
    has_holes: bool  # in a segment: compaction left some, or nobody can tell
    has_gaps: bool  # the same of whole segments


@dataclass
class Seen:
    """What lies in a partition's files, up to where it is not sound."""

    rows: list[Row]
    keys: list[tuple[int, bytes]]  # of each batch: what its checksum covers
    base_offsets: list[int]
    first_segment: int
    end_offset: int
    fault: str | None = None  # what is not sound; None: nothing
    is_wrong: bool = False  # a batch is there, and is not sound
    is_torn: bool = False  # the fault is an end that is not whole, with nothing sound behind it


ALL_COLUMNS = (0, 1, 2, 3, 4, 5)


def judge(
    log: SoundLog,
    disk: FrozenFileSystem,
    level: Isolation,
    found: list[Row],
    warnings: Sequence[str] | None,
    columns: Sequence[int] = ALL_COLUMNS,
) -> str:
    """The word under which a reading that is not what was written is exempt. AssertionError where it is not.

    ``warnings``: those given, None where they are given out of earshot, in Spark's workers. ``columns``: those that
    ``found`` has, the offset first.
    """
    told = told_by(log, disk)
    seen = look(log, disk, told)
    missing = len(log.rows[level]) - len(found)
    assert seen.fault is None or seen.is_torn, f"{level.value}: {missing} rows missing or others, though {seen.fault}"
    synced, is_torn = told.recovery_point or 0, seen.is_torn and told.recovery_point is None
    assert seen.end_offset >= synced, f"{level.value}: {missing} rows missing below the recovery point"
    assert not is_torn or warnings is None or warnings, (
        f"{level.value}: {missing} rows missing behind a torn end, without a warning"
    )
    shown = [part_of(row, columns) for row in seen.rows if row[0] >= told.log_start_offset]
    if level is Isolation.READ_UNCOMMITTED:
        assert found == shown, f"{len(found)} rows read, {len(shown)} lie there and {len(log.rows[level])} were written"
    else:
        _check_committed(found, shown)
    word = _word(log, told, seen)
    assert word != LOST_END or told.recovery_point is not None or not _is_told_by_a_snapshot(log, disk, seen), (
        f"{level.value}: {missing} rows missing, and a snapshot above the end tells of them"
    )
    if word == OTHER_START:
        first = max(told.log_start_offset, log.log_start_offset)
        written = [part_of(row, columns) for row in log.rows[level] if row[0] >= first]
        assert [row for row in found if row[0] >= first] == written, f"{level.value}: others, though all is whole"
    return word


def part_of(row: Row, columns: Sequence[int]) -> Row:
    """Some of a row's columns."""
    return tuple(row[column] for column in columns)


def _check_committed(found: list[Row], shown: list[Row]) -> None:
    """In order, none that does not lie there, and none of an aborted transaction whose marker is still there."""
    rest = iter(shown)
    assert all(row in rest for row in found), "committed rows that do not lie there, or not in order"


def _word(log: SoundLog, told: Told, seen: Seen) -> str:
    if seen.is_torn:
        return TORN_END if told.recovery_point is None else UNSYNCED_END
    written = [_key(log.disk, batch.path, batch.position, batch.end) for batch in log.batches]
    offsets = [batch.base_offset for batch in log.batches]
    if seen.keys == written:
        return OTHER_START if seen.base_offsets == offsets else SHIFTED
    count = len(seen.keys)
    if seen.keys == written[:count]:
        return LOST_END
    if seen.keys == written[len(written) - count :]:
        return LOST_START
    rest = iter(written)
    return HOLE if all(key in rest for key in seen.keys) else OTHER_FILE


def _is_told_by_a_snapshot(log: SoundLog, disk: FrozenFileSystem, seen: Seen) -> bool:
    """Whether a sound snapshot of producers lies above the end, which the log reached when that was made."""
    for path, data in disk.files.items():
        if path.startswith(log.directory + "/") and path.endswith(file_names.SNAPSHOT):
            with suppress(LogStoreError):
                checkpoints.decode_snapshot(data)
                if (file_names.base_offset_of(path.rpartition("/")[2]) or 0) > seen.end_offset:
                    return True
    return False


# The files at the root


def told_by(log: SoundLog, disk: FrozenFileSystem) -> Told:
    recovery_points, log_starts, cleaned = (
        _offsets_in(disk, name)
        for name in (
            file_names.RECOVERY_POINT_CHECKPOINT,
            file_names.LOG_START_OFFSET_CHECKPOINT,
            file_names.CLEANER_OFFSET_CHECKPOINT,
        )
    )
    key = (log.topic, log.partition)
    recovery_point = (recovery_points or {}).get(key)
    log_start_offset = (log_starts or {}).get(key, 0)
    has_holes = cleaned is None or key in cleaned or "compact" in _configs(log, disk).get("cleanup.policy", "delete")
    is_described = _is_described(log, disk)
    if not has_holes and not is_described:  # a topic of which any partition was compacted is compacted
        has_holes = log.topic in {topic for topic, _ in cleaned or ()}
    if has_holes or is_described:
        return Told(recovery_point, log_start_offset, has_holes, has_holes)
    is_copied = recovery_point is None
    has_no_cleaner = f"{ROOT}/{file_names.CLEANER_OFFSET_CHECKPOINT}" not in disk.files
    return Told(recovery_point, log_start_offset, is_copied or has_no_cleaner, is_copied)


def _offsets_in(disk: FrozenFileSystem, name: str) -> Mapping[tuple[str, int], int] | None:
    """Of a checkpoint, nothing where there is none; None where it cannot be read."""
    try:
        return checkpoints.decode_offsets(disk.files[f"{ROOT}/{name}"])  # type: ignore[return-value]
    except KeyError:
        return {}
    except LogStoreError:
        return None


def _configs(log: SoundLog, disk: FrozenFileSystem) -> Mapping[str, str]:
    try:
        return decode_topics(disk.files[f"{ROOT}/{TOPICS_FILE}"])[log.topic].configs
    except (KeyError, LogStoreError):
        return COORDINATOR_TOPICS.get(log.topic, {})


def _is_described(log: SoundLog, disk: FrozenFileSystem) -> bool:
    try:
        return log.topic in decode_topics(disk.files[f"{ROOT}/{TOPICS_FILE}"])
    except (KeyError, LogStoreError):
        return False


# The partition's files


def look(log: SoundLog, disk: FrozenFileSystem, told: Told) -> Seen:
    """Walk the logs of the partition, up to the first fault."""
    paths = [path for path in disk.files if path.startswith(log.directory + "/") and path.endswith(file_names.LOG)]
    bases = {path: file_names.base_offset_of(path.rpartition("/")[2]) or 0 for path in paths}
    ordered = sorted(paths, key=bases.__getitem__)
    first = bases[ordered[0]] if ordered else 0
    seen = Seen([], [], [], first, max(told.log_start_offset, first))
    behind = first  # the offset at which the next batch must begin, or above it
    for path, following in pairwise([*ordered, None]):
        assert path is not None
        if bases[path] < behind:
            seen.fault = f"{path} begins before the one before it ends"
        elif bases[path] > behind and not told.has_gaps:
            seen.fault = f"offsets {behind} to {bases[path] - 1} are in no segment"
        else:
            behind = _walk(seen, disk, path, max(behind, bases[path]), told, is_last=following is None)
        if following is not None and seen.fault is not None and behind == bases[following] and not seen.is_wrong:
            seen.fault = None  # more bytes than there should be, at the end of a segment of which nothing is missing
        if seen.fault is not None:
            return seen
    return seen


def _walk(seen: Seen, disk: FrozenFileSystem, path: str, behind: int, told: Told, *, is_last: bool) -> int:
    """One segment; the offset behind it."""
    data = np.frombuffer(disk.files[path], dtype=np.uint8)
    scan = formats.scan(data)
    headers = scan.headers
    sound = formats.checksums_match(data, headers)
    for row in range(len(headers)):
        header = headers[row : row + 1]
        position, size = int(header.table["position"][0]), int(header.table["size"][0])
        base, last = _offsets(data, header)
        if not sound[row]:
            seen.fault = f"{path} has a wrong checksum at {position}"
            seen.is_torn = is_last and _is_torn(data[position:].tobytes(), told, seen.first_segment)
        elif last < base or base < behind or (base > behind and not told.has_holes):
            seen.fault = f"{path} has offsets {base} to {last} at {position}, {behind} is next"
        if seen.fault is not None:
            seen.is_wrong = True
            return behind
        try:
            records = formats.decode(data, header).records
        except LogStoreError as error:
            seen.fault, seen.is_wrong = f"{path} at {position}: {error}", True
            return behind
        if not headers.is_control[row]:
            seen.rows += rows_of(records)
        seen.keys.append(_key(disk, path, position, position + size))
        seen.base_offsets.append(int(header.table["base_offset"][0]))
        behind = seen.end_offset = last + 1
    if scan.end < len(data):
        seen.fault = f"{path} holds no batch at {scan.end}"
        seen.is_torn = is_last and _is_torn(data[scan.end :].tobytes(), told, seen.first_segment)
    return behind


def _offsets(data: np.ndarray, header: BatchHeaders) -> tuple[int, int]:
    """First and last; of the older formats the first lies within."""
    table = header.table
    if table["magic"][0] >= 2 or header.codec[0] == 0:
        return int(table["base_offset"][0]), int(table["last_offset"][0])
    try:
        found = formats.decode(data, header).records.offsets
    except LogStoreError:
        return 0, -1
    return int(found[0]), int(found[-1])


def _key(disk: FrozenFileSystem, path: str, position: int, end: int) -> tuple[int, bytes]:
    """What tells a batch from another, whatever its offset and its leader epoch."""
    data = disk.files[path][position:end]
    is_new = data[16] >= 2
    return data[16], data[17:] if is_new else data[LOG_OVERHEAD:]


def _is_torn(rest: bytes, told: Told, lowest: int) -> bool:
    """An incomplete batch, or space that was never written, and nothing sound behind its beginning.

    Behind a recovery point a crash may leave anything that is not sound.
    """
    if any(_is_sound_at(rest, at) for at in _starts(rest, range(lowest, lowest + INT32_MAX + 1))):
        return False
    written = len(rest.rstrip(b"\0"))
    if told.recovery_point is not None or not written or len(rest) < LOG_OVERHEAD:
        return True
    size = int.from_bytes(rest[LENGTH_AT:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
    is_incomplete = size > len(rest) or written < size < len(rest)
    is_header = size > HEADER_UP_TO_MAGIC and all(magic <= v2.MAGIC for magic in rest[MAGIC_AT:HEADER_UP_TO_MAGIC])
    return is_header and is_incomplete and not _is_whole(rest)


def _is_whole(rest: bytes) -> bool:
    """Whether its length alone is wrong."""
    length = (len(rest) - LOG_OVERHEAD).to_bytes(4, "big")
    return _is_sound_at(rest[:LENGTH_AT] + length + rest[LOG_OVERHEAD:], 0)


def _starts(rest: bytes, offsets: range) -> Iterable[int]:
    """Where a batch of these offsets could begin: a magic that is known, and a length that fits."""
    for at in range(1, len(rest) - MAGIC_AT):
        length = int.from_bytes(rest[at + LENGTH_AT : at + LOG_OVERHEAD], "big", signed=True)
        is_here = int.from_bytes(rest[at : at + LENGTH_AT], "big", signed=True) in offsets
        if is_here and 0 <= rest[at + MAGIC_AT] <= v2.MAGIC and 14 <= length <= len(rest) - at - LOG_OVERHEAD:
            yield at


def _is_sound_at(rest: bytes, at: int) -> bool:
    data = np.frombuffer(rest[at:], dtype=np.uint8)
    headers = formats.scan(data, batches_max=1).headers
    return len(headers) == 1 and bool(formats.checksums_match(data, headers)[0])
