"""What the commands share that go over all partitions: their flags, who does the work, and what is told of it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol, TypeVar

import typer

from pyspark_commitlog import storage
from pyspark_commitlog.cli.flags import complete_topic
from pyspark_commitlog.cli.output import DAMAGED, print_json

Item = TypeVar("Item")
Result = TypeVar("Result")

Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topics",
        "--topic",
        autocompletion=complete_topic,
        help="Names, or regular expressions that whole names match, separated by commas; may be given again.",
    ),
]
Config = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A setting for this run, by Kafka's name; may be given again."),
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for partitions that another process works on.")]


class Work(Protocol):
    """What storage offers over chosen partitions."""

    def __call__(
        self, run: storage.MaintenanceRun, selection: storage.Selection, runner: storage.Runner, /
    ) -> Iterator[storage.PartitionOutcome]: ...


@dataclass(frozen=True)
class Asked:
    """The flags of such a command."""

    log_dir: str
    topics: Sequence[str] | None
    config: Sequence[str] | None
    as_json: bool
    dry_run: bool = False
    wait: bool = False


def maintain(name: str, asked: Asked, work: Work) -> None:
    """Do it, and tell of each partition as it is done.

    Ends with 0 where all is well, 3 where a log is damaged, 1 where something else was wrong.
    """
    run = storage.MaintenanceRun(
        asked.log_dir,
        work=storage.work_of(f"commitlog {name}"),
        overrides=storage.ConfigOverrides.parse(asked.config or ()),
        dry_run=asked.dry_run,
        wait=asked.wait,
    )
    with run.manager() as manager:
        selection = storage.select_partitions(manager, asked.topics or (), run.overrides)
    counts: Counter[str] = Counter()
    for outcome in work(run, selection, _Watched() if sys.stderr.isatty() else storage.in_this_process):
        counts[outcome.status.value] += 1
        if asked.as_json:
            print_json([outcome.to_json()])
        else:
            typer.echo(str(outcome))
    kinds = ", ".join(f"{count:,} {status}" for status, count in sorted(counts.items())) or "nothing to do"
    typer.echo(f"{name}: {counts.total():,} partitions: {kinds}", err=asked.as_json)
    if counts.keys() - {"done"}:
        raise typer.Exit(DAMAGED if counts["damaged"] else 1)


class _Watched:
    """A loop that shows how far it is."""

    def __call__(self, what: str, task: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        from rich.console import Console  # noqa: PLC0415  only a terminal waits for it
        from rich.progress import track  # noqa: PLC0415

        return track(
            map(task, items), what, total=len(items), console=Console(stderr=True), transient=True, disable=not items
        )
