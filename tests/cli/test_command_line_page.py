"""docs/command_line.md and its details: the examples, run in order, print what is shown; every command has one."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from pyspark_commitlog.cli import COMMANDS
from tests.cli.in_process import commitlog

DOCS = Path(__file__).parents[2] / "docs"


class Step(NamedTuple):
    """A command of a page, with the output that it shows; ``...`` stands for anything."""

    command: str
    shown: str


def steps(*pages: str) -> list[Step]:
    blocks = re.findall(r"```console\n(.*?)```", "".join((DOCS / page).read_text() for page in pages), re.DOTALL)
    pairs = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks), re.MULTILINE)
    return [Step(*pair) for pair in pairs]


def output_of(command: str) -> str:
    """Runs our own command in this process, perhaps with another one before it; any other with a shell."""
    before, bar, ours = command.rpartition(" | ")
    if not ours.startswith("commitlog "):
        return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout
    stdin = subprocess.run(["bash", "-c", before], capture_output=True, check=True).stdout if bar else b""
    done = commitlog(*shlex.split(ours)[1:], stdin=stdin)
    assert done.code == 0, f"{command}: {done.stderr}"
    return done.stdout


def test_each_example_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    for command, shown in steps("command_line.md", "command_line_details.md"):
        expected = ".*".join(re.escape(part) for part in shown.split("..."))
        printed = output_of(command)
        assert re.fullmatch(expected, printed, re.DOTALL), f"$ {command}\n{printed}"


def test_every_command_has_an_example_on_the_first_page() -> None:
    shown = {word for step in steps("command_line.md") for word in re.findall(r"commitlog ([a-z-]+)", step.command)}
    assert shown == set(COMMANDS)
