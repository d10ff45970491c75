"""LedPartition: a partition that this gateway leads: its log, its high watermark, and the fetches that wait for it.

It is implemented by :class:`FilePartition`, in a directory, :class:`BucketPartition`, on an object store, and
:class:`DamagedPartition`, also in a directory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Event, Lock
from typing import NamedTuple, TypeVar

from ...storage import (
    CorruptionError,
    FetchData,
    Isolation,
    LogConfig,
    LogReader,
    OffsetOutOfRangeError,
    ProducerState,
    UnknownTopicOrPartitionError,
)
from ..network.file_slice import Part

T = TypeVar("T")
_Offsets = tuple[tuple[int, ...], int]  # the ends, and the log start offset


class Slice(NamedTuple):
    """The answer of a partition to a fetch: its offsets, and its records or where they are stored."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[tuple[int, int]] | None  # producer id, first offset; None: for readers of uncommitted records
    records: Part | None  # the caller releases it, by sending it or otherwise
    is_cut: bool  # there are records, and more would follow but for the limit of bytes


class InTierError(OffsetOutOfRangeError):
    """The offset is below the first segment of a log directory, and its records are in the tier: read them there."""


class LedPartition(ABC):
    """One partition. Its methods may be called from any thread; only one of them uses the log at a time."""

    damage: CorruptionError | None = None  # why nothing can be appended
    may_rest = False  # whether every move of its ends is noticed here, so that fetch sessions need not read it

    def __init__(self, topic: str, partition: int) -> None:
        self.topic, self.partition = topic, partition
        self.is_gone = False
        self._waiting = Lock()
        self._waiters: dict[Callable[[], None], _Offsets] = {}  # each with the offsets that it has seen
        self.passed_over: dict[int, int] = {}  # from an offset, the end of a range without records for old clients

    @property
    @abstractmethod
    def config(self) -> LogConfig:
        """The settings of the topic, as the log was opened with them."""

    # Reading

    @abstractmethod
    def slice(
        self, offset: int, max_bytes: int, isolation: Isolation, *, min_one_batch: bool, whole: bool = True
    ) -> Slice:
        """Returns the batches from ``offset`` on, or where they are stored, and the partition's offsets.

        At most ``max_bytes``, but with ``min_one_batch`` at least one batch. ``whole=False``: the last batch may be
        incomplete. Raises OffsetOutOfRangeError, InTierError, CorruptionError, StorageError.
        """

    @property
    @abstractmethod
    def high_watermark(self) -> int:
        """Readers with isolation level READ_UNCOMMITTED see the records below it."""

    @property
    @abstractmethod
    def log_start_offset(self) -> int:
        """The first offset that readers see."""

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that is not only in a tier."""
        return self.log_start_offset

    @property
    def in_tier(self) -> range | None:
        """The offsets at the start of the log that only a tier has and serves; None: there are none."""
        return None

    @property
    def is_tiered(self) -> bool:
        """Whether segments of the topic are copied to a tier that the gateway reads."""
        return False

    @property
    @abstractmethod
    def leader_epoch(self) -> int:
        """The leader epoch of newly appended records, or a newer one that the log has."""

    @abstractmethod
    def ask(self, question: Callable[[LogReader], T]) -> T:
        """Returns ``question(log)``; nothing else uses the log in the meantime."""

    @abstractmethod
    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """Returns the largest epoch up to ``epoch`` that the log has, and where it ends; -1 and -1 for an unknown one.

        See :meth:`LeaderEpochCache.end_offset_for`.
        """

    @abstractmethod
    def segment_times(self, now_ms: int) -> Sequence[tuple[int, int]]:
        """Returns each segment's first offset with its time in ms, then the log end offset with ``now_ms``."""

    @abstractmethod
    def producers(self, now_ms: int) -> Mapping[int, ProducerState]:
        """Returns the producers that have not expired, by their ids."""

    @property
    def is_empty(self) -> bool:
        """Whether readers see no record."""
        return self.log_start_offset >= self.high_watermark

    def end_offset(self, isolation: Isolation) -> int:
        """Returns the offset below which readers of an isolation level see records."""
        shown = self.high_watermark
        if isolation is Isolation.READ_UNCOMMITTED:
            return shown
        return min(self.ask(lambda log: log.last_stable_offset), shown)

    # Deleting

    @abstractmethod
    def delete_records(self, before_offset: int) -> int:
        """Raises the log start offset durably, and returns it; ``before_offset`` -1: to the high watermark.

        Raises PolicyViolationError if the topic is compacted and not also deleted from, OffsetOutOfRangeError above the
        high watermark, and StorageError.
        """

    # Others

    @property
    @abstractmethod
    def is_behind(self) -> bool:
        """Whether others may have appended records that are not read yet. Takes no lock, and waits for nothing."""

    @property
    @abstractmethod
    def is_unsynced(self) -> bool:
        """Whether this node has read records that it does not show yet; an earlier leader may have shown them."""

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """Whether a thread uses the log now, perhaps for long: then others wait for the methods that use it."""

    @property
    @abstractmethod
    def is_usable(self) -> bool:
        """Whether the log can be used; otherwise it is opened again."""

    @property
    def ends(self) -> tuple[int, ...]:
        """The offsets that move when waiting readers see more: the high watermark, which markers move, too."""
        return (self.high_watermark,)

    def is_still(self, high_watermark: int, log_start_offset: int) -> bool:
        """Whether the log can be used, and still begins and ends at these offsets. Takes no lock."""
        return self.high_watermark == high_watermark and self.log_start_offset == log_start_offset and self.is_usable

    def wait(self, seen: tuple[int, ...], waiter: Callable[[], None]) -> bool:
        """Calls ``waiter`` once, from any thread, when :attr:`ends` move.

        Returns False if they are not ``seen`` any more.
        """
        with self._waiting:
            # Register first: a thread that moves the ends checks for waiters afterwards.
            self._waiters[waiter] = seen, self.log_start_offset
            if self.is_gone or self.ends != seen:
                del self._waiters[waiter]
                return False
            return True

    def unwait(self, waiter: Callable[[], None]) -> None:
        """Cancels :meth:`wait` for ``waiter``."""
        with self._waiting:
            self._waiters.pop(waiter, None)

    @property
    def has_waiters(self) -> bool:
        """Whether a fetch waits for records, or a fetch session for its next request."""
        return bool(self._waiters)

    def wake(self) -> None:
        """Calls all waiters."""
        if not self._waiters:
            return
        with self._waiting:
            waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter()

    def wake_if_moved(self) -> None:
        """Calls the waiters that have seen other :attr:`ends`, or another log start, than the current ones."""
        if not self._waiters:
            return
        now = self.ends, self.log_start_offset
        with self._waiting:
            waiters = [waiter for waiter, seen in self._waiters.items() if seen != now]
            for waiter in waiters:
                del self._waiters[waiter]
        for waiter in waiters:
            waiter()

    @abstractmethod
    def leave(self) -> None:
        """Ends the use of the log, to delete the topic or to open it again."""

    def _check_here(self) -> None:
        if self.is_gone:
            raise UnknownTopicOrPartitionError(f"{self.topic}-{self.partition} no longer exists")


class Waits:
    """The partitions whose records fetches wait for. For any thread."""

    def __init__(self) -> None:
        self.any = Event()  # set while there are some
        self._guard = Lock()
        self._waiting: dict[Callable[[], None], Collection[LedPartition]] = {}

    def add(self, waiter: Callable[[], None], waits_for: Collection[LedPartition]) -> None:
        """Notes what a fetch waits for."""
        with self._guard:
            self._waiting[waiter] = waits_for
            self.any.set()

    def discard(self, waiter: Callable[[], None]) -> None:
        """Cancels :meth:`add`."""
        with self._guard:
            if self._waiting.pop(waiter, None) is not None and not self._waiting:
                self.any.clear()

    def all(self) -> set[LedPartition]:
        """Returns the partitions that a fetch waits for."""
        with self._guard:
            return set().union(*self._waiting.values())


def read_slice(
    log: LogReader, offset: int, max_bytes: int, isolation: Isolation, *, min_one_batch: bool, whole: bool
) -> Slice:
    """Returns the batches of a log like :meth:`LedPartition.slice`, but read, checked, and up to the log's end."""
    shown, start = log.log_end_offset, log.log_start_offset
    if not start <= offset <= shown:
        raise OffsetOutOfRangeError(f"offset {offset} is outside the log, which holds {start} to {shown}")
    found = None
    if max_bytes > 0 or min_one_batch:
        found = log.read(
            offset,
            max_bytes=max(max_bytes, 1),
            isolation=isolation,
            up_to=shown,
            min_one_message=min_one_batch or not whole,
        )
    aborted = () if found is None else [(each.producer_id, each.first_offset) for each in found.aborted]
    return Slice(
        shown,
        min(_last_stable_offset(log, isolation), shown),
        start,
        aborted if isolation is Isolation.READ_COMMITTED else None,
        None if found is None else _bytes_of(found, None if whole or min_one_batch else max_bytes),
        found is not None and found.window.headers.next_offset < min(log.end_offset(isolation), shown),
    )


def _last_stable_offset(log: LogReader, isolation: Isolation) -> int:
    """Returns the last stable offset; for readers of uncommitted records the log's end if damage hides it."""
    try:
        return log.last_stable_offset
    except CorruptionError:
        if isolation is Isolation.READ_COMMITTED:
            raise
        return log.log_end_offset


def _bytes_of(found: FetchData, max_bytes: int | None) -> bytes:
    """Returns the batches, the last of them cut off at ``max_bytes``; None: whole."""
    end = found.window.headers.end
    return found.window.buffer[: end if max_bytes is None else min(end, max_bytes)].tobytes()
