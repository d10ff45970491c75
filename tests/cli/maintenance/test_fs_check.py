"""``commitlog fs-check``: what it reports about a file system, and its exit code."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import pytest

from pyspark_commitlog import storage
from tests.cli.in_process import commitlog


def test_a_suitable_directory_passes_and_is_not_changed(tmp_path: Path) -> None:
    done = commitlog("fs-check", "--log-dir", tmp_path)
    assert (done.code, done.stderr) == (0, "")
    checks = [line.partition(":")[0] for line in done.stdout.splitlines()]
    assert {"mount", "rename", "locks between writers", "locks against brokers", "sync"} <= {*checks}
    assert list(tmp_path.iterdir()) == []
    rows = [json.loads(line) for line in commitlog("fs-check", "--log-dir", tmp_path, "--json").stdout.splitlines()]
    assert [row["check"] for row in rows] == checks
    assert {row["verdict"] for row in rows} <= {"passed", "warning"}


def test_on_a_terminal_it_is_a_table(tmp_path: Path) -> None:
    done = commitlog("fs-check", "--log-dir", tmp_path, terminal=True)
    assert any(line.split()[:2] == ["rename", "passed"] for line in done.stdout.splitlines())


def test_a_failed_check_exits_with_1(tmp_path: Path) -> None:
    finding = storage.Finding("rename", storage.Verdict.FAILED, "the old name stays")
    with patch.object(storage, "check_filesystem", return_value=[finding]):
        done = commitlog("fs-check", "--log-dir", tmp_path)
    assert (done.code, done.stdout) == (1, "rename: failed: the old name stays\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param([], 2, "--log-dir", id="nowhere"),
        pytest.param(["--log-dir", "/nowhere"], 1, "there is no directory /nowhere", id="not there"),
    ],
)
def test_wrong_use_says_what_is_right(arguments: list[str], code: int, said: str) -> None:
    done = commitlog("fs-check", *arguments)
    assert (done.code, done.stdout) == (code, "")
    assert said in done.stderr.replace("\n", " ")


def test_help_says_what_the_check_cannot_show() -> None:
    done = commitlog("fs-check", "--help")
    assert done.code == 0
    assert "power cut" in " ".join(done.stdout.split())
