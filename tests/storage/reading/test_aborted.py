"""Many interleaved transactions: the committed records, however the log is divided and read."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.writing.log import Log
from tests.support.logs.building import append, end_transaction, open_log, open_reader, write_transactional


def write_at_random(log: Log, seed: int) -> list[int]:
    """Batches of five producers and plain ones, with random markers, some without data; returns committed offsets."""
    chance = random.Random(seed)
    pending: dict[int, list[int]] = {producer: [] for producer in range(5)}
    sequences, shown = dict.fromkeys(pending, 0), list[int]()
    for _ in range(60):
        producer, kind = chance.randrange(5), chance.random()
        if kind < 0.6:
            pending[producer].append(log.log_end_offset)
            write_transactional(log, producer, sequences[producer], b"x")
            sequences[producer] += 1
        elif kind < 0.7:
            shown.append(log.log_end_offset)
            append(log, b"plain")
        else:
            commit = chance.random() < 0.5
            end_transaction(log, producer, commit=commit)
            shown += pending[producer] if commit else []
            pending[producer] = []
    for producer, offsets in pending.items():
        end_transaction(log, producer, commit=True)
        shown += offsets
    return sorted(shown)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("segment_bytes", [700, 10**6])
def test_exactly_what_was_committed_of_many_producers_is_shown(tmp_path: Path, seed: int, segment_bytes: int) -> None:
    with open_log(tmp_path, segment_bytes=segment_bytes) as log:
        committed = write_at_random(log, seed)
    reader = open_reader(tmp_path)
    for fetch_bytes in (1, 500, 10**6):
        for start in (0, committed[len(committed) // 2]):
            pieces = reader.records(start, 10**6, isolation=Isolation.READ_COMMITTED, fetch_bytes=fetch_bytes)
            found = [offset for part in pieces for offset in part.offsets.tolist()]
            assert found == [offset for offset in committed if offset >= start]
