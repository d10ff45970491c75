"""``commitlog conf``: the files of settings that come with the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.storage import LogManager
from tests.cli.in_process import commitlog

CONF = Path(__file__).parents[2] / "conf"


def test_every_file_is_listed_and_printed_as_it_is() -> None:
    listed = commitlog("conf").stdout.splitlines()
    files = [path for path in CONF.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert listed == sorted(str(path.relative_to(CONF)) for path in files)
    for name in listed:
        assert commitlog("conf", name).stdout == (CONF / name).read_text()


def test_an_unknown_name_is_answered_with_the_most_similar_one() -> None:
    done = commitlog("conf", "gateway.tml")
    assert (done.code, done.stdout) == (2, "")
    assert "did you mean 'gateway.toml'?" in done.stderr


def test_maintain_without_a_file_takes_the_one_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic("t", partitions=1)
    done = commitlog("maintain", "--log-dir", tmp_path, "--dry-run")
    assert done.stdout.splitlines() == [
        f"would run retain every 5 minutes on {tmp_path}",
        f"would run compact every 15 minutes on {tmp_path}",
        f"would run key-filters every 1 hour on {tmp_path}",
        f"would run verify every 7 days on {tmp_path}",
    ]
