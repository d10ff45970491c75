"""What a log on an object store has, read from its commits and objects without the product's readers."""

from __future__ import annotations

import numpy as np

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.format.tables import Records


def values(log: CommitLog, topic: str) -> dict[int, list[bytes | None]]:
    """Returns the values of a topic by partition; checks that offsets have no gap."""
    found: dict[int, list[bytes | None]] = {}
    for number, tables in records(log, topic).items():
        found[number] = [value for each in tables if each.values is not None for value in each.values.to_list()]
    return found


def records(log: CommitLog, topic: str) -> dict[int, list[Records]]:
    """Returns the records of a topic by partition; none if there is no such topic."""
    state = log.state
    topic_id = state.topic_ids.get(topic)
    if topic_id is None:
        return {}
    return {number: _of_partition(log, topic_id, number) for number in range(state.topics[topic_id].partitions)}


def _of_partition(log: CommitLog, topic_id: str, number: int) -> list[Records]:
    tables, end = list[Records](), 0
    for one in log.state.slices(topic_id, number):
        assert one.base == end
        end = one.end
        buffer = np.frombuffer(log.store.get_range(one.key, one.position, one.size), np.uint8).copy()
        headers = formats.scan(buffer).headers
        formats.verify(buffer, headers)
        tables.append(formats.decode(buffer, headers).records)
        assert len(tables[-1]) == one.records
    return tables
