"""Each fault of the table is absent here, and would be detected if it were not."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from tests.faults.fault import CHANGED, Fault
from tests.faults.table import FAULTS, pages

HELD = [fault for fault in FAULTS if fault.scenario is not None]


def told(fault: Fault) -> str:
    return f"{fault.number:02}-{fault.issue}"


def is_mistake(error: BaseException) -> bool:
    """Whether the changed line itself is wrong, so that it shows nothing."""
    raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
    return isinstance(error, NameError | AttributeError | ImportError) and raised_in.endswith(CHANGED)


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
    assert not is_mistake(seen.value)


def test_every_fault_has_a_scenario_or_a_reason() -> None:
    assert [fault.number for fault in FAULTS] == list(range(1, len(FAULTS) + 1))
    assert all((fault.scenario is None) == bool(fault.why_not) for fault in FAULTS)


@pytest.mark.parametrize("name", pages())
def test_the_page_shows_the_table(name: str) -> None:
    """``python -m tests.faults`` writes it."""
    assert (Path(__file__).parents[2] / "docs" / name).read_text() == pages()[name]
