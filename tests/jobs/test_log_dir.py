"""COMMITLOG_LOG_DIR is the log directory of ``commitlog export`` and ``mirror`` too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_commitlog.pipeline.delta.command.arguments import parser as export_parser, with_log
from pyspark_commitlog.pipeline.locations import local_directory, log_location, table_location
from pyspark_commitlog.pipeline.mirror.command_line import parser as mirror_parser
from pyspark_commitlog.storage import InvalidConfigError

TO_TABLE = ["to-table", "--topic", "t", "--table", "t"]
FROM_KAFKA = ["from-kafka", "--bootstrap-servers", "h:1", "--topics", "t"]


@pytest.mark.parametrize(
    ("given", "log_dir"),
    [([], "/log"), (["--log-dir", "/other"], "/other"), (["--consumer.config", "file"], None)],
)
def test_an_export_takes_it_unless_a_log_is_named(
    given: list[str], log_dir: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMITLOG_LOG_DIR", "/log")
    assert with_log(export_parser("").parse_args([*TO_TABLE, *given])).log_dir == log_dir


def test_an_export_without_it_names_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COMMITLOG_LOG_DIR", raising=False)
    assert with_log(export_parser("").parse_args(TO_TABLE)).log_dir is None


def test_an_empty_one_names_no_log(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COMMITLOG_LOG_DIR", "")
    with pytest.raises(SystemExit) as ended:
        mirror_parser("").parse_args(FROM_KAFKA)
    assert ended.value.code == 2
    assert "--log-dir" in capsys.readouterr().err


@pytest.mark.parametrize("located", [local_directory, log_location, table_location])
def test_an_empty_path_is_not_the_working_directory(located: Callable[[str], str]) -> None:
    with pytest.raises(InvalidConfigError, match="is empty"):
        located("")


def test_a_mirror_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMMITLOG_LOG_DIR", "/log")
    assert mirror_parser("").parse_args(FROM_KAFKA).log_dir == "/log"
