"""Each fault of the table is absent here, and would be detected if it were not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.faults.fault import Fault
from tests.storage.faults.table import FAULTS, NUMBERS, page

HELD = [fault for fault in FAULTS if fault.scenario is not None]
MISTAKES = (NameError, SyntaxError, ImportError, AttributeError)  # of a mutation, not of the engine


def told(fault: Fault) -> str:
    return f"{fault.number:02}-{fault.issue}"


@pytest.mark.parametrize("fault", HELD, ids=told)
def test_the_fault_is_not_here(fault: Fault, tmp_path: Path) -> None:
    assert fault.scenario is not None
    fault.scenario(tmp_path)


@pytest.mark.parametrize("fault", HELD, ids=told)
def test_the_fault_put_back_is_seen(fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fault.scenario is not None
    assert fault.mutations
    for mutation in fault.mutations:
        mutation.apply(monkeypatch)
    with pytest.raises((Exception, pytest.fail.Exception)) as seen:
        fault.scenario(tmp_path)
    assert not isinstance(seen.value, MISTAKES)


def test_every_fault_has_a_scenario_or_a_reason() -> None:
    assert [fault.number for fault in FAULTS] == list(NUMBERS)
    assert all((fault.scenario is None) == bool(fault.why_not) for fault in FAULTS)


def test_the_page_shows_the_table() -> None:
    """``python -m tests.storage.faults > docs/known_faults.md`` writes it."""
    written = (Path(__file__).parents[3] / "docs" / "known_faults.md").read_text()
    assert written == page()
