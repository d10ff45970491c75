"""``commitlog transactions``: which transactions are open, what readers wait for, and the end of those that hang."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from pyspark_commitlog import storage
from pyspark_commitlog.cli.flags import AsJson, DryRun, LogDir, OneTopic
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

FindHanging = Annotated[bool, typer.Option("--find-hanging", help="Show only those that no coordinator will end.")]
Abort = Annotated[bool, typer.Option("--abort", help="End the one that begins at --start-offset of a partition.")]
Partition = Annotated[int | None, typer.Option(help="With --topic: only this one.")]
StartOffset = Annotated[int | None, typer.Option(help="With --abort: where the transaction begins, FIRST-OFFSET.")]
MaxTimeout = Annotated[
    int, typer.Option("--max-transaction-timeout", help="With --find-hanging: younger ones are left out; minutes.")
]


def transactions(  # the flags are those of kafka-transactions
    *,
    log_dir: LogDir,
    find_hanging: FindHanging = False,
    abort: Abort = False,
    topic: OneTopic = None,
    partition: Partition = None,
    start_offset: StartOffset = None,
    max_transaction_timeout: MaxTimeout = 15,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Show the open transactions of a log directory, the oldest first, with a row for each partition they wrote to.

    HELD-BACK is how many offsets readers of committed records wait for because of the transaction; '-' where they wait
    for another one. States: Ongoing; PrepareCommit and PrepareAbort are decided, and end when the query starts again or
    retention comes; Superseded: its producer went on; Unknown: no transactional id has its producer, a broker's whose
    __transaction_state is not here. Retention ends what is older than its timeout and nobody's, but for Unknown ones.
    Takes no lock, so a running broker's directory may be looked at.

    A transaction hangs where no coordinator will write its marker: --abort does, once its producer surely writes no
    more. One that a coordinator still ends is refused. The broker must be stopped then.
    """
    if abort and find_hanging:
        raise typer.BadParameter("--abort and --find-hanging exclude each other")
    with storage.LogManager.open(log_dir) as manager:
        _warn_of_missing(manager)
        if abort:
            _abort(manager, topic, partition, start_offset, is_dry=dry_run, as_json=as_json)
            return
        found = (
            storage.find_hanging(manager, max_timeout_ms=max_transaction_timeout * 60_000)
            if find_hanging
            else storage.open_transactions(manager)
        )
    found = _within(found, topic, partition)
    if as_json:
        print_json(map(_json, found))
    elif found:
        print_table(COLUMNS, [row for each in found for row in _rows(each)])
    else:
        typer.echo("no hanging transactions" if find_hanging else "no open transactions")


def _warn_of_missing(manager: storage.LogManager) -> None:
    for missing in (storage.TransactionStates(manager).missing(), storage.GroupOffsets(manager).missing()):
        if missing is not None:
            typer.echo(f"commitlog: {missing}; what lies there is not known", err=True)


def _abort(
    manager: storage.LogManager,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    *,
    is_dry: bool,
    as_json: bool,
) -> None:
    if topic is None or partition is None or start_offset is None:
        raise typer.BadParameter("--abort needs --topic, --partition and --start-offset")
    ended = storage.abort_transaction(manager, topic, partition, start_offset, dry_run=is_dry)
    if as_json:
        print_json([{"topic": topic, "partition": partition, **ended._asdict(), "aborted": not is_dry}])
    else:
        typer.echo(f"{'would abort' if is_dry else 'aborted'} {topic}-{partition}: {ended}")


def _within(
    found: list[storage.OpenTransaction], topic: str | None, partition: int | None
) -> list[storage.OpenTransaction]:
    """Those with records in the topic, or the partition, that were asked for; all where neither was."""
    if topic is None:
        return found
    parts = (
        tuple(place for place in each.partitions if place.topic == topic and partition in (None, place.partition))
        for each in found
    )
    return [replace(each, partitions=inside) for each, inside in zip(found, parts, strict=True) if inside]


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
