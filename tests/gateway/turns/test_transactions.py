"""The same random transactions to a gateway that serves requests together, and to one that serves one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.gateway.network import together
from tests.support.produce_pairs import CLIENTS, paired
from tests.support.transaction_pairs import TOPICS, differences, different_files

SEEDS, REQUESTS = 4, 30  # of each client


def test_answers_logs_indexes_and_producers_of_transactions_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "IN_VAIN_MAX", 10**9)
    with paired(tmp_path) as pair:
        pair.create(TOPICS)
        before = pair.served_together
        for seed in range(SEEDS):
            assert differences(pair, str(seed), REQUESTS) == []
        assert pair.served_together - before > 0.05 * SEEDS * REQUESTS * CLIENTS
    assert different_files(pair) == []
