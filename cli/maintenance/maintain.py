"""``commitlog maintain``: runs retention, compaction, verification and upkeep of tables by the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from os import environ
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import typer

from ... import storage
from ..arguments import parse_interval, read_settings
from ..flags import AsJson
from ..output import fail, print_json
from .retain import tables_kept
from .run import Asked, repeat, run_once

Conf = Annotated[
    Path | None,
    typer.Option(
        "--conf",
        help="The settings file: what to run, and how often. Default: conf/maintenance.toml of the working "
        "directory, or else what commitlog conf maintenance.toml prints.",
    ),
]
LogDir = Annotated[
    str | None,
    typer.Option(
        help="The log directory, instead of the one that the file names. Default without --conf: COMMITLOG_LOG_DIR."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Run nothing; print what would be run, and how often.")]

OPERATIONS = ("retain", "compact", "key-filters", "verify")  # by their tables in the settings file
OF_TABLES = ("optimize", "vacuum")  # operations on exported Delta tables
_KEYS = ("every", "topics", "config")
_RETENTION_KEYS = ("keep_for_groups", "keep_for_tables", "policy", "policy_options")
_LIST, _TABLE, _TEXT = (list, 'a list of texts, such as ["a"]'), (dict, "a table"), (str, "a text")
_KINDS: Mapping[str, tuple[type, str]] = {
    "every": (str, 'a duration, such as "5 minutes"'),
    **dict.fromkeys(("topics", "tables", "keep_for_groups", "keep_for_tables"), _LIST),
    **dict.fromkeys(("config", "policy_options"), _TABLE),
    "policy": _TEXT,
}


class _Task(NamedTuple):
    """An operation that the settings file asks for."""

    every: str
    interval_ms: int  # the same
    place: str  # for people
    run: Callable[[], int]  # returns the exit code


def maintain(
    *,
    conf: Conf = None,
    log_dir: LogDir = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Run maintenance again and again, as the settings file says; for machines without a scheduler.

    There are retain, compact, key-filters and verify, and optimize and vacuum for exported Delta tables. Each runs at
    the start, then at its interval, one after the other in this process. SIGTERM or Ctrl-C let the current run finish.
    The exit code is that of the last run.
    """
    from ...pipeline.job.settings_files import settings_file  # noqa: PLC0415

    if conf is None and log_dir is None:
        log_dir = environ.get("COMMITLOG_LOG_DIR")
    tasks = _tasks(conf or settings_file("maintenance.toml"), log_dir, as_json=as_json)
    if dry_run:
        for place in {task.place for name, task in tasks.items() if name in OPERATIONS}:
            storage.LogManager.open(place).close()  # fails now, as a run would, unless it is a log directory
        for name, task in tasks.items():
            typer.echo(f"would run {name} every {task.every} on {task.place}")
        return
    intervals_ms = {name: task.interval_ms for name, task in tasks.items()}
    code = repeat(intervals_ms, lambda name: tasks[name].run())
    if code:
        raise typer.Exit(code)


def _tasks(conf: Path, log_dir: str | None, *, as_json: bool) -> dict[str, _Task]:
    """Returns the tasks in the settings file, by name. Exits with 2, naming file and key, if it is wrong."""
    document = read_settings(conf)
    directory = document.pop("log_dir", None) if log_dir is None else log_dir
    document.pop("log_dir", None)
    if not isinstance(directory, str):
        fail(f"{conf}: log_dir is missing, the log directory; or give --log-dir", code=2)
    if not document:
        fail(f"{conf}: has none of the tables {', '.join((*OPERATIONS, *OF_TABLES))}: nothing to run", code=2)
    return {name: _task(conf, name, table, directory, as_json=as_json) for name, table in document.items()}


def _task(conf: Path, name: str, table: object, directory: str, *, as_json: bool) -> _Task:
    if name not in (*OPERATIONS, *OF_TABLES) or not isinstance(table, dict):
        _refuse(conf, name, (*OPERATIONS, *OF_TABLES))
    known = ("every", "tables") if name in OF_TABLES else (*_KEYS, *(_RETENTION_KEYS if name == "retain" else ()))
    for key in table:
        if key not in known:
            _refuse(conf, f"[{name}] {key}", known)
    _check_kinds(conf, name, table)
    every = table.get("every")
    if every is None:
        fail(f'{conf}: [{name}] needs every, such as every = "5 minutes"', code=2)
    interval_ms = parse_interval(f"{conf}: [{name}] every =", every)
    if name in OF_TABLES:
        tables = table.get("tables")
        if not tables:
            fail(f'{conf}: [{name}] needs tables, such as tables = ["data/flights-table"]', code=2)
        return _Task(every, interval_ms, ", ".join(tables), partial(_run_on_tables, name, tables, as_json=as_json))
    config = [f"{key}={value}" for key, value in table.get("config", {}).items()]
    asked = Asked(directory, table.get("topics") or (), config, as_json, wait=True)
    return _Task(every, interval_ms, directory, partial(run_once, name, asked, _operation(name, table)))


def _check_kinds(conf: Path, name: str, table: Mapping[str, Any]) -> None:
    """Exits with 2 for a value of another kind; each letter of a text in the place of a list would be a name."""
    for key, value in table.items():
        kind, shown = _KINDS[key]
        parts = value if isinstance(value, list) else []
        if not isinstance(value, kind) or not all(isinstance(each, str) for each in parts):
            fail(f"{conf}: [{name}] {key} must be {shown}", code=2)


def _run_on_tables(name: str, tables: list[str], *, as_json: bool) -> int:
    """Prints the result of each table; a failure does not stop the others. Returns the exit code."""
    from ...pipeline.delta.table_and_tail.file_upkeep import UPKEEP  # noqa: PLC0415  only for these operations

    code = 0
    for path in tables:
        try:
            outcome = UPKEEP[name](path)
        except (storage.LogStoreError, OSError) as error:
            outcome, code = str(error), 1
        if as_json:
            print_json([{"operation": name, "table": path, "outcome": outcome}])
        else:
            typer.echo(f"{name} {path}: {outcome}")
    return code


def _operation(name: str, table: Mapping[str, Any]) -> storage.Operation:
    if name != "retain":
        return {
            "compact": storage.compact_partitions,
            "key-filters": storage.filter_partitions,
            "verify": storage.verify_partitions,
        }[name]
    options = [f"{key}={value}" for key, value in table.get("policy_options", {}).items()]
    policy = storage.load_policy(table["policy"], options) if "policy" in table else None
    tables = tables_kept(table.get("keep_for_tables"))
    return partial(
        storage.retain_partitions,
        keep_for_groups=table.get("keep_for_groups", ()),
        keep_for_tables=tables,
        policy=policy,
    )


def _refuse(conf: Path, name: str, known: tuple[str, ...]) -> NoReturn:
    near = storage.did_you_mean(name.rpartition(" ")[2], known)
    fail(f"{conf}: unknown {name}{near or '; there are ' + ', '.join(known)}", code=2)
