"""BucketPartition: a led partition whose log is on an object store.

Clients see committed records only: the high watermark is the end of the partition in the state. A read of records waits
for the store, so it is for threads that may wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TypeVar

from ....storage import (
    CommitLog,
    Isolation,
    LogConfig,
    LogManager,
    LogReader,
    LogWatcher,
    ProducerState,
    TopicPartition,
    UnknownTopicOrPartitionError,
    raise_log_start,
)
from ..led_partition import LedPartition, Slice, read_slice

NO_EPOCH = NO_OFFSET = -1

T = TypeVar("T")


class BucketPartition(LedPartition):
    """A partition on an object store. Others may commit to it at any time."""

    def __init__(
        self, topic: str, partition: int, log: CommitLog, topic_id: str, watcher: LogWatcher, configs: Mapping[str, str]
    ) -> None:
        """``watcher``: just opened; closed with :meth:`leave`. ``configs``: the topic's, read before that."""
        super().__init__(topic, partition)
        self.topic_id, self._configs = topic_id, configs
        self._log, self._watcher = log, watcher
        self._reading = Lock()  # of the watcher
        self._last_end, self._last_start = watcher.log_end_offset, watcher.log_start_offset
        self._woken_at: tuple[int, ...] = ()
        self._woken_at = self.ends

    @property
    def config(self) -> LogConfig:
        return self._watcher.context.config

    # Reading

    def slice(
        self, offset: int, max_bytes: int, isolation: Isolation, *, min_one_batch: bool, whole: bool = True
    ) -> Slice:
        with self._reading:
            return read_slice(self._caught_up(), offset, max_bytes, isolation, min_one_batch=min_one_batch, whole=whole)

    def _caught_up(self) -> LogWatcher:
        """Returns the watcher at the known state; sends no request to the store."""
        self._check_here()
        self._watcher.catch_up(self._watcher.checkpoints.read())
        return self._watcher

    @property
    def high_watermark(self) -> int:
        found = self._log.state.partitions.get((self.topic_id, self.partition))
        if found is not None:
            self._last_end = found.end
        return self._last_end

    @property
    def log_start_offset(self) -> int:
        found = self._log.state.partitions.get((self.topic_id, self.partition))
        if found is not None:
            self._last_start = found.log_start
        return self._last_start

    @property
    def leader_epoch(self) -> int:
        latest = self._watcher.epochs.latest  # the epoch of a copied log; records appended here have epoch 0
        return 0 if latest is None else latest.epoch

    def ask(self, question: Callable[[LogReader], T]) -> T:
        with self._reading:
            return question(self._caught_up())

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """Like :meth:`LedPartition.epoch_end`.

        Every epoch ends at the log end, because nothing is ever truncated here.
        """
        self._check_here()
        return (epoch, self.high_watermark) if 0 <= epoch <= self.leader_epoch else (NO_EPOCH, NO_OFFSET)

    def segment_times(self, now_ms: int) -> Sequence[tuple[int, int]]:
        """Like :meth:`LedPartition.segment_times`; a segment's time is the largest timestamp of its records."""

        def times(log: LogReader) -> Sequence[tuple[int, int]]:
            found = [each for each in log.describe_segments() if each.size]
            ends = [(log.log_end_offset, now_ms)] if found else [(log.log_start_offset, now_ms)]
            return [*((max(each.base_offset, log.log_start_offset), each.largest_timestamp) for each in found), *ends]

        return self.ask(times)

    def producers(self, now_ms: int) -> Mapping[int, ProducerState]:
        self._check_here()
        key = self.topic_id, self.partition
        with self._log.reading() as state:
            found = {each.producer_id: each for (*of, _), each in state.producers.items() if tuple(of) == key}
            for app, first in state.partitions[key].undecided.items():
                if (known := found.get(producer := state.open[app].transaction.producer_id)) is not None:
                    found[producer] = known._replace(current_txn_first_offset=first)
            return found

    # Deleting

    def delete_records(self, before_offset: int) -> int:
        self._log.catch_up()
        start = self.ask(lambda log: log.start_without_records(before_offset))
        self._log.commit(lambda state: raise_log_start(state, self.topic_id, self.partition, start))
        self.wake()
        return self.log_start_offset

    # Others

    @property
    def is_behind(self) -> bool:
        """Always True: only a request to the store can show whether others have committed."""
        return True

    @property
    def is_unsynced(self) -> bool:
        return False

    @property
    def is_busy(self) -> bool:
        return self._reading.locked()

    @property
    def is_usable(self) -> bool:
        return not self.is_gone and (self.topic_id, self.partition) in self._log.state.partitions

    @property
    def has_other_settings(self) -> bool:
        """Whether the settings of the topic have changed since the partition was opened."""
        topic = self._log.state.topics.get(self.topic_id)
        return topic is not None and topic.configs != self._configs

    def has_moved(self) -> bool:
        """Whether the high watermark or the last stable offset has changed since the last call. For one thread."""
        before, self._woken_at = self._woken_at, self.ends
        return before != self._woken_at

    @property
    def ends(self) -> tuple[int, ...]:
        """The high watermark and the last stable offset; the end of a transaction moves only the latter."""
        found = self._log.state.partitions.get((self.topic_id, self.partition))
        return self._woken_at if found is None else (found.end, found.stable_end)

    def leave(self) -> None:
        with self._reading:
            self.is_gone = True
            self._watcher.close()
        self.wake()

    def _check_here(self) -> None:
        if not self.is_usable:
            raise UnknownTopicOrPartitionError(f"{self.topic}-{self.partition} no longer exists")


def open_bucket_partition(manager: LogManager, wanted: TopicPartition) -> LedPartition:
    """Opens a partition of a log on an object store. Raises the errors of :meth:`LogManager.open_watcher`."""
    log = manager.bucket
    assert log is not None
    topic_id = log.state.topic_ids.get(wanted.topic)
    if topic_id is None:
        raise UnknownTopicOrPartitionError(f"there is no topic {wanted.topic!r}")
    topic = log.state.topics.get(topic_id)
    configs = {} if topic is None else topic.configs
    return BucketPartition(*wanted, log, topic_id, manager.open_watcher(*wanted), configs)
