"""A log directory as the target of a mirror, without a broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from ...storage import (
    Codec,
    Isolation,
    LogManager,
    TopicExistsError,
    TopicPartition,
    TransactionalWriter,
    TransactionCoordinator,
    TransactionPart,
    add_partitions,
    check_forwarded,
    target_compression,
)
from ..progress import CONFIGS, NextOffset, decoded, encoded, progress_topic
from ..sources.port import SourcePartition
from .port import Batches, Progress, Taking, TargetWriter


@dataclass(frozen=True)
class DirectoryTargets:
    """A log directory; it is created if it is missing."""

    directory: str
    timeout_ms: int

    def open(self, group: str) -> TargetWriter:
        return DirectoryWriter(self.directory, group, self.timeout_ms)

    def __str__(self) -> str:
        return self.directory


class DirectoryWriter:
    """Appends to the logs of a directory, in transactions that it coordinates itself."""

    def __init__(self, directory: str, group: str, timeout_ms: int) -> None:
        """Raises LogDirLockedError while another process mirrors the same group.id into the directory."""
        self._manager = LogManager.open(directory, create=True)
        try:
            self._manager.check_writable()
            self._place = TopicPartition(progress_topic(group), 0)
            self._manager.ensure_topic(self._place.topic, partitions=1, configs=CONFIGS)
            self._coordinator = TransactionCoordinator.open(
                self._manager, f"mirror-{group}", timeout_ms=timeout_ms, holder=f"the mirror of {group!r}"
            )
        except BaseException:
            self._manager.close()
            raise
        self._done = self._read_progress()

    def _read_progress(self) -> Progress:
        found: dict[SourcePartition, NextOffset] = {}
        with self._manager.open_reader(*self._place) as reader:
            end = reader.end_offset(Isolation.READ_COMMITTED)
            for records in reader.records(reader.log_start_offset, end, isolation=Isolation.READ_COMMITTED):
                found |= decoded(records)
        return found

    def progress(self, partitions: Iterable[SourcePartition]) -> Progress:
        return {each: self._done[each] for each in partitions if each in self._done}

    def prepare(self, topic: str, partitions: int, configs: Mapping[str, str], *, grow: bool) -> Taking:
        found = self._manager.find_topic(topic)
        if found is None:
            with suppress(TopicExistsError):  # the mirror of another source may be faster
                self._manager.create_topic(topic, partitions=partitions, configs=configs)
            found = self._manager.topic(topic)
        if grow and len(found.partitions) < partitions:
            found = add_partitions(self._manager, topic, partitions)
        config = self._manager.config(topic)
        codec = None if config.compression_type == "producer" else target_compression(config, Codec.NONE).codec
        return Taking(len(found.partitions), config.batch_size_max, codec)

    def write(self, batches: Batches, progress: Progress) -> None:
        now_ms = self._manager.clock.now_ms()
        for partition, some in batches.items():
            check_forwarded(some, now_ms=now_ms, config=self._manager.config(partition.topic))
        written = {**batches, self._place: encoded(progress, now_ms)}
        transaction = self._coordinator.begin(written)
        with self._coordinator.syncing(transaction) as unsynced:
            writer = TransactionalWriter(self._manager, transaction, unsynced=unsynced)
            for partition, some in written.items():
                writer.append(*partition, some)
            writer.sync()
        parts = [TransactionPart(*each, int(some.headers.table["count"].sum())) for each, some in written.items()]
        self._coordinator.commit(transaction, parts)

    def close(self) -> None:
        self._coordinator.close()
        self._manager.close()
