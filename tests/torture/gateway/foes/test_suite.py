"""The suite on an object store, and its checks, which find what they are for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_commitlog.storage import Isolation
from tests.torture.gateway.foes.attacks import FOREIGN
from tests.torture.gateway.foes.suite import SUITE
from tests.torture.gateway.foes.world import Row, Values, check_seen
from tests.torture.suite import Run

LOG = {0: [(0, b"a"), (1, b"b"), (3, b"c")], 1: [(0, b"d")]}
COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED


def seen(isolation: Isolation = COMMITTED) -> Values:
    return Values("r", isolation, "t", {partition: list(rows) for partition, rows in LOG.items()})


@pytest.mark.slow
@pytest.mark.only_all
def test_a_short_run_on_an_object_store_finds_no_fault(tmp_path: Path) -> None:
    run = Run(1, tmp_path, count=2, first=1)
    SUITE.run(run)
    assert run.faults == []


@pytest.mark.parametrize("isolation", Isolation)
def test_a_sound_reader_passes(isolation: Isolation) -> None:
    check_seen(seen(isolation), LOG)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lambda rows: rows.pop(), id="lost"),
        pytest.param(lambda rows: rows.append(rows[-1]), id="doubled"),
        pytest.param(list.reverse, id="backwards"),
        pytest.param(lambda rows: rows.append((9, FOREIGN)), id="of a hostile client"),
    ],
)
@pytest.mark.parametrize("isolation", Isolation)
def test_a_fault_is_found_at_each_isolation_level(fault: Callable[[list[Row]], object], isolation: Isolation) -> None:
    found = seen(isolation)
    fault(found.rows[0])
    with pytest.raises(AssertionError):
        check_seen(found, LOG)


def test_only_a_reader_of_uncommitted_records_may_see_an_aborted_one() -> None:
    for isolation in Isolation:
        found = seen(isolation)
        found.rows[0].insert(2, (2, b"aborted"))
        if isolation is UNCOMMITTED:
            check_seen(found, LOG)
        else:
            with pytest.raises(AssertionError, match="not in the log"):
                check_seen(found, LOG)
