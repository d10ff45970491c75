"""The same random requests to a gateway that serves them together, and to one that serves one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.produce_pairs import CLIENTS, different_files, paired

REQUESTS = 15  # of each client
ALWAYS = "pyspark_commitlog.gateway.network.together.IN_VAIN_MAX"


@pytest.mark.parametrize(("threads", "seeds"), [(1, 30), (3, 10)])
def test_answers_logs_indexes_snapshots_and_checkpoints_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, seeds: int
) -> None:
    with paired(tmp_path, threads=threads) as pair:
        for seed in range(seeds):
            if seed == seeds // 5:  # before, clients like these are soon not tried any more
                monkeypatch.setattr(ALWAYS, 10**9)
                before = pair.served_together
            assert pair.differences(seed, REQUESTS) == []
        share = (pair.served_together - before) / (seeds * REQUESTS * CLIENTS)
    assert share > 0.05
    assert different_files(pair) == []
