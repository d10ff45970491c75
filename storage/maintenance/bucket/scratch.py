"""A part of a partition on this machine, as Kafka's own files, for the operations on files.

A scratch directory has no other user, and is removed afterwards. Nothing in the bucket changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from uuid import uuid4

import numpy as np

from ... import format as formats
from ...bucket.commit_log import CommitLog
from ...bucket.commits.commit import Segment
from ...bucket.commits.state import PartitionState, Slice, Topic
from ...bucket.filler import is_filler
from ...bucket.stores.port import PUT_BYTES_MAX
from ...bucket.upkeep import Part, parts_of, replace_parts
from ...clock import Clock
from ...config import LogConfig
from ...errors import CorruptionError, ObjectMissingError, StorageError, UnknownTopicOrPartitionError
from ...filesystem.local import LocalFileSystem
from ...filesystem.operations import read_file
from ...filesystem.port import FileSystem
from ...filesystem.temporary import temporary_folder
from ...format import v2
from ...format.files import checkpoints, file_names
from ...prefetch import in_order
from ...reading.marks import KeptInMemory
from ...recovery.leader_epochs import LeaderEpochCache
from ...segment.joining import Holes
from ...segment.writer import LogSegment
from ...writing.log import Log

SEGMENT_BYTES_MAX = 120 << 20  # limit of a new segment; one put takes 128 MiB
SIDECARS = (file_names.INDEX, file_names.TIME_INDEX)
SMALL_BYTES_MAX = 64 << 20  # of what lies beside a segment
READS_AT_ONCE = 16
READ_AHEAD_BYTES = 64 << 20  # limit of parts that were read and not yet written, plus one part


@dataclass(frozen=True)
class Place:
    """A partition of a log on an object store."""

    log: CommitLog
    topic: Topic
    partition: int

    def __str__(self) -> str:
        return file_names.partition_directory(self.topic.name, self.partition)

    @property
    def parts(self) -> list[Part]:
        with self.log.reading() as state:  # other threads of this process may commit
            return parts_of(state, self.topic.topic_id, self.partition)

    @property
    def decided(self) -> list[Part]:
        """The parts below the first open transaction, which segments may replace."""
        end = self.state.stable_end
        return [part for part in self.parts if part.end <= end]

    @property
    def state(self) -> PartitionState:
        """Raises UnknownTopicOrPartitionError if the topic was deleted."""
        found = self.log.state.partitions.get((self.topic.topic_id, self.partition))
        if found is None:
            raise UnknownTopicOrPartitionError(f"{self.log.store.url}/{self}: the topic was deleted")
        return found

    def key(self, part: Part) -> str:
        """Returns the name of the object with a part's records."""
        if isinstance(part, Slice):
            return part.key
        return part.key(self.topic.topic_id, self.partition) + file_names.LOG


def read_part(place: Place, part: Part, epoch: int = 0) -> bytes:
    """Returns the batches of a part with their offsets in the partition, and leader epoch ``epoch`` if it is a slice.

    Checks all of them. Raises CorruptionError, with the object's name, if they are damaged or an object is missing that
    the log needs; StorageError if the log does not need it any more: another run was faster.
    """
    log, key = place.log, place.key(part)
    read = partial(_read_slice, place, part, epoch) if isinstance(part, Slice) else partial(_read_segment, place, part)
    try:
        return log.patient_store.repeated(read)
    except CorruptionError as error:
        raise error.located(f"{log.store.url}/{key}") from None
    except ObjectMissingError as error:
        log.catch_up()
        if part not in place.parts:
            raise StorageError(f"{place}: offset {part.base} has another object by now; run this again") from error
        raise CorruptionError("is missing, and the log needs it: restore it", path=f"{log.store.url}/{key}") from error


def _read_segment(place: Place, segment: Segment) -> bytes:
    data = place.log.store.get(place.key(segment), limit=PUT_BYTES_MAX)
    if hashlib.sha256(data).hexdigest() != segment.sha256:
        raise CorruptionError("is not what was committed: its SHA-256 is another one")
    return data


def _read_slice(place: Place, part: Slice, epoch: int) -> bytes:
    data = place.log.store.get_range(part.key, part.position, part.size)
    buffer = np.frombuffer(data, np.uint8).copy()
    headers = formats.scan(buffer).headers
    is_whole = len(headers) == part.batches and headers.end == part.size and headers.next_offset == part.records
    if not is_whole or (headers.table["magic"] != v2.MAGIC).any():
        raise CorruptionError("does not have the batches that were committed", position=part.position)
    try:
        formats.verify(buffer, headers)
    except CorruptionError as error:
        position = part.position + (error.position or 0)
        raise CorruptionError(error.reason, position=position) from None
    v2.stamp(buffer, headers, base_offset=part.base, leader_epoch=epoch)
    return buffer.tobytes()


@contextmanager
def scratch_log(
    place: Place,
    runs: Sequence[Sequence[Part]],
    config: LogConfig,
    clock: Clock,
    *,
    filesystem: FileSystem | None = None,
) -> Iterator[Log]:
    """Yields a log on this machine with one closed segment for each run of parts, and an empty one at the end.

    Recovery builds indexes, epochs, and snapshots, which continue the previous segment's snapshot. The directory is in
    the machine's folder for temporary files (``TMPDIR``), and is removed at the end of the ``with`` block. Raises as
    :func:`read_part`.
    """
    filesystem = filesystem or LocalFileSystem()
    with temporary_folder("commitlog-scratch-") as root:
        directory = file_names.join(root, str(place))
        fill(place, runs, directory, filesystem)
        _put_producers(place, runs[0][0].base, directory, filesystem)
        start = min(place.state.log_start, runs[-1][-1].end)  # retention may have passed the parts in the meantime
        marks = KeptInMemory(0, start, Holes.ANYWHERE)
        with Log.open(directory, config, clock=clock, filesystem=filesystem, checkpoints=marks) as log:
            yield log


def fill(place: Place, runs: Sequence[Sequence[Part]], directory: str, filesystem: FileSystem) -> None:
    """Writes a ``.log`` for each run of parts, and an empty one at their end. Reads several parts at a time."""
    filesystem.make_directory(directory)
    wanted = ((part, epoch) for run in runs for epoch in [_epoch_of(place, run)] for part in run)
    largest = max(1, *(part.size for run in runs for part in run))  # what compaction left may be empty
    at_once = min(READS_AT_ONCE, max(1, READ_AHEAD_BYTES // largest))
    with closing(in_order(lambda each: read_part(place, *each), wanted, at_once)) as read:
        for run in runs:
            path = file_names.join(directory, file_names.segment_file(run[0].base, file_names.LOG))
            with filesystem.open(path, "create") as file:
                position = 0
                for data in islice(read, len(run)):
                    file.write(position, data)
                    position += len(data)
    end = file_names.segment_file(runs[-1][-1].end, file_names.LOG)
    filesystem.open(file_names.join(directory, end), "create").close()


def _epoch_of(place: Place, run: Sequence[Part]) -> int:
    """Returns the leader epoch of the slices in a run; batches of segments have their own."""
    known = epochs_before(place, run[0].base).latest if isinstance(run[0], Slice) else None
    return known.epoch if known else 0


def _put_producers(place: Place, base: int, directory: str, filesystem: FileSystem) -> None:
    """Writes the snapshot of the producers at ``base``, if there is one, so that their earlier batches are known."""
    before = segment_before(place, base)
    data = read_beside(place, before, file_names.SNAPSHOT) if before else None
    if data is not None:
        path = file_names.join(directory, file_names.segment_file(base, file_names.SNAPSHOT))
        with filesystem.open(path, "create") as file:
            file.write(0, data)


def put_segment(
    place: Place,
    log: Log,
    segment: LogSegment,
    end: int,
    replaced: Sequence[Part],
    before: Sequence[Part] = (),
    *,
    is_compacted: bool = False,
    erased: int = 0,
    again_with: Mapping[str, bytes] | None = None,
) -> Segment | None:
    """Puts a closed segment of a scratch log and the files beside it, and commits it to replace ``replaced``.

    Returns None, and drops the result, if another run has changed these offsets, or those ``before``. If ``replaced``
    is one segment that is equal already, returns it and puts nothing, unless ``again_with`` is given: objects, by
    suffix, to put instead of those of the scratch log. ``erased``: records of ``replaced`` that it lacks on purpose.
    If the process is killed before the commit, the objects are garbage. Raises StorageError if the segment is too large
    for one put.
    """
    data = _read(place, segment)
    put = _described(segment, end, data, is_compacted=is_compacted)
    _check_copy(segment, data, put._replace(records=put.records + erased), replaced)
    only = replaced[0]
    if isinstance(only, Segment) and only == put._replace(uuid=only.uuid) and again_with is None:
        return only
    name = put.key(place.topic.topic_id, place.partition)
    beside = {**_beside(place, log, segment, end, replaced), **(again_with or {})}
    for kind, content in {**beside, file_names.LOG: data}.items():
        place.log.patient_store.put_unique(name + kind, content)
    ids = place.topic.topic_id, place.partition
    committed = place.log.commit(lambda state: replace_parts(state, *ids, put, replaced, before))
    return put if committed is not None else None


def _beside(place: Place, log: Log, segment: LogSegment, end: int, replaced: Sequence[Part]) -> dict[str, bytes]:
    """Returns the files to put beside a segment that ends at ``end``, by suffix."""
    filesystem, epochs = log.context.filesystem, epochs_before(place, segment.base_offset)
    for entry in log.epochs.entries:
        if entry.start_offset < end and (epochs.latest is None or entry.epoch > epochs.latest.epoch):
            epochs.assign(*entry)
    files = {kind: read_file(filesystem, segment.path(kind), SMALL_BYTES_MAX) for kind in SIDECARS}
    if (aborted := segment.path(file_names.TXN_INDEX)) and filesystem.status(aborted) is not None:
        files[file_names.TXN_INDEX] = read_file(filesystem, aborted, SMALL_BYTES_MAX)
    files[file_names.SNAPSHOT] = _kept_snapshot(place, end, replaced) or _snapshot(log, end)
    files[file_names.EPOCHS] = checkpoints.encode_leader_epochs(epochs.entries)
    return files


def epochs_before(place: Place, offset: int) -> LeaderEpochCache:
    """Returns the leader epochs up to the last segment that ends at ``offset`` or below; slices begin none."""
    before = segment_before(place, offset)
    data = read_beside(place, before, file_names.EPOCHS) if before else None
    return LeaderEpochCache(() if data is None else checkpoints.decode_leader_epochs(data))


def segment_before(place: Place, offset: int) -> Segment | None:
    """Returns the last segment that ends at ``offset`` or below."""
    segments = [part for part in place.parts if isinstance(part, Segment) and part.end <= offset]
    return segments[-1] if segments else None


def read_beside(place: Place, segment: Segment, kind: str) -> bytes | None:
    """Returns an object beside a segment; None if there is none."""
    log, key = place.log, segment.key(place.topic.topic_id, place.partition) + kind
    return log.patient_store.read(key, SMALL_BYTES_MAX, bytes)


def _read(place: Place, segment: LogSegment) -> bytes:
    if segment.size > PUT_BYTES_MAX:
        base = segment.base_offset
        raise StorageError(
            f"{place}: the segment at offset {base} would have {segment.size} bytes: lower segment.bytes"
        )
    return read_file(segment.context.filesystem, segment.path(file_names.LOG), PUT_BYTES_MAX)


def _check_copy(segment: LogSegment, data: bytes, put: Segment, replaced: Sequence[Part]) -> None:
    """Raises StorageError if the new segment lost records on this machine; the old parts are still whole.

    A segment made of slices has the same records as they. A compaction may drop some, which is not checked here.
    """
    buffer = np.frombuffer(data, np.uint8)
    headers = formats.scan(buffer).headers
    wrong = "" if headers.end == len(data) else f"{len(data) - headers.end} bytes at its end are no batch"
    try:
        formats.verify(buffer, headers)
    except CorruptionError as error:
        wrong = str(error)
    wanted = sum(part.records for part in replaced if isinstance(part, Slice) and not is_filler(part))
    if all(isinstance(part, Slice) for part in replaced) and not put.is_compacted and put.records != wanted:
        wrong = wrong or f"it has {put.records} records, and the slices have {wanted}"
    if wrong:
        path = segment.path(file_names.LOG)
        raise StorageError(
            f"{path}: this copy is damaged, and nothing was replaced; check this machine's disk: {wrong}"
        )


def _described(segment: LogSegment, end: int, data: bytes, *, is_compacted: bool) -> Segment:
    base, records, newest = segment.base_offset, 0, -1
    for window in segment.batches():
        records += segment.count_records(window)
        newest = max(newest, int(window.headers.table["max_timestamp"].max()))
    sha256 = hashlib.sha256(data).hexdigest()
    return Segment(base, end, uuid4().hex, len(data), records, newest, sha256, is_compacted)


def _kept_snapshot(place: Place, end: int, replaced: Sequence[Part]) -> bytes | None:
    """Returns the snapshot beside a replaced segment with the same end: it may have batches that were removed."""
    last = replaced[-1]
    data = read_beside(place, last, file_names.SNAPSHOT) if isinstance(last, Segment) and last.end == end else None
    try:
        return data if data and checkpoints.decode_snapshot(data) else None
    except CorruptionError:
        return None


def _snapshot(log: Log, end: int) -> bytes:
    """Returns the producers in the snapshot at a segment's end."""
    path = file_names.join(log.context.directory, file_names.segment_file(end, file_names.SNAPSHOT))
    try:
        return read_file(log.context.filesystem, path, SMALL_BYTES_MAX)
    except FileNotFoundError:
        return checkpoints.encode_snapshot(())
