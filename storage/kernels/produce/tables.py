"""ProduceTables: the arrays of the kernels in this package, and their results as named numbers.

The kernels are imported when the first object is created, because importing numba takes a third of a second. Arrays are
reserved once, and the system gives memory for them as they are used. Everything belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import columns

CONNECTIONS_MAX = 32  # at once
MEMORY_BYTES = 4 << 20  # shared by what connections have sent
ROOM_BYTES_MAX = 256 << 10  # for one of them; uncounted, if it is put back
PARTITIONS_MAX = 4096
FRAMES_MAX, BATCHES_MAX = 512, 1024  # at once; the system writes no more than 1,024 buffers together
_TAKEN = [columns.AT, columns.SIZE, columns.RECORDS, columns.MAX_TIMESTAMP, columns.OFFSET, columns.SEQUENCE]
_ANSWER_BYTES_MAX = 320 * BATCHES_MAX + 64 * FRAMES_MAX


class FoundConnection(NamedTuple):
    """The requests found in the bytes of one connection; positions are those in the memory."""

    start: int
    end: int
    frames_max: int
    frame_first: int
    frame_stop: int
    stop: int  # of the last request that is listed
    state: int  # why the list ends: PARTIAL, OTHER or FULL
    name_at: int  # the topic of the partition that is not in the table, if that is the reason
    name_bytes: int  # 0: it is not
    number: int
    out: int
    out_stop: int


class FoundFrame(NamedTuple):
    """A plain request."""

    end: int
    version: int
    correlation_id: int
    first: int  # of its batches
    stop: int
    id_at: int  # the transactional id of its batches
    id_bytes: int  # 0: they are of no transaction
    acks: int  # 0: it has no answer


class FoundBatch(NamedTuple):
    """A batch of a plain request, for the partition with the row ``part``."""

    part: int
    at: int
    size: int
    records: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    sequence: int
    crc: int
    topic_at: int
    topic_bytes: int
    opens: int
    offset: int
    log_start: int
    codec: int  # 0: not compressed; otherwise its records and their times are not checked
    smallest_timestamp: int  # ms; only of one that is not compressed
    answer_at: int  # unknown until the answers are encoded
    is_whole: int  # unknown in a search


class Room(NamedTuple):
    """The end of a log, and what there is room for."""

    end_offset: int
    offset_max: int
    bytes_left: int
    entries_left: int  # of the index that is full first
    since_entry: int  # bytes since the last entry
    interval: int  # bytes after which there is another one
    latest_ms: int  # the largest time of a record
    leader_epoch: int
    log_start: int


class Taken(NamedTuple):
    """What :meth:`ProduceTables.take_run` took."""

    count: int
    end_offset: int
    entries_left: int
    since_entry: int


class TakenBatch(NamedTuple):
    """A batch that has its offset."""

    at: int
    size: int
    records: int
    max_timestamp: int
    offset: int
    sequence: int


class Found(NamedTuple):
    """The results of a search; connections refer to frames by number, and frames to batches."""

    connections: Sequence[FoundConnection]
    frames: Sequence[FoundFrame]
    batches: Sequence[FoundBatch]


class ProduceTables:
    """The tables of one thread."""

    CONNECTIONS_MAX = CONNECTIONS_MAX
    PARTIAL, OTHER, FULL = columns.PARTIAL, columns.OTHER, columns.FULL

    def __init__(self) -> None:
        from .answers import encode_answers  # noqa: PLC0415  loads numba, for which a gateway without producers has no need
        from .requests import bucket_of, find_request, find_requests  # noqa: PLC0415
        from .runs import take_run  # noqa: PLC0415

        self._find, self._find_one, self._encode, self._bucket_of = (
            find_requests,
            find_request,
            encode_answers,
            bucket_of,
        )
        self._take_run = take_run
        self._received = np.empty(MEMORY_BYTES, np.uint8)
        self.memory = memoryview(self._received)
        self._connections = np.zeros((CONNECTIONS_MAX, columns.CONNECTION_FIELDS), np.int64)
        self._frames = np.zeros((FRAMES_MAX, columns.FRAME_FIELDS), np.int64)
        self._batches = np.zeros((BATCHES_MAX, columns.BATCH_FIELDS), np.int64)
        self._partitions = np.zeros((PARTITIONS_MAX, columns.PARTITION_FIELDS), np.int64)
        self._names = np.zeros((PARTITIONS_MAX, columns.TOPIC_BYTES_MAX), np.uint8)
        self._buckets = np.zeros(4 * PARTITIONS_MAX, np.int64)
        self._out = np.empty(_ANSWER_BYTES_MAX, np.uint8)
        self._connection_cells, self._batch_cells = _cells(self._connections), _cells(self._batches)
        self._count = 0  # of connections
        self._room = ROOM_BYTES_MAX
        self._rows = 0  # of partitions

    def load(self) -> None:
        """Loads or compiles the kernels, on nothing."""
        self.find(0)
        with self.reading(memoryview(bytearray(columns.FRAME_BYTES_MIN))):
            self.find_one(0)
            self.take_run(0, 0, Room(0, 0, 0, 0, 0, 0, 0, 0, 0))
            self.answers()

    # Partitions

    def add_partition(self, topic: bytes, number: int) -> int | None:
        """Adds a partition that is not in the table yet, and returns its row; None: there is no room."""
        if self._rows == PARTITIONS_MAX or len(topic) > columns.TOPIC_BYTES_MAX:
            return None
        row, name = self._rows, np.frombuffer(topic, np.uint8)
        self._names[row, : len(topic)] = name
        self._partitions[row, columns.P_NUMBER], self._partitions[row, columns.P_TOPIC_BYTES] = number, len(topic)
        at = self._bucket_of(name, 0, len(topic), number, self._buckets)
        while self._buckets[at]:
            at = (at + 1) % len(self._buckets)
        self._rows, self._buckets[at] = row + 1, row + 1
        return row

    def forget_partitions(self) -> None:
        """Makes room for others."""
        self._rows = 0
        self._buckets[:] = 0

    def set_limits(
        self,
        row: int,
        *,
        batch_bytes_max: int,
        needs_keys: bool,
        before_ms: int,
        after_ms: int,
        codecs: Iterable[int],
    ) -> None:
        """Sets the limits for the batches of a partition; only batches with one of ``codecs`` are plain.

        ``before_ms`` and ``after_ms``: how far from the present the time of a record may be.
        """
        mine = self._partitions[row]
        mine[columns.BATCH_BYTES_MAX], mine[columns.NEEDS_KEYS] = batch_bytes_max, needs_keys
        mine[columns.BEFORE_MS], mine[columns.AFTER_MS] = before_ms, after_ms
        mine[columns.CODECS] = sum(1 << codec for codec in set(codecs))

    # Requests

    def begin(self, connections: int) -> None:
        """Forgets the connections, and shares the memory among this many."""
        self._count, self._room = 0, min(MEMORY_BYTES // connections, ROOM_BYTES_MAX)

    @property
    def room(self) -> memoryview:
        """The memory for the bytes of the next connection."""
        start = self._count * self._room
        return self.memory[start : start + self._room]

    def add_connection(self, size: int, frames_max: int) -> None:
        """Adds a connection that has sent this many bytes, which are in :attr:`room`."""
        cells, at, start = self._connection_cells, self._count * columns.CONNECTION_FIELDS, self._count * self._room
        cells[at + columns.START], cells[at + columns.END], cells[at + columns.FRAMES_MAX] = (
            start,
            start + size,
            frames_max,
        )
        self._count += 1

    def find(self, now_ms: int) -> Found:
        """Finds the plain requests that the connections have sent."""
        return self._found(self._find(self._count, now_ms, *self._arrays))

    @contextmanager
    def reading(self, frame: memoryview) -> Iterator[None]:
        """Uses ``frame``, a request of any size without its length, as the memory of one connection."""
        before = self._received, self.memory
        self._received, self.memory, self._count = np.frombuffer(frame, np.uint8), frame, 1
        try:
            yield
        finally:
            self._received, self.memory = before

    def find_one(self, now_ms: int) -> Found:
        """Finds out whether the request that is being read is plain."""
        return self._found(self._find_one(now_ms, *self._arrays))

    @property
    def _arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """The arrays that a kernel reads and writes, in the order of its arguments."""
        tables = self._connections, self._frames, self._batches
        return self._received, *tables, self._names, self._buckets, self._partitions

    def _found(self, batches: int) -> Found:
        connections = [FoundConnection._make(each) for each in self._connections[: self._count].tolist()]
        frames = connections[-1].frame_stop if connections else 0
        return Found(
            connections,
            [FoundFrame._make(each) for each in self._frames[:frames].tolist()],
            [FoundBatch._make(each) for each in self._batches[:batches].tolist()],
        )

    def set_offset(self, batch: int, offset: int, log_start: int) -> None:
        """Sets the answer's fields for a batch."""
        at = batch * columns.BATCH_FIELDS
        self._batch_cells[at + columns.OFFSET], self._batch_cells[at + columns.LOG_START] = offset, log_start

    def set_whole(self, are_whole: Sequence[bool]) -> None:
        """Sets for all batches that were found whether their checksums are right."""
        self._batches[: len(are_whole), columns.IS_WHOLE] = are_whole

    def take_run(self, frame: int, stop: int, room: Room) -> Taken:
        """Gives the batches of requests from ``frame`` on their offsets, up to ``stop`` or the end of the run.

        The sequence of the first one is right. Each of the requests has one batch, of the same producer for the same
        partition, and of no transaction; the first that is otherwise, or for which there is no ``room``, ends the run.
        """
        found = self._take_run(self._received, self._frames, self._batches, frame, stop, *room)
        return Taken(*map(int, found))

    def taken(self, frame: int, count: int) -> list[list[int]]:
        """Returns the batches of requests that have one each and were taken, with the fields of TakenBatch."""
        first = int(self._frames[frame, columns.BATCH_FIRST])
        found: list[list[int]] = self._batches[first : first + count, _TAKEN].tolist()
        return found

    def set_frame_stop(self, connection: int, frame: int) -> None:
        """Leaves the requests of a connection from ``frame`` on without an answer."""
        self._connection_cells[connection * columns.CONNECTION_FIELDS + columns.FRAME_STOP] = frame

    def answers(self) -> list[bytes]:
        """Returns the answers to the requests of each connection, one after the other, with their lengths."""
        self._encode(
            self._count, self._received, self._connections, self._frames, self._batches, self._partitions, self._out
        )
        spans = self._connections[: self._count, columns.OUT : columns.OUT_STOP + 1].tolist()
        return [self._out[start:stop].tobytes() for start, stop in spans]

    def offset_positions(self, first: int, stop: int) -> list[int]:
        """Returns where batches have their offsets in the answers to their connection, if they have answers."""
        found: list[int] = self._batches[first:stop, columns.ANSWER_AT].tolist()
        return found


def _cells(table: Any) -> memoryview:
    """Returns the numbers of a table as one flat view: setting one takes less time than in an array."""
    return memoryview(table).cast("B").cast("q")
