"""All faults, and the pages that list them."""

from __future__ import annotations

from typing import NamedTuple

from tests.faults import (
    appending,
    cleaning,
    recovering,
    retaining,
)
from tests.faults.fault import Fault


class Table(NamedTuple):
    """Faults below a heading of a page."""

    heading: str
    faults: list[Fault]


def _in_order(*found: list[Fault]) -> list[Fault]:
    return sorted((each for some in found for each in some), key=lambda fault: fault.number)


OF_THE_LOG = [Table("", _in_order(appending.FAULTS, cleaning.FAULTS, recovering.FAULTS, retaining.FAULTS))]
FAULTS = [fault for table in OF_THE_LOG for fault in table.faults]
_LOG_PAGE = """# Faults that Kafka's log had

This page lists fifty-six faults of the log layer, with their numbers in Kafka's issue tracker. Each
has a scenario that passes here, and a changed line of the engine that puts the fault back;
`test_faults.py` in `tests/faults` verifies that the scenario fails with that line. A few faults cannot
occur here, for the reason given.

`python -m tests.faults` generates this page; a test compares it with the table.
"""
_COLUMNS = """
| | issue | what happened there | here |
| --- | --- | --- | --- |
"""


def pages() -> dict[str, str]:
    """Return the text of each page of docs/ that shows faults, by its name."""
    return {
        "known_faults.md": _LOG_PAGE + "".join(map(_shown, OF_THE_LOG)),
    }


def _shown(table: Table) -> str:
    heading = f"\n{table.heading}\n" if table.heading else ""
    rows = (f"| {each.number} | {each.issue} | {each.story} | {each.held_by} |\n" for each in table.faults)
    return heading + _COLUMNS + "".join(rows)
