"""All 56 faults, and the page that lists them."""

from __future__ import annotations

from tests.storage.faults import appending, cleaning, recovering, retaining
from tests.storage.faults.fault import Fault

NUMBERS = range(1, 57)
FAULTS: list[Fault] = sorted(
    [*appending.FAULTS, *cleaning.FAULTS, *recovering.FAULTS, *retaining.FAULTS], key=lambda fault: fault.number
)
_HEAD = """# Faults that Kafka's log had

This page lists fifty-six faults of the log layer, with their numbers in Kafka's issue tracker. Each
has a scenario in `tests/storage/faults` that passes here, and a changed line of the engine that puts
the fault back; `test_faults.py` verifies that the scenario fails with that line. A few faults cannot
occur here, for the reason given.

`python -m tests.storage.faults > docs/known_faults.md` generates this page; a test compares it with
the table.

| | issue | what happened in Kafka | here |
| --- | --- | --- | --- |
"""


def page() -> str:
    """Return the text of docs/known_faults.md."""
    rows = (f"| {each.number} | {each.issue} | {each.story} | {each.held_by} |\n" for each in FAULTS)
    return _HEAD + "".join(rows)
