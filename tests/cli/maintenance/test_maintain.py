"""``--every`` and ``commitlog maintain``: real processes that run again and again until they are stopped."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from pyspark_commitlog.storage import LogManager
from tests.cli.in_process import Done, commitlog
from tests.support.logs.building import records
from tests.support.waiting import soon

ROOT = Path(__file__).parents[3]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=1, configs={"retention.ms": "1"})
        settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
        manager.create_topic("keys", partitions=1, configs=settings)
    return tmp_path / "log"


@contextmanager
def running(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """The command as a process of its own, killed at the end if it still runs."""
    command = [str(Path(sys.executable).with_name("commitlog")), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def append_old(directory: Path) -> Path:
    """Appends and closes a segment whose records are old; returns its file."""
    with LogManager.open(str(directory)) as manager:
        log = manager.open_log("t", 0)
        log.append_records(records([b"old"]))
        path = Path(log.segments.active.path(".log"))
        log.roll()
    return path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_retain_runs_again_until_it_is_stopped(directory: Path, number: signal.Signals) -> None:
    with running("retain", "--log-dir", directory, "--topic", "t", "--every", "1 second") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("t-0")
        for _ in range(2):
            path = append_old(directory)
            soon(lambda path=path: not path.exists())  # type: ignore[misc]
        process.send_signal(number)
        lines = process.stdout.readlines()
        assert process.wait() == 0
    assert lines[-1].startswith("retain: 1 partition: 1 done; ")


def test_maintain_runs_what_its_file_says(directory: Path, tmp_path: Path) -> None:
    conf = tmp_path / "maintenance.toml"
    conf.write_text(
        f'log_dir = "{directory}"\n'
        '[retain]\nevery = "1 second"\ntopics = ["t"]\n'
        'policy = "pyspark_commitlog.storage:NewestSegmentsRetention"\npolicy_options = {segments = 1}\n'
        '[compact]\nevery = "1 second"\nconfig = {"log.cleaner.threads" = 1}\n'
        '[verify]\nevery = "1 hour"\n'
    )
    with LogManager.open(str(directory)) as manager:
        log = manager.open_log("keys", 0)
        log.append_records(records([b"%d" % n for n in range(9)], keys=[b"k"] * 9))
        log.roll()
        log.append_records(records([b"new"], keys=[b"other"]))
    first = append_old(directory)
    with running("maintain", "--conf", conf) as process:
        soon(lambda: not first.exists())
        soon(
            lambda: commitlog("cat", "--log-dir", directory, "-t", "keys", "-o", "beginning", "-e").stdout == "8\nnew\n"
        )
        second = append_old(directory)
        soon(lambda: not second.exists())
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate()
        assert (process.returncode, errors) == (0, "")
    assert "by newest segments" in output
    assert "verify: " in output


def test_a_run_that_fails_after_the_first_is_reported_and_repeated(directory: Path) -> None:
    away = directory.with_name("away")
    with running("retain", "--log-dir", directory, "--topic", "t", "--every", "1 second") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        directory.rename(away)
        assert "no such directory" in process.stderr.readline()
        away.rename(directory)
        path = append_old(directory)
        soon(lambda: not path.exists())


def test_the_file_that_comes_with_the_project_is_valid(directory: Path) -> None:
    done = commitlog("maintain", "--conf", ROOT / "conf/maintenance.toml", "--log-dir", directory, "--dry-run")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"would run retain every 5 minutes on {directory}",
        f"would run compact every 15 minutes on {directory}",
        f"would run key-filters every 1 hour on {directory}",
        f"would run verify every 7 days on {directory}",
    ]


def test_without_a_file_the_directory_may_be_in_the_environment(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COMMITLOG_LOG_DIR", str(directory))
    done = commitlog("maintain", "--dry-run")
    assert done.stdout.splitlines()[0] == f"would run retain every 5 minutes on {directory}"
    absent = commitlog("maintain", "--conf", ROOT / "conf/maintenance.toml", "--dry-run")
    assert absent == Done(1, "", "commitlog: data/log: no such directory\n")
    shutil.copytree(directory, tmp_path / "data/log")
    named = commitlog("maintain", "--conf", ROOT / "conf/maintenance.toml", "--dry-run")
    assert named.stdout.splitlines()[0] == "would run retain every 5 minutes on data/log"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[retain]", "needs every, such as"),
        ('[retain]\nevery = "often"', "'often' is not a duration"),
        ('[retian]\nevery = "1 hour"', "unknown retian (did you mean 'retain'?)"),
        ('[verify]\nevery = "1 hour"\npolicy = "x:Y"', "unknown [verify] policy"),
        ("[retain]\nevery = 5", "[retain] every must be a duration"),
        ('[retain]\nevery = "1 hour"\nkeep_for_groups = "g"', "[retain] keep_for_groups must be a list of texts"),
        ('[compact]\nevery = "1 hour"\ntopics = [1]', "[compact] topics must be a list of texts"),
        ('[verify]\nevery = "1 hour"\nconfig = "a=1"', "[verify] config must be a table"),
        ('[retain]\nevery = "1 hour"\npolicy = "x:Y"', "--policy x:Y: No module named 'x'"),
        ("", "nothing to run"),
        ("every =", "Invalid value"),
    ],
)
def test_what_the_file_gets_wrong_is_said_with_its_name(text: str, said: str, tmp_path: Path, directory: Path) -> None:
    conf = tmp_path / "maintenance.toml"
    conf.write_text(text)
    done = commitlog("maintain", "--conf", conf, "--log-dir", directory)
    assert done.code in (1, 2)
    assert said in done.stderr


def test_a_file_that_is_not_there_or_names_no_directory_is_refused(tmp_path: Path) -> None:
    done = commitlog("maintain", "--conf", tmp_path / "none.toml")
    assert (done.code, "no such file" in done.stderr) == (2, True)
    (tmp_path / "empty.toml").write_text("")
    done = commitlog("maintain", "--conf", tmp_path / "empty.toml")
    assert (done.code, "log_dir is missing" in done.stderr) == (2, True)


@pytest.mark.parametrize("flags", [("--every", "often"), ("--every", "1 hour", "--as-of", "2026-01-01")])
def test_wrong_use_of_every_ends_with_2(directory: Path, flags: tuple[str, ...]) -> None:
    assert commitlog("compact", "--log-dir", directory, *flags).code == 2


def test_tables_are_compacted_and_vacuumed_without_spark(directory: Path, tmp_path: Path) -> None:
    """Tables of a test with Spark: tests/pipeline/delta/table_stream."""
    table, rows = str(tmp_path / "table"), pa.table({"_partition": [0], "_offset": [0]})
    for _ in range(3):
        write_deltalake(table, rows, mode="append")
    conf = tmp_path / "maintenance.toml"
    conf.write_text(
        f'log_dir = "{directory}"\n[optimize]\nevery = "1 hour"\ntables = ["{table}", "{tmp_path / "none"}"]\n'
        f'[vacuum]\nevery = "1 hour"\ntables = ["{table}"]\n'
    )
    with running("maintain", "--conf", conf) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"optimize {table}: 3 files became 1\n"
        assert process.stdout.readline().endswith(f"there is no Delta table at {tmp_path / 'none'}\n")
        assert process.stdout.readline() == f"vacuum {table}: 0 files removed\n"  # they were needed a moment ago
        process.send_signal(signal.SIGTERM)
        process.wait()
    assert len(DeltaTable(table).file_uris()) == 1


def test_operation_on_tables_without_tables_is_refused(directory: Path, tmp_path: Path) -> None:
    conf = tmp_path / "maintenance.toml"
    conf.write_text(f'log_dir = "{directory}"\n[vacuum]\nevery = "1 hour"\n')
    assert "[vacuum] needs tables" in commitlog("maintain", "--conf", conf).stderr
