"""The command line of the jobs: topics in each spelling, and flags about brokers."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable

import pytest

from pyspark_commitlog.pipeline.delta.command.arguments import parser as export
from pyspark_commitlog.pipeline.job.command_line import arguments
from pyspark_commitlog.pipeline.mirror.command_line import parser as mirror

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
