"""jobs/ingest.py under spark-submit, undisturbed and stopped in every way a person or a machine may stop it.

The input is a few hundred flights made up for the test, in files of increasing modification time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.pipeline.flights import NAMES
from pyspark_commitlog.storage import DumpFindings, DumpOptions, GroupOffsets, Isolation, LogManager, dump_file
from tests.support.kafka import dump_log

ROOT = Path(__file__).parents[2]
FILES, ROWS = 9, 200  # each of three runs is stopped after a file or two
pytestmark = pytest.mark.slow


@pytest.fixture
def work(tmp_path: Path) -> Path:
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


def start(work: Path) -> subprocess.Popen[str]:
    """The job, in a process group of its own, as a shell starts one."""
    command = [Path(sys.executable).with_name("spark-submit"), ROOT / "jobs/ingest.py"]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(ROOT / "conf")}
    return subprocess.Popen(
        [*command, "--config", "local.toml", "--input", "input"],
        cwd=work,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=(work / "stderr").open("a"),
        text=True,
        start_new_session=True,
    )


def run(work: Path) -> str:
    """The job to its end; what it printed."""
    with start(work) as job:
        printed, _ = job.communicate()
    assert job.returncode == 0, printed + (work / "stderr").read_text()
    return printed


def records(work: Path) -> Iterator[tuple[int, str, int, str]]:
    """Partition, key, month and value of each record that a reader of committed ones sees, by partition and offset."""
    with LogManager.open(str(work / "log")) as manager:
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


def assert_whole(work: Path) -> None:
    """Every row of the input once, and each key's months in order in one partition."""
    found = list(records(work))
    rows = Counter((month, json.loads(value)["minute"]) for _, _, month, value in found)
    assert rows == Counter((month, row) for month in range(1, FILES + 1) for row in range(ROWS))
    for key in {key for _, key, _, _ in found}:
        mine = [(number, month) for number, each, month, _ in found if each == key]
        assert len({number for number, _ in mine}) == 1
        assert [month for _, month in mine] == sorted(month for _, month in mine)


def assert_kafka_agrees(work: Path) -> None:
    """Kafka's dump tool finds every batch valid and no index entry wrong, and our command prints its very lines."""
    files = sorted(map(str, (work / "log").glob("flights-*/0*")))
    assert {Path(file).suffix for file in files} == {".log", ".index", ".timeindex", ".snapshot"}
    for path, dump in dump_log(files, "--deep-iteration", "--print-data-log").files.items():
        assert dump.stderr == ""
        assert "isvalid: false" not in dump.stdout
        findings = DumpFindings()
        ours = dump_file(path, DumpOptions(deep_iteration=True, print_data_log=True), findings)
        assert [line for lines in ours for line in lines] == dump.stdout.splitlines()
        assert list(findings.lines()) == []


def to_the_jvm(number: int) -> Callable[[subprocess.Popen[str]], None]:
    return lambda job: job.send_signal(number)


def to_all(number: int) -> Callable[[subprocess.Popen[str]], None]:
    return lambda job: os.killpg(job.pid, number)


def run_until_stopped(work: Path, stop: Callable[[subprocess.Popen[str]], None]) -> str:
    """The job until it has told of a file and ``stop`` has ended it; what it printed after that file."""
    with start(work) as job:
        assert job.stdout is not None
        assert "file " in job.stdout.readline(), (work / "stderr").read_text()
        stop(job)
        printed, _ = job.communicate()
    assert "Every file is in the topic." not in printed
    return printed


def test_job_goes_on_where_sigterm_ctrl_c_and_a_kill_stopped_it_and_a_run_more_adds_nothing(work: Path) -> None:
    """One story, since each start of spark-submit takes its time."""
    for stop in (to_the_jvm(signal.SIGTERM), to_all(signal.SIGINT)):
        assert "Stopped between two files" in run_until_stopped(work, stop)
    run_until_stopped(work, to_all(signal.SIGKILL))
    assert len(list(records(work))) >= ROWS
    assert "Every file is in the topic." in run(work)
    assert_whole(work)
    assert_kafka_agrees(work)
    with LogManager.open(str(work / "log")) as manager:
        assert GroupOffsets(manager).fetch("ingest-flights")["__sink.flights", 0].offset == FILES
    assert run(work) == "Every file is in the topic.\n"
    assert_whole(work)
