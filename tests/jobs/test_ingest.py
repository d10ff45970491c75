"""jobs/ingest.py under spark-submit, undisturbed and stopped in every way that a person or a machine may stop it.

The input is a few hundred flights made up for the test, in files with increasing modification times.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.pipeline.demo.flights import NAMES
from pyspark_commitlog.storage import DumpFindings, DumpOptions, GroupOffsets, Isolation, LogManager, dump_file
from tests.support.kafka.broker import dump_log
from tests.torture.kills.ingest import DONE, Job

FILES, ROWS = 7, 200  # each of two runs is stopped after a file or two
pytestmark = [pytest.mark.slow, pytest.mark.only_all]

SPEAKS_LATE = """
import builtins, time

def after_a_while(*words, say=print, **more):
    time.sleep(3 if "".join(map(str, words)).startswith("Stopped") else 0)
    say(*words, **more)

builtins.print = after_a_while
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A working directory with input and settings."""
    (tmp_path / "input").mkdir()
    for month in range(1, FILES + 1):
        file = tmp_path / "input" / f"{month}.csv"
        file.write_text("\n".join([",".join(NAMES), *(line(month, row) for row in range(ROWS))]) + "\n")
        os.utime(file, (1_400_000_000 + month,) * 2)
    settings = 'log_dir = "log"\ncheckpoints = "checkpoints"\n[topics.flights]\npartitions = 3\n"retention.ms" = -1\n'
    (tmp_path / "local.toml").write_text(settings)
    return tmp_path


def line(month: int, row: int) -> str:
    flight = dict.fromkeys(NAMES, "1") | {
        "year": "2013",
        "month": str(month),
        "carrier": "UA",
        "flight": str(row % 40),
    }
    return ",".join((flight | {"minute": str(row), "time_hour": f"2013-{month:02}-01T10:00:00Z"}).values())


def start(directory: Path) -> Job:
    return Job(directory, "local[2]", "ingest.py", "--config", "local.toml", "--input", "input", done=DONE)


def run(directory: Path) -> str:
    """Runs the job to its end; returns what it printed."""
    job = start(directory)
    assert job.finished, job.errors.read_text()
    return "".join(job.printed)


def records(directory: Path) -> Iterator[tuple[int, str, int, str]]:
    """Returns partition, key, month and value of each committed record, by partition and offset."""
    with LogManager.open(str(directory / "log")) as manager:
        for number in manager.topic("flights").partitions:
            reader = manager.open_reader("flights", number)
            end = reader.end_offset(Isolation.READ_COMMITTED)
            for piece in reader.records(reader.log_start_offset, end, isolation=Isolation.READ_COMMITTED):
                assert piece.keys is not None
                assert piece.values is not None
                for key, value in zip(piece.keys.to_list(), piece.values.to_list(), strict=True):
                    assert key is not None
                    assert value is not None
                    yield number, key.decode(), json.loads(value)["month"], value.decode()


def assert_whole(directory: Path) -> None:
    """Every row of the input is there once, and each key's months are in order in one partition."""
    found = list(records(directory))
    rows = Counter((month, json.loads(value)["minute"]) for _, _, month, value in found)
    assert rows == Counter((month, row) for month in range(1, FILES + 1) for row in range(ROWS))
    for key in {key for _, key, _, _ in found}:
        mine = [(number, month) for number, each, month, _ in found if each == key]
        assert len({number for number, _ in mine}) == 1
        assert [month for _, month in mine] == sorted(month for _, month in mine)


def assert_kafka_agrees(directory: Path) -> None:
    """Kafka's dump tool finds every batch valid and no wrong index entry, and our command prints the same lines."""
    files = sorted(map(str, (directory / "log").glob("flights-*/0*")))
    assert {Path(file).suffix for file in files} == {".log", ".index", ".timeindex", ".snapshot"}
    for path, dump in dump_log(files, "--deep-iteration", "--print-data-log").files.items():
        assert dump.stderr == ""
        assert "isvalid: false" not in dump.stdout
        findings = DumpFindings()
        ours = dump_file(path, DumpOptions(deep_iteration=True, print_data_log=True), findings)
        assert [line for lines in ours for line in lines] == dump.stdout.splitlines()
        assert list(findings.lines()) == []


def run_until_stopped(directory: Path, number: int, *, all_of_it: bool) -> str:
    """Runs the job until it reports a file, and ends it by a signal to its JVM or all processes; returns its output."""
    job = start(directory)
    assert job.next_line(timeout_s=300), job.errors.read_text()
    assert "file " in job.printed[0], (job.wait(), job.printed, job.errors.read_text())
    if all_of_it:
        os.killpg(job.process.pid, number)
    else:
        job.process.send_signal(number)
    assert not job.finished
    return "".join(job.printed)


def speaks_late(directory: Path, patch: pytest.MonkeyPatch) -> None:
    """As on a busy machine: the JVM had ended when the program reported that it was stopped."""
    (directory / "sitecustomize.py").write_text(SPEAKS_LATE)
    patch.setenv("PYTHONPATH", str(directory), prepend=os.pathsep)


def test_job_resumes_where_sigterm_and_ctrl_c_stopped_it_and_another_run_adds_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One test, since each start of spark-submit takes its time. For kills, see tests/torture/kills/test_engine.py."""
    with monkeypatch.context() as patch:
        speaks_late(directory, patch)
        assert "Stopped between two files" in run_until_stopped(directory, signal.SIGTERM, all_of_it=False)
    assert "Stopped between two files" in run_until_stopped(directory, signal.SIGINT, all_of_it=True)
    assert len(list(records(directory))) >= ROWS
    assert DONE in run(directory)
    assert_whole(directory)
    assert_kafka_agrees(directory)
    with LogManager.open(str(directory / "log")) as manager:
        assert GroupOffsets(manager).fetch("ingest-flights")["__sink.flights", 0].offset == FILES
    assert run(directory) == f"{DONE}\n"
    assert_whole(directory)
