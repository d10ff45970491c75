"""PositionLog: a partition of Kafka 0.7, open for appends.

One process at a time has it open, which the lock of its directory ensures. Appends, syncs and deletions exclude each
other; any thread may read at any time, and keeps the segments that it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import NamedTuple

from ...storage.clock import Clock
from ...storage.errors import StorageError
from ...storage.file_times import EARLIEST, LATEST, SegmentTime, offsets_before
from ...storage.filesystem.operations import make_directory_durably, not_a_link
from ...storage.filesystem.port import FileSystem
from .entries import checked_set
from .last_file import recover, warn_of_bad_end
from .names import segment_name
from .segments import Segment, open_segments, segment_at
from .settings import PositionLogSettings


class Appended(NamedTuple):
    """The position of a written set. The set is durable, and visible to readers, once the log is synced."""

    position: int  # of its first entry
    end: int  # behind its last
    messages: int


class Chunk(NamedTuple):
    """Bytes of one segment, for the answer to a fetch."""

    segment: Segment | None  # None: no bytes, at the end of the log
    position: int  # in the segment's file
    length: int  # bytes, which may end inside an entry

    def read(self) -> memoryview:
        """Returns the bytes. Raises OSError if they cannot be read."""
        return self.segment.file.read(self.position, self.length) if self.segment else memoryview(b"")


class PositionLog:
    """A partition whose offsets are byte positions in everything that was ever appended to it."""

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        settings: PositionLogSettings,
        clock: Clock,
        *,
        topic: str,
        recovers: bool,
    ) -> None:
        """Opens the partition in ``directory``, which is created if missing, at position 0 if it has no segment.

        ``recovers``: the log was not closed in order, so its last file is cut after its last good message. Raises
        NotALogDirError or MissingSegmentError for files that are not a log, and the errors of
        :func:`.last_file.recover`.
        """
        self.directory, self.topic, self.settings = directory, topic, settings
        self._filesystem, self._clock = filesystem, clock
        self._lock = RLock()  # Guards the segments, the failure and the count.
        self._failure: OSError | None = None
        self._unsynced_messages = 0
        self._segments = tuple(self._opened(recovers))
        self.synced_ms = clock.now_ms()

    def _opened(self, recovers: bool) -> Iterator[Segment]:
        make_directory_durably(self._filesystem, not_a_link(self._filesystem, self.directory))
        *closed, last = open_segments(self._filesystem, self.directory) or [self._created(0)]
        yield from closed
        file = self._filesystem.open(last.path, "write")
        if recovers:
            recover(file)
        else:
            warn_of_bad_end(file)
        size = file.size()
        yield Segment(file, last.start, size, size)

    def _created(self, start: int) -> Segment:
        """Creates a segment. After a crash its file is there or not; an empty one does no harm."""
        file = self._filesystem.open(f"{self.directory}/{segment_name(start)}", "create")
        self._filesystem.sync_directory(self.directory)
        return Segment(file, start, 0, 0)

    @property
    def segments(self) -> Sequence[Segment]:
        """The current segments, the active one last."""
        return self._segments

    @property
    def start(self) -> int:
        """The first position that the log still has."""
        return self._segments[0].start

    @property
    def end(self) -> int:
        """The position after the synced messages; readers see only those before it."""
        return self._segments[-1].end

    @property
    def size(self) -> int:
        """Bytes that readers see."""
        return sum(each.visible for each in self._segments)

    @property
    def unsynced_bytes(self) -> int:
        """Bytes that were written, but not synced yet."""
        return self._segments[-1].size - self._segments[-1].visible

    @property
    def has_failed(self) -> bool:
        """Whether a write failed, so that nothing can be appended any more."""
        return self._failure is not None

    # Writing

    def append(self, data: bytes | bytearray | memoryview) -> Appended:
        """Writes the whole messages of a set, and syncs the log if ``log.flush.interval`` messages are not synced yet.

        Before that, a file above ``log.file.size`` is closed and a new one begun, even for an empty set. After a crash
        the file may end with a part of the set. Raises the errors of :func:`.entries.checked_set`, with nothing
        written; raises StorageError if the disk fails, or has failed earlier: the log must be opened again.
        """
        message_set = checked_set(data, self.settings.max_message_size, self.settings.max_decompressed_bytes)
        with self._writing():
            if self._segments[-1].size > self.settings.file_size:
                self._roll()
            segment = self._segments[-1]
            position = segment.start + segment.size
            if message_set.data:
                segment.file.write(segment.size, message_set.data)
                segment.size += len(message_set.data)
            self._unsynced_messages += message_set.messages
            if self._unsynced_messages >= self.settings.flush_interval:
                self._sync()
            return Appended(position, segment.start + segment.size, message_set.messages)

    def sync(self) -> None:
        """Makes all appended messages durable and visible. Raises StorageError if the disk fails."""
        with self._writing():
            self._sync()

    def sync_if_due(self) -> None:
        """Syncs the log if its last sync is as long ago as its topic's settings say."""
        if self.unsynced_bytes and self._clock.now_ms() - self.synced_ms >= self.settings.flush_ms_of(self.topic):
            self.sync()

    def _sync(self) -> None:
        segment = self._segments[-1]
        size = segment.size
        if size > segment.visible:
            segment.file.sync()
            segment.visible = size
            self.synced_ms = self._clock.now_ms()
        self._unsynced_messages = 0

    def _roll(self) -> None:
        """Begins a new segment, after a sync, because a segment's name states the end of the previous one."""
        self._sync()
        self._segments = (*self._segments, self._created(self._segments[-1].end))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            if self._failure is not None:
                raise StorageError(
                    f"{self.directory}: an earlier write failed ({self._failure}); open the log again to recover"
                )
            try:
                yield
            except OSError as error:
                self._failure = error
                raise StorageError(f"{self.directory}: {error}; open the log again to recover") from error

    # Reading

    def read(self, position: int, length: int) -> Chunk:
        """Returns up to ``length`` bytes from ``position`` on, all of one segment; none at the end of the log.

        It is not checked that an entry begins at ``position``, and the chunk may end inside one. A negative ``length``
        is kept in the result. Raises OffsetOutOfRangeError for a position before the log's start or after its end.
        """
        segment = segment_at(self._segments, position)
        if segment is None:
            return Chunk(None, 0, 0)
        at = position - segment.start
        return Chunk(segment, at, min(length, segment.visible - at))

    def offsets_before(self, time_ms: int, count: int) -> list[int]:
        """Returns up to ``count`` positions at which files began at or before a time, the latest first.

        See :func:`.file_times.offsets_before`.
        """
        segments = self._segments
        times = [SegmentTime(each.start, self._modified_ms(each)) for each in segments]
        if segments[-1].visible:
            times.append(SegmentTime(segments[-1].end, self._clock.now_ms()))
        return offsets_before(times, time_ms, count)

    def _modified_ms(self, segment: Segment) -> int:
        status = self._filesystem.status(segment.path)
        return 0 if status is None else status.modified_ms

    # Deleting

    def delete_while(self, is_deleted: Callable[[int, int], bool]) -> list[str]:
        """Deletes the first segments for which ``is_deleted(size, modified_ms)`` holds; returns their paths.

        If it holds for all, a new segment is begun at the end of the log; an empty last one stays, with a new file
        time. After a crash some of them are deleted, the oldest first. Readers that have one open read on.
        """
        with self._writing():
            count = 0
            for segment in self._segments:
                if not is_deleted(segment.visible, self._modified_ms(segment)):
                    break
                count += 1
            if count == len(self._segments):
                count -= self._keep_end()
            deleted, self._segments = self._segments[:count], self._segments[count:]
            for segment in deleted:
                self._filesystem.remove(segment.path)
            return [each.path for each in deleted]

    def _keep_end(self) -> int:
        """Keeps the log's end if all segments would be deleted; returns how many segments stay."""
        if self._segments[-1].size:
            self._roll()
            return 0
        self._filesystem.set_modified(self._segments[-1].path, self._clock.now_ms())
        return 1

    def close(self) -> None:
        """Syncs appended messages, and closes the files. Raises StorageError if that fails."""
        try:
            if self._failure is None:
                self.sync()
        finally:
            for segment in self._segments:
                segment.file.close()


def offsets_without_log(time_ms: int) -> list[int]:
    """Returns 0.7's answer for a partition without a log: [0] for the latest and the earliest."""
    return [0] if time_ms in (LATEST, EARLIEST) else []
