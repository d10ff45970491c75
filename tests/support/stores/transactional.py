"""Producers with a transactional id over a log on an object store, and what readers of its files find."""

from __future__ import annotations

from typing import Any

from pyspark_commitlog.storage.bucket.clients.appends import ClientBatch, append_batches
from pyspark_commitlog.storage.bucket.clients.transactions import AddedOffsets, ClientTransactions
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.commit import GroupOffset
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.recovery.producer_state import Producer
from pyspark_commitlog.storage.writing.append_info import AppendInfo
from pyspark_commitlog.storage.writing.checks.checked_batch import check_batch
from tests.support.logs.building import batch, config

PRODUCER = 7
TIMEOUT_MS = 60_000


def begun(log: CommitLog, name: str = "x", producer: int = PRODUCER) -> ClientTransactions:
    transactions = ClientTransactions(log)
    transactions.begin(name, Producer(producer, 0), TIMEOUT_MS)
    return transactions


class Client:
    """A producer with a transactional id, at a process of its own."""

    def __init__(self, log: CommitLog, name: str = "x", producer: int = PRODUCER) -> None:
        self.log, self.producer = log, producer
        self.transactions = begun(log, name, producer)
        self.sequences = {0: 0, 1: 0}

    def append(self, *values: bytes, partition: int = 0, sequence: int | None = None, **settings: Any) -> list[int]:
        """Returns the offsets that the records got."""
        at = self.sequences[partition] if sequence is None else sequence
        data = batch(*values, producer_id=self.producer, base_sequence=at, transactional=True).data
        with self.transactions.held(self.producer):
            opened = self.transactions.open(self.producer)
            sent = ClientBatch(self.log.state.topic_ids["t"], partition, check_batch(data, config(**settings)), opened)
            (found,) = append_batches(self.log, [sent])
        if not isinstance(found, AppendInfo):
            raise found
        self.sequences[partition] = at + len(values)
        return list(range(found.first_offset, found.last_offset + 1))

    def stage(self, offset: int, group: str = "g", name: str = "t-0") -> None:
        added = AddedOffsets(self.producer, group, {name: GroupOffset(offset, "")})
        with self.transactions.held(self.producer):
            (error,) = self.transactions.add_offsets([added])
        if error is not None:
            raise error

    def end(self, *, commit: bool) -> None:
        (error,) = self.transactions.end([(self.producer, commit)])
        if error is not None:
            raise error


def shown(log: CommitLog, isolation: Isolation = Isolation.READ_COMMITTED, partition: int = 0) -> dict[int, bytes]:
    """What a reader of the files finds: values by offset."""
    log.catch_up()
    files = BucketFileSystem(log)
    with LogManager.open(files.root, filesystem=files) as manager, manager.open_reader("t", partition) as reader:
        assert reader.log_end_offset == log.state.partitions[log.state.topic_ids["t"], partition].end
        tables = list(reader.records(0, reader.log_end_offset, isolation=isolation))
    return {
        offset: value or b""
        for each in tables
        if each.values is not None
        for offset, value in zip(each.offsets.tolist(), each.values.to_list(), strict=True)
    }
