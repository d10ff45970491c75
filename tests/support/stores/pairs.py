"""Pairs of gateways, as of ``produce_pairs``, over logs on object stores in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.root import open_root
from tests.support.produce_pairs import FIRST, STAMPED, Pair, paired
from tests.support.stores.served import ServedStores

URLS = {"apart": "s3://memory/one", "together": "s3://memory/two"}
LINGER_MS = 3


@contextmanager
def paired_on_stores(directory: Path, *, threads: int = 1) -> Iterator[Pair]:
    """A pair of gateways whose logs are in the memory of this process as long as the context is open."""
    with pytest.MonkeyPatch.context() as here:
        stores = ServedStores(here)
        for url in URLS.values():
            stores.create(url)
        with paired(directory, threads=threads, stores=URLS, commitlog_bucket_linger_ms=LINGER_MS) as pair:
            yield pair


def different_partitions(pair: Pair) -> list[str]:
    """The partitions whose batches, offsets or producers differ; not those with times that the logs have set."""
    one, two = (_partitions(open_root(pair.logs[name])) for name in pair.homes)
    return sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))


def _partitions(log: CommitLog) -> dict[str, Any]:
    """What each partition has, however it is spread over commits."""
    state, found = log.catch_up(), dict[str, Any]()
    for (topic_id, number), each in state.partitions.items():
        name = state.topics[topic_id].name
        if FIRST not in name and STAMPED not in name:
            producers = {key[2]: known for key, known in state.producers.items() if key[:2] == (topic_id, number)}
            batches = list(_batches(log, topic_id, number))
            found[f"{name}-{number}"] = batches, each.log_start, each.end, producers
    return found


def _batches(log: CommitLog, topic_id: str, number: int) -> Iterator[tuple[int, bytes]]:
    """Offsets and bytes of the batches of a partition; these begin after the base offset, which slices have from 0."""
    for one in log.state.slices(topic_id, number):
        buffer = np.frombuffer(log.store.get_range(one.key, one.position, one.size), np.uint8)
        for row in formats.scan(buffer).headers.table:
            at = int(row["position"])
            yield one.base + int(row["base_offset"]), buffer[at + 8 : at + int(row["size"])].tobytes()
