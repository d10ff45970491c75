"""``commitlog transactions``: shows open transactions and the offsets they hold back, and aborts hanging ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from ... import storage
from ..flags import AsJson, DryRun, LogDir, OneTopic
from ..output import Column, Failures, print_json, print_table

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

FindHanging = Annotated[
    bool, typer.Option("--find-hanging", help="Show only transactions that no coordinator will end.")
]
Abort = Annotated[
    bool, typer.Option("--abort", help="Abort the transaction that begins at --start-offset of a partition.")
]
Partition = Annotated[int | None, typer.Option(help="With --topic: only this partition.")]
StartOffset = Annotated[int | None, typer.Option(help="With --abort: the FIRST-OFFSET of the transaction.")]
MaxTimeout = Annotated[
    int,
    typer.Option(
        "--max-transaction-timeout", help="With --find-hanging: leave out those younger than this, in minutes."
    ),
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
    """Show the open transactions of a log directory, oldest first, one row per partition they wrote to.

    HELD-BACK is the number of offsets that readers of committed records cannot read yet because of the transaction; '-'
    if another transaction holds them back first.

    STATE is Ongoing until the outcome is decided; then PrepareCommit or PrepareAbort until the markers are written,
    when the query restarts or retention runs; Superseded if the producer has a newer epoch; Unknown if no transactional
    id belongs to the producer, for example because a broker keeps __transaction_state elsewhere.

    Retention aborts transactions that exceed their timeout and whose owner is not running, except Unknown ones.

    A transaction hangs if no coordinator will write its marker. Use --abort to write it, once you are sure that its
    producer has stopped; the broker must be stopped, too. If a coordinator will still end the transaction, --abort is
    refused. Showing takes no lock, so it is safe on a running broker's directory. Partitions that cannot be read are
    reported after the others.
    """
    if abort and find_hanging:
        raise typer.BadParameter("--abort and --find-hanging cannot be used together")
    with storage.LogManager.open(log_dir) as manager:
        _warn_of_missing(manager)
        _check_known(manager, topic, partition)
        if abort:
            _abort(manager, topic, partition, start_offset, is_dry=dry_run, as_json=as_json)
            return
        failures = Failures()
        found = (
            storage.find_hanging(manager, max_timeout_ms=max_transaction_timeout * 60_000, failures=failures.errors)
            if find_hanging
            else storage.open_transactions(manager, failures=failures.errors)
        )
        failures.errors += storage.TransactionStates(manager).unreadable()
    _show(_within(found, topic, partition), "no hanging" if find_hanging else "no open", as_json=as_json)
    failures.end()


def _check_known(manager: storage.LogManager, topic: str | None, partition: int | None) -> None:
    """Raises UnknownTopicOrPartitionError for a topic or partition that the directory does not have."""
    if topic is None:
        return
    known = manager.topic(topic)
    if partition is not None:
        known.check_partition(partition, manager.directory)


def _show(found: list[storage.OpenTransaction], none: str, *, as_json: bool) -> None:
    if as_json:
        print_json(map(_json, found))
    elif found:
        print_table(COLUMNS, [row for each in found for row in _rows(each)])
    else:
        typer.echo(f"{none} transactions")


def _warn_of_missing(manager: storage.LogManager) -> None:
    for missing in (storage.TransactionStates(manager).missing(), storage.GroupOffsets(manager).missing()):
        if missing is not None:
            typer.echo(f"commitlog: {missing}; transactions stored there are not known", err=True)


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
    """Returns the transactions with records in the topic or partition; all if no topic is given."""
    if topic is None:
        return found
    parts = (
        tuple(part for part in each.partitions if part.topic == topic and partition in (None, part.partition))
        for each in found
    )
    return [replace(each, partitions=inside) for each, inside in zip(found, parts, strict=True) if inside]


def _rows(found: storage.OpenTransaction) -> Iterator[tuple[object, ...]]:
    timeout_s = None if found.timeout_ms < 0 else found.timeout_ms // 1000
    who = (found.transactional_id, found.producer_id, found.epoch, found.state, found.age_ms // 1000, timeout_s)
    for part in found.partitions:
        yield *who, *part, held_back(part)
    if not found.partitions:
        yield *who, *[None] * (len(COLUMNS) - len(who))


def held_back(part: storage.OpenPartition) -> int | None:
    """The number of offsets that wait for the transaction; None if they wait for another one first."""
    return part.log_end_offset - part.last_stable_offset if part.holds_back else None


def _json(found: storage.OpenTransaction) -> dict[str, Any]:
    return {
        "transactional_id": found.transactional_id,
        "producer_id": found.producer_id,
        "epoch": found.epoch,
        "state": found.state,
        "age_ms": found.age_ms,
        "timeout_ms": None if found.timeout_ms < 0 else found.timeout_ms,
        "partitions": [{**part._asdict(), "held_back": held_back(part)} for part in found.partitions],
    }
