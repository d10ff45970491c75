"""Writes logs on an object store for tests of what reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.proposals import StagedWrite, commit_write
from pyspark_commitlog.storage.bucket.staging import StagedTopic, Stager, combined
from pyspark_commitlog.storage.bucket.stores.patience import Attempts, Patience
from pyspark_commitlog.storage.bucket.topics import create_topic, find_topic
from pyspark_commitlog.storage.clock import SystemClock
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.tables import Records
from tests.support.stores.commits import hex_id


def attempts() -> Attempts:
    return Attempts(Patience(), SystemClock(), Random(0))


def make_topic(log: CommitLog, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
    """Creates a topic and returns its id."""
    log.commit(lambda state: create_topic(state, name, partitions, configs))
    return find_topic(log.state, name).topic_id


def write(
    log: CommitLog,
    topic: str,
    records: Mapping[int, Sequence[Records]],
    *,
    batch_bytes_max: int = 1 << 20,
    limit: int = 32 << 20,
    fields: v2.BatchFields | None = None,
) -> None:
    """Writes tables of records, by partition, in one commit: a table is a batch or more, and all are of one task."""
    number = log.state.number + 1
    found = find_topic(log.state, topic)
    known = {topic: StagedTopic(found.topic_id, found.partitions, LogConfig.from_mapping(found.configs))}
    with Stager(log.store, hex_id(number), 0, 0, known, attempts, limit=limit) as stager:
        for partition, tables in records.items():
            for table in tables:
                encoded = v2.encode_batches(table, fields or v2.BatchFields(), batch_bytes_max=batch_bytes_max)
                stager.append(topic, partition, encoded)
        staged = combined([stager.finish()])
    log.commit(lambda state: commit_write(state, StagedWrite(hex_id(number), staged.objects, staged.slices)))
