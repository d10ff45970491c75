"""Progress bars: in bytes, also within one log, and only on a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyspark_commitlog.cli.maintenance.bars import BytesDone
from pyspark_commitlog.storage import LogManager, counting_reads
from tests.cli.in_process import commitlog
from tests.support.logs.building import records


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("bars") / "log")
    with LogManager.open(path, create=True) as manager:
        manager.create_topic("t", partitions=1, configs={"cleanup.policy": "compact"})
        for n in range(5):
            manager.open_log("t", 0).append_records(records([b"a" * 1000] * 20, keys=[b"%d" % n] * 20))
        manager.open_log("t", 0).roll()
    return path


def test_a_task_is_partly_done_while_it_reads_and_wholly_when_it_ends() -> None:
    shown = list[int]()
    done = BytesDone(600, shown.append)
    for count in (100, 100):
        done.read(count)
    done.end(400)
    done.read(900)  # twice the bytes that are there
    done.end(200)
    assert shown == [100, 200, 400, 600, 600]


def test_reads_of_a_segment_are_counted(directory: str) -> None:
    counts = list[int]()
    with counting_reads(counts.append):
        assert commitlog("verify", "--log-dir", directory).code == 0
    assert sum(counts) >= sum(path.stat().st_size for path in Path(directory).glob("t-0/*.log"))
    before = len(counts)
    assert commitlog("verify", "--log-dir", directory).code == 0
    assert len(counts) == before


@pytest.mark.parametrize("command", ["verify", "recover", "rebuild-index", "compact", "copy"])
def test_a_bar_counts_bytes_on_a_terminal_and_is_missing_elsewhere(
    command: str, directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    log = ["--from", directory, "--to", tmp_path / "copy"] if command == "copy" else ["--log-dir", directory]
    drawn = commitlog(command, *log, terminal=True)
    assert drawn.code == 0
    assert re.search(r"\d/\d+\.\d kB", drawn.stderr)
    log = ["--from", directory, "--to", tmp_path / "more"] if command == "copy" else ["--log-dir", directory]
    assert commitlog(command, *log).stderr == ""
