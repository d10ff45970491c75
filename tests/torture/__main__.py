"""Torture the log, by suites of which each makes cases from a seed until there were enough; no suite named runs all.

The last line of a suite tells its seed, how much it did, how long that took and what it found; the exit code is 1 where
it found a fault. Each fault is told with the arguments that show it again.
"""

from __future__ import annotations

import importlib
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.torture.suite import Run, Suite

# By name: the module with its SUITE. Imported when asked for, since some need Spark or a fuzzer.
MODULES = {
    "backup": "tests.torture.backups",
    "beside-spark": "tests.torture.beside_spark.suite",
    "browse": "tests.torture.browsing",
    "bucket-commits": "tests.torture.bucket_commits",
    "bucket-kills": "tests.torture.kills.bucket",
    "crash-states": "tests.torture.crash_states",
    "disk-errors": "tests.torture.disk_errors",
    "damage": "tests.torture.damage.suite",
    "damaged-queries": "tests.torture.damage.queries",
    "erasure": "tests.torture.erasure.requests",
    "erasure-kills": "tests.torture.erasure.kills",
    "find-scans": "tests.torture.find_scans",
    "fuzz": "tests.torture.fuzz",
    "gateway-beside-kafka": "tests.torture.gateway.beside_kafka.suite",
    "gateway-beside-spark": "tests.torture.gateway.beside_spark.suite",
    "gateway-bucket": "tests.torture.gateway.bucket",
    "gateway-crowd": "tests.torture.gateway.crowd",
    "gateway-foes": "tests.torture.gateway.foes.suite",
    "gateway-frames": "tests.torture.gateway.frames",
    "gateway-hostile": "tests.torture.gateway.hostile",
    "gateway-kills": "tests.torture.gateway.kills",
    "gateway-members": "tests.torture.gateway.members.suite",
    "gateway-nodes": "tests.torture.gateway.nodes",
    "gateway-nodes-beside-spark": "tests.torture.gateway.beside_spark.nodes",
    "gateway-nodes-zookeeper": "tests.torture.gateway.nodes_zookeeper",
    "gateway-power-cuts": "tests.torture.gateway.power_cuts",
    "gateway-requests": "tests.torture.gateway.requests",
    "gateway-rules": "tests.torture.gateway.rules",
    "gateway-together": "tests.torture.gateway.together",
    "kills": "tests.torture.kills.engine",
    "mirror-kills": "tests.torture.mirror_kills",
    "model": "tests.torture.model",
    "mutants": "tests.torture.mutants",
    "processes": "tests.torture.kills.processes",
    "set-back": "tests.torture.set_back.suite",
    "set-back-spark": "tests.torture.set_back.spark",
    "spark-kills": "tests.torture.kills.spark",
    "table-kills": "tests.torture.kills.tables",
    "table-schedules": "tests.torture.table_schedules",
    "table-streams": "tests.torture.table_streams",
    "tiers": "tests.torture.tiers.suite",
    "zookeeper-groups": "tests.torture.classic.zookeeper_groups",
}
TELL_EVERY_S = 60  # where no terminal shows a bar
Suites = Annotated[list[str] | None, typer.Argument(metavar="[SUITE]...", help=f"of {', '.join(MODULES)}")]


def torture(
    suites: Suites = None,
    minutes: Annotated[float, typer.Option(help="end each suite after so many")] = float("inf"),
    count: Annotated[
        int | None, typer.Option(help="end each suite after so much", show_default="of a long run")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="of all choices", show_default="the time")] = None,
    first: Annotated[int, typer.Option(help="number of the first case")] = 0,
    directory: Annotated[Path | None, typer.Option(help="where to work", show_default="the system's")] = None,
) -> None:
    """Torture the log until a fault shows: each suite until its count or its minutes are over."""
    unknown = set(suites or ()) - set(MODULES)
    if unknown:
        raise typer.BadParameter(f"no suite {', '.join(sorted(unknown))}; there are {', '.join(MODULES)}")
    seed = int(time.time()) if seed is None else seed
    runs = [_run(name, seed, minutes, count, first, directory) for name in suites or MODULES]
    raise typer.Exit(any(run.faults for run in runs))


def _run(name: str, seed: int, minutes: float, count: int | None, first: int, directory: Path | None) -> Run:
    suite = load(name)
    with tempfile.TemporaryDirectory(dir=directory, prefix=f"{name}-") as work:
        console = Console(highlight=False, soft_wrap=True)
        run = Run(seed, Path(work), suite.count if count is None else count, minutes, first)
        run.tell = lambda text: console.print(text, markup=False)
        with _progress(console, name, suite, run):
            suite.run(run)
        console.print(run.summary(name, suite.unit), markup=False)
    return run


def load(name: str) -> Suite:
    suite = importlib.import_module(MODULES[name]).SUITE
    assert isinstance(suite, Suite)
    return suite


@contextmanager
def _progress(console: Console, name: str, suite: Suite, run: Run) -> Iterator[None]:
    """A bar in a terminal, or else a line a minute."""
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TextColumn(suite.unit), TimeElapsedColumn())
    progress = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
    task, ended = progress.add_task(name, total=run.count), threading.Event()

    def show() -> None:
        every_s = 0.5 if console.is_terminal else TELL_EVERY_S
        while not ended.wait(every_s):
            progress.update(task, completed=run.done)
            if not console.is_terminal:
                run.tell(f"{run.summary(name, suite.unit)} so far")

    with progress:
        thread = threading.Thread(target=show, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


if __name__ == "__main__":
    typer.run(torture)
