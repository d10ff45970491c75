"""All 56 faults, and the page that tells them."""

from __future__ import annotations

from tests.storage.faults import appending, cleaning, recovering, retaining
from tests.storage.faults.fault import Fault

NUMBERS = range(1, 57)
FAULTS: list[Fault] = sorted(
    [*appending.FAULTS, *cleaning.FAULTS, *recovering.FAULTS, *retaining.FAULTS], key=lambda fault: fault.number
)
_HEAD = """# Faults that Kafka's log had

Fifty-six faults of the log layer, by their numbers in Kafka's issue tracker. Each has a scenario that passes here and
fails where the fault is put back: `tests/storage/faults` holds both, the scenario and the changed line of the engine,
and `test_faults.py` runs each scenario with and without it. A few cannot arise, for the reason given.

`python -m tests.storage.faults > docs/known_faults.md` writes this page; a test compares it with the table.

| | issue | what happened there | here |
| --- | --- | --- | --- |
"""


def page() -> str:
    """What docs/known_faults.md holds."""
    rows = (f"| {each.number} | {each.issue} | {each.story} | {each.held_by} |\n" for each in FAULTS)
    return _HEAD + "".join(rows)
