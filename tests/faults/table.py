"""All faults, and the pages that list them."""

from __future__ import annotations

from typing import NamedTuple

from tests.faults import (
    appending,
    brokers,
    cleaning,
    members,
    object_stores,
    recovering,
    retaining,
    transactions,
)
from tests.faults.fault import Fault


class Table(NamedTuple):
    """Faults below a heading of a page."""

    heading: str
    faults: list[Fault]


def _in_order(*found: list[Fault]) -> list[Fault]:
    return sorted((each for some in found for each in some), key=lambda fault: fault.number)


OF_THE_LOG = [Table("", _in_order(appending.FAULTS, cleaning.FAULTS, recovering.FAULTS, retaining.FAULTS))]
OF_BROKERS = [
    Table("## Groups and their offsets", members.FAULTS),
    Table("## Transactions", transactions.FAULTS),
    Table("## Brokers", brokers.FAULTS),
    Table("## Object stores", object_stores.FAULTS),
]
FAULTS = [fault for table in (*OF_THE_LOG, *OF_BROKERS) for fault in table.faults]
_LOG_PAGE = """# Faults that Kafka's log had

This page lists fifty-six faults of the log layer, with their numbers in Kafka's issue tracker. Each
has a scenario that passes here, and a changed line of the engine that puts the fault back;
`test_faults.py` in `tests/faults` verifies that the scenario fails with that line. A few faults cannot
occur here, for the reason given. Those of brokers, coordinators and object stores are
[on a second page](known_faults_of_brokers.md).

`python -m tests.faults` generates both pages; a test compares them with the tables.
"""
_BROKERS_PAGE = """# Faults that brokers and object stores had

This page continues [the faults of the log](known_faults.md) with those of groups, transactions, brokers
and logs on object stores. Numbers are those of Kafka's issue tracker or of the project that is named.
Each row has a test that passes here, and a changed line of ours with which it fails.

One fault is here as in Kafka: the protocol of clients before Kafka 4 does not say which transaction an
EndTxn belongs to. If a client gives up on the answer to one and goes on, the late request ends its next
transaction (KAFKA-17754, found by Jepsen in Bufstream 0.1.0). Spark's writers do not use that protocol.
"""
_COLUMNS = """
| | issue | what happened there | here |
| --- | --- | --- | --- |
"""


def pages() -> dict[str, str]:
    """Return the text of each page of docs/ that shows faults, by its name."""
    return {
        "known_faults.md": _LOG_PAGE + "".join(map(_shown, OF_THE_LOG)),
        "known_faults_of_brokers.md": _BROKERS_PAGE + "".join(map(_shown, OF_BROKERS)),
    }


def _shown(table: Table) -> str:
    heading = f"\n{table.heading}\n" if table.heading else ""
    rows = (f"| {each.number} | {each.issue} | {each.story} | {each.held_by} |\n" for each in table.faults)
    return heading + _COLUMNS + "".join(rows)
