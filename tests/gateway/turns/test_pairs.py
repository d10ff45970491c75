"""The same random requests to a gateway that serves them together, and to one that serves one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.produce_pairs import CLIENTS, Pair, different_files, paired
from tests.support.stores.pairs import different_partitions, paired_on_stores

REQUESTS = 15  # of each client
REQUESTS_ON_STORES = 40  # of which fewer go together: while a commit is awaited, others wait for their turn
ALWAYS = "pyspark_commitlog.gateway.network.together.IN_VAIN_MAX"


@pytest.mark.parametrize(("threads", "seeds"), [(1, 30), (3, 10)])
def test_answers_logs_indexes_snapshots_and_checkpoints_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, seeds: int
) -> None:
    with paired(tmp_path, threads=threads) as pair:
        check_answers(pair, monkeypatch, seeds, REQUESTS, 0.05)
    assert different_files(pair) == []


@pytest.mark.parametrize(("threads", "seeds"), [(1, 4), (3, 3)])
def test_answers_batches_offsets_and_producers_on_an_object_store_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, seeds: int
) -> None:
    with paired_on_stores(tmp_path, threads=threads) as pair:
        check_answers(pair, monkeypatch, seeds, REQUESTS_ON_STORES, 0.02)
        assert different_partitions(pair) == []


def check_answers(pair: Pair, monkeypatch: pytest.MonkeyPatch, seeds: int, requests: int, least: float) -> None:
    """The answers are the same, and at least a share of the requests is served together until the end."""
    usual, before = seeds // 5, 0
    for seed in range(seeds):
        if seed == usual:  # before, clients like these are soon not tried any more
            monkeypatch.setattr(ALWAYS, 10**9)
            before = pair.served_together
        assert pair.differences(seed, requests) == []
    assert pair.served_together - before > least * seeds * requests * CLIENTS
