"""``commitlog transactions``: which transactions are open, and what holds readers of committed records back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from pyspark_commitlog import storage
from pyspark_commitlog.cli.flags import AsJson, LogDir
from pyspark_commitlog.cli.output import Column, print_json, print_table

COLUMNS = (
    Column("TRANSACTIONAL-ID", 20),
    Column("PRODUCER-ID", is_number=True),
    Column("EPOCH", 6, is_number=True),
    Column("STATE"),
    Column("AGE-SECONDS", 12, is_number=True),
    Column("TIMEOUT-SECONDS", is_number=True),
    Column("TOPIC"),
    Column("PARTITION", 10, is_number=True),
    Column("FIRST-OFFSET", is_number=True),
    Column("LAST-STABLE-OFFSET", 18, is_number=True),
    Column("LOG-END-OFFSET", is_number=True),
    Column("HELD-BACK", is_number=True),
)


def transactions(
    *,
    log_dir: LogDir,
    as_json: AsJson = False,
) -> None:
    """Show the open transactions of a log directory, the oldest first, with a row for each partition they wrote to.

    HELD-BACK is how many offsets readers of committed records wait for because of the transaction; '-' where they wait
    for another one. States: Ongoing; PrepareCommit and PrepareAbort are decided, and end when the query starts again or
    retention comes; Superseded: its producer went on; Unknown: no transactional id has its producer, a broker's whose
    __transaction_state is not here. Retention ends what is older than its timeout and nobody's, but for Unknown ones.
    Takes no lock, so a running broker's directory may be looked at.
    """
    with storage.LogManager.open(log_dir) as manager:
        found = storage.open_transactions(manager)
    if as_json:
        print_json(map(_json, found))
    elif found:
        print_table(COLUMNS, [row for each in found for row in _rows(each)])
    else:
        typer.echo("no open transactions")


def _rows(found: storage.OpenTransaction) -> Iterator[tuple[object, ...]]:
    timeout_s = None if found.timeout_ms < 0 else found.timeout_ms // 1000
    who = (found.transactional_id, found.producer_id, found.epoch, found.state, found.age_ms // 1000, timeout_s)
    for place in found.partitions:
        yield *who, *place, held_back(place)
    if not found.partitions:
        yield *who, *[None] * (len(COLUMNS) - len(who))


def held_back(place: storage.OpenPartition) -> int | None:
    """How many offsets wait for the transaction; None where they wait for another one first."""
    return place.log_end_offset - place.last_stable_offset if place.holds_back else None


def _json(found: storage.OpenTransaction) -> dict[str, Any]:
    return {
        "transactional_id": found.transactional_id,
        "producer_id": found.producer_id,
        "epoch": found.epoch,
        "state": found.state,
        "age_ms": found.age_ms,
        "timeout_ms": None if found.timeout_ms < 0 else found.timeout_ms,
        "partitions": [{**place._asdict(), "held_back": held_back(place)} for place in found.partitions],
    }
