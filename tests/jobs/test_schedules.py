"""The examples in conf/schedule and docs/scheduling.md call commands and jobs with options that these accept."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import typer

from pyspark_commitlog.cli import app
from pyspark_commitlog.pipeline.job.command_line import arguments
from pyspark_commitlog.storage import ConfigOverrides

ROOT = Path(__file__).parents[2]
OPTIONS = r"((?: +(?:'[^']*'|--?[\w-]+|[^\s'|`]+))*)"
CALL = re.compile(rf"(\"\$JOBS/\w+\.py\"|commitlog [a-z-]+){OPTIONS}")

RETAIN = '"$JOBS/retain.py"'


class Call(NamedTuple):
    program: str
    options: list[str]

    @property
    def job(self) -> Path:
        return ROOT / self.program.strip('"').replace("$JOBS", "jobs")


def calls(path: Path) -> list[Call]:
    """Returns each call in a file, in order; a comment after a call is preceded by three blanks."""
    text = path.read_text()
    if path.suffix == ".yaml":  # a command is a list there
        text = re.sub(r"[\[,\]](?= |$)|\[(?=commitlog)", "", text, flags=re.MULTILINE)
    lines = [line.strip().split("   ")[0] for line in text.splitlines()]
    return [
        Call(program, shlex.split(options))
        for line in lines
        for program, options in CALL.findall(line)
        if "--log-dir" in options
    ]


@pytest.mark.parametrize(
    ("name", "programs"),
    [
        ("conf/schedule/crontab", ["commitlog retain", "commitlog compact", "commitlog verify"]),
        ("conf/schedule/cronjob.yaml", ["commitlog retain"]),
        (
            "docs/scheduling.md",
            [
                *("commitlog retain", "commitlog retain", "commitlog retain", "commitlog compact", "commitlog verify"),
                *(RETAIN, "commitlog retain", "commitlog compact", "commitlog retain", RETAIN),
            ],
        ),
    ],
)
def test_the_options_of_an_example_are_known(name: str, programs: list[str]) -> None:
    found = calls(ROOT / name)
    assert [each.program for each in found] == programs
    for each in found:
        if each.job.suffix == ".py":
            check_job(each)
        else:
            check_command(each)


def check_job(call: Call) -> None:
    assert call.job.exists()
    parser = arguments("")
    for option in ("--keep-for-groups", "--policy", "--policy-option"):
        parser.add_argument(option)
    ConfigOverrides.parse(parser.parse_args(call.options).config)


def check_command(call: Call) -> None:
    name = call.program.partition(" ")[2]
    group = typer.main.get_command(app)
    command = group.get_command(group.make_context("commitlog", [], resilient_parsing=True), name)  # type: ignore[attr-defined]
    parsed = command.make_context(name, list(call.options)).params
    ConfigOverrides.parse(parsed.get("config") or ())


class FailError(Exception):
    """Airflow's AirflowFailException: the task fails without a retry."""


class SkipError(Exception):
    """Airflow's AirflowSkipException."""


class Dag:
    """What the example needs of Airflow's DAG; ``tasks`` are those made since the last ``with``."""

    tasks: list[BashOperator]

    def __init__(self, **_settings: object) -> None:
        Dag.tasks = self.tasks = []

    def __enter__(self) -> Dag:
        return self

    def __exit__(self, *_error: object) -> None:
        pass


class BashOperator:
    """As Airflow's: runs a line of bash; some exit codes skip the task, others but 0 fail it, to be tried again."""

    def __init__(self, *, task_id: str, bash_command: str, skip_on_exit_code: list[int]) -> None:
        self.task_id, self.bash_command, self.skip_on_exit_code = task_id, bash_command, skip_on_exit_code
        Dag.tasks.append(self)

    def execute(self, _context: object) -> None:
        code = subprocess.run(["bash", "-c", self.bash_command], check=False).returncode
        if code in self.skip_on_exit_code:
            raise SkipError
        if code:
            raise RuntimeError(code)


@pytest.fixture
def dags(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names in the example of Airflow, which is run with a stand-in for Airflow."""
    exceptions = {"AirflowFailException": FailError, "AirflowSkipException": SkipError}
    modules: dict[str, dict[str, object]] = {"airflow": {"DAG": Dag}, "airflow.exceptions": exceptions}
    modules["airflow.providers.standard.operators.bash"] = {"BashOperator": BashOperator}
    for name, contents in modules.items():
        module = ModuleType(name)
        module.__dict__.update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    return runpy.run_path(str(ROOT / "conf/schedule/airflow_dags.py"))


def test_the_commands_of_airflow_are_known(dags: dict[str, Any]) -> None:
    found = [task for name in dags["COMMANDS"] for task in dags[name].tasks]
    assert [each.task_id for each in found] == ["retain", "compact", "verify"]
    for each in found:
        program, name, *options = shlex.split(each.bash_command)
        assert program.endswith("/bin/commitlog")
        check_command(Call(f"commitlog {name}", options))


@pytest.mark.parametrize(("code", "ends"), [(1, RuntimeError), (2, FailError), (3, FailError)])
def test_a_task_of_airflow_is_tried_again_only_where_that_may_help(
    code: int, ends: type[Exception], dags: dict[str, Any]
) -> None:
    [task] = dags["commitlog_verify"].tasks
    task.bash_command = f"exit {code}"
    with pytest.raises(ends):
        task.execute({})
    task.bash_command = "exit 0"
    assert task.execute({}) is None
