"""The command line of the jobs: topics in each spelling, and flags about brokers."""

from __future__ import annotations

import inspect
from argparse import ArgumentParser
from collections.abc import Callable
from importlib import import_module

import pytest

from pyspark_commitlog.pipeline.delta.command.arguments import parser as export
from pyspark_commitlog.pipeline.job.command_line import arguments
from pyspark_commitlog.pipeline.mirror.command_line import parser as mirror
from pyspark_commitlog.storage import MAINTENANCE_FLAGS

JOBS: list[tuple[Callable[[str | None], ArgumentParser], list[str]]] = [
    (arguments, ["--log-dir", "log"]),
    (export, ["to-table", "--log-dir", "log", "--table", "t"]),
    (mirror, ["to-kafka", "--log-dir", "log", "--bootstrap-servers", "host:1"]),
]


@pytest.mark.parametrize(("parser", "required"), JOBS)
def test_topics_have_one_spelling_in_all_jobs(
    parser: Callable[[str | None], ArgumentParser], required: list[str]
) -> None:
    spellings = ("-t", "--topic", "--topics")
    parsed = [vars(parser("").parse_args([*required, flag, "a,b", flag, "c"])) for flag in spellings]
    assert parsed[0] == parsed[1] == parsed[2]
    assert parsed[0].get("topics") == ["a,b", "c"] or parsed[0]["topic"] == "a,b,c"


@pytest.mark.parametrize(
    ("flag", "told"),
    [("--bootstrap-server", "name the log directory with --log-dir"), ("--replication-factor", "leave it out")],
)
def test_flags_about_brokers_are_answered_with_what_to_do(
    flag: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        arguments("").parse_args(["--log-dir", "log", flag, "3"])
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("name", ["retain", "compact", "key_filters", "rebuild_index", "erase"])
def test_a_job_has_the_flags_of_its_command(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = getattr(import_module(f"pyspark_commitlog.cli.maintenance.{name}"), name)
    monkeypatch.setattr("sys.argv", [name, "--help"])
    with pytest.raises(SystemExit):
        import_module(f"pyspark_commitlog.jobs.{name}").main()
    shown = " ".join(capsys.readouterr().out.split())
    flags = [
        MAINTENANCE_FLAGS[each].text for each in inspect.signature(command).parameters if each in MAINTENANCE_FLAGS
    ]
    assert len(flags) >= 3
    assert [each for each in flags if each not in shown] == []
