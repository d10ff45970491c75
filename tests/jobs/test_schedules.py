"""The examples in conf/schedule and docs/scheduling.md call commands and jobs with options that these accept."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

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
