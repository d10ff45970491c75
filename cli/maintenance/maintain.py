"""``commitlog maintain``: runs retention, compaction and verification by the clock, on one machine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import typer

from ... import storage
from ..arguments import parse_interval, read_settings
from ..flags import AsJson
from ..output import fail
from .run import Asked, repeat, run_once

Conf = Annotated[
    Path | None,
    typer.Option(
        "--conf",
        help="The settings file: what to run, and how often. Default: conf/maintenance.toml, or what commitlog conf "
        "maintenance.toml prints.",
    ),
]
LogDir = Annotated[str | None, typer.Option(help="The log directory, instead of the one that the file names.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Run nothing; print what would be run, and how often.")]

OPERATIONS = ("retain", "compact", "verify")  # by their tables in the settings file
_KEYS = ("every", "topics", "config")
_RETENTION_KEYS = ("keep_for_groups", "policy", "policy_options")


class _Task(NamedTuple):
    """An operation that the settings file asks for."""

    every: str
    interval_ms: int  # the same
    asked: Asked
    operation: storage.Operation


def maintain(
    *,
    conf: Conf = None,
    log_dir: LogDir = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Run retain, compact and verify again and again, as the settings file says; for machines without a scheduler.

    Each runs at the start, then at its interval, one after the other in this process. SIGTERM or Ctrl-C let the
    current run finish. The exit code is that of the last run.
    """
    tasks = _tasks(conf or _default(), log_dir, as_json=as_json)
    if dry_run:
        for name, task in tasks.items():
            typer.echo(f"would run {name} every {task.every} on {task.asked.log_dir}")
        return
    intervals_ms = {name: task.interval_ms for name, task in tasks.items()}
    code = repeat(intervals_ms, lambda name: run_once(name, tasks[name].asked, tasks[name].operation))
    if code:
        raise typer.Exit(code)


def _default() -> Path:
    """Returns the file in the working directory, or the one that comes with the package."""
    here = Path("conf/maintenance.toml")
    return here if here.exists() else Path(str(files(__package__.partition(".")[0]) / here))


def _tasks(conf: Path, log_dir: str | None, *, as_json: bool) -> dict[str, _Task]:
    """Returns the tasks in the settings file, by name. Exits with 2, naming file and key, if it is wrong."""
    document = read_settings(conf)
    directory = document.pop("log_dir", None) if log_dir is None else log_dir
    document.pop("log_dir", None)
    if not isinstance(directory, str):
        fail(f"{conf}: log_dir is missing, the log directory; or give --log-dir", code=2)
    if not document:
        fail(f"{conf}: has none of the tables {', '.join(OPERATIONS)}: nothing to run", code=2)
    return {name: _task(conf, name, table, directory, as_json=as_json) for name, table in document.items()}


def _task(conf: Path, name: str, table: object, directory: str, *, as_json: bool) -> _Task:
    if name not in OPERATIONS or not isinstance(table, dict):
        _refuse(conf, name, OPERATIONS)
    for key in table:
        known = (*_KEYS, *(_RETENTION_KEYS if name == "retain" else ()))
        if key not in known:
            _refuse(conf, f"[{name}] {key}", known)
    every = table.get("every")
    if not isinstance(every, str):
        fail(f'{conf}: [{name}] needs every, such as every = "5 minutes"', code=2)
    interval_ms = parse_interval(f"{conf}: [{name}] every =", every)
    config = [f"{key}={value}" for key, value in table.get("config", {}).items()]
    asked = Asked(directory, table.get("topics") or (), config, as_json, wait=True)
    return _Task(every, interval_ms, asked, _operation(name, table))


def _operation(name: str, table: Mapping[str, Any]) -> storage.Operation:
    if name != "retain":
        return storage.compact_partitions if name == "compact" else storage.verify_partitions
    options = [f"{key}={value}" for key, value in table.get("policy_options", {}).items()]
    policy = storage.load_policy(table["policy"], options) if "policy" in table else None
    return partial(storage.retain_partitions, keep_for_groups=table.get("keep_for_groups", ()), policy=policy)


def _refuse(conf: Path, name: str, known: tuple[str, ...]) -> NoReturn:
    near = storage.did_you_mean(name.rpartition(" ")[2], known)
    fail(f"{conf}: unknown {name}{near or '; there are ' + ', '.join(known)}", code=2)
