"""The maintenance jobs as programs: spark-submit, exit codes, what is on stdout and what on stderr."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_commitlog.jobs import retain
from pyspark_commitlog.storage import LogManager, alter_broker_settings
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.files.checkpoints import encode_snapshot
from tests.support.logs.building import records
from tests.support.logs.compaction import Pass, batches
from tests.support.logs.maintenance import EXACT, lay_out_directory, left_by, segment_files, topic_of, tree
from tests.support.spark import spark_jvm
from tests.support.waiting import soon

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def submit(job: str, *options: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a job as a scheduler does."""
    program = [Path(sys.executable).with_name("spark-submit"), *spark_jvm.DEFAULTS_ARGUMENTS]
    return execute([*map(str, program), str(ROOT / "jobs" / f"{job}.py"), *map(str, options)], cwd)


def execute(command: list[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(ROOT / "conf")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=cwd)


@pytest.mark.parametrize("name", ["compaction/after-2/c-txn-0"])
@pytest.mark.only_all
def test_the_program_produces_what_the_real_cleaner_produced(name: str, tmp_path: Path) -> None:
    (each,) = (one for one in EXACT if str(one) == name)
    lay_out_directory(each, tmp_path / "log")
    options = as_options(each, tmp_path / "log")
    done = submit("compact", *options, "--json", "--config", "min.insync.replicas=1")
    assert done.returncode == 0, done.stderr
    found = segment_files(tmp_path / "log" / each.partition)
    left = left_by(each)
    assert batches(found) == batches(left)
    newest = max(name for name in left if name.endswith(file_names.SNAPSHOT))
    # The program lives today: it forgot the producers, which have all been idle for more than a day.
    assert found == left | {newest: encode_snapshot(())}
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["first_dirty_offset"] == each.next_first_dirty_offset
    assert "WARNING --config min.insync.replicas: has no effect here" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("compaction: 1 partition: 1 done; ")


def as_options(each: Pass, log_dir: Path) -> list[object]:
    """Converts the settings and the time of a pass to options."""
    settings = {**each.broker, **each.configs}
    configs = [part for key, value in settings.items() for part in ("--config", f"{key}={value}")]
    (time_ms,) = each.times_ms
    return ["--log-dir", log_dir, "--topics", topic_of(each)[0], "--as-of", time_ms, *configs]


@pytest.mark.only_all
def test_a_policy_of_ones_own_deletes_what_it_says(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    with LogManager.open(str(directory), create=True) as manager:
        for topic in ("t", "u"):
            log = manager.open_log(manager.create_topic(topic, partitions=1).name, 0)
            for n in range(4):
                log.append_records(records([b"%d" % n]))
                log.roll()
    (tmp_path / "policies_of_mine.py").write_text(
        "from pyspark_commitlog.storage import RetentionVerdict\n"
        "class Below:\n"
        "    name = 'below'\n"
        "    def __init__(self, offset):\n"
        "        self.offset = offset\n"
        "    def judge(self, segment, situation):\n"
        "        return RetentionVerdict(segment.next_offset <= self.offset, 'mine')\n"
    )
    options = ("--policy", "policies_of_mine:Below", "--policy-option", "offset=2")
    done = submit("retain", "--log-dir", directory, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("by below: 2 segments, offsets 0 to 1") == 2
    for topic in ("t", "u"):
        assert [int(path.stem) for path in sorted((directory / f"{topic}-0").glob("*.log"))] == [2, 3, 4]


def test_options_of_a_policy_that_is_not_given_are_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["retain.py", "--log-dir", "log", "--policy-option", "offset=2"])
    with pytest.raises(SystemExit) as ended:
        retain.main()
    assert ended.value.code == 2
    assert "--policy-option needs --policy" in capsys.readouterr().err


@pytest.mark.only_all
def test_the_settings_for_all_topics_of_a_directory_reach_the_job(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    with LogManager.open(str(directory), create=True) as manager:
        alter_broker_settings(manager, {"log.retention.ms": "1000"})
        for topic, configs in (("t", {}), ("own", {"retention.ms": "-1"})):
            log = manager.open_log(manager.create_topic(topic, partitions=1, configs=configs).name, 0)
            for n in range(3):
                log.append_records(records([b"%d" % n]))
                log.roll()
    done = submit("retain", "--log-dir", directory)
    assert done.returncode == 0, done.stderr
    left = [sorted(int(path.stem) for path in (directory / f"{topic}-0").glob("*.log")) for topic in ("t", "own")]
    assert left == [[3], [0, 1, 2, 3]]


@pytest.mark.only_all
def test_a_job_runs_again_until_it_is_stopped_and_finishes_its_run(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    with LogManager.open(str(directory), create=True) as manager:
        manager.create_topic("t", partitions=1, configs={"retention.ms": "1"})
    command = [Path(sys.executable).with_name("spark-submit"), "--conf", "spark.jars.packages="]
    command += [*spark_jvm.DEFAULTS_ARGUMENTS, ROOT / "jobs/retain.py", "--log-dir", directory, "--every", "1 second"]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(ROOT / "conf")}
    with subprocess.Popen(
        [*map(str, command)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "retention: 1 partition: 1 done; nothing to delete\n"  # the first run
        with LogManager.open(str(directory)) as manager:
            log = manager.open_log("t", 0)
            log.append_records(records([b"old"]))
            log.roll()
        soon(lambda: not (directory / "t-0" / file_names.segment_file(0, file_names.LOG)).exists())
        job.send_signal(signal.SIGTERM)
        lines = job.stdout.readlines()
    assert any("deleting 1 of" in line for line in lines)
    assert lines[-1].startswith("retention: 1 partition: 1 done; ")


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A log directory, and the damaged file in it."""
    directory = tmp_path_factory.mktemp("damaged") / "log"
    with LogManager.open(str(directory), create=True) as manager:
        manager.create_topic("t", partitions=2)
        for number in range(2):
            log = manager.open_log("t", number)
            for n in range(3):
                log.append_records(records([b"%d" % n] * 10))
                log.roll()
    path = sorted((directory / "t-1").glob("*.log"))[1]
    path.write_bytes(path.read_bytes()[:-2] + b"\xff\xff")
    return str(directory), path


@pytest.mark.parametrize("job", ["verify", pytest.param("rebuild_index", marks=pytest.mark.only_all)])
def test_damage_is_named_the_others_go_on_and_the_exit_code_is_3(job: str, damaged: tuple[str, Path]) -> None:
    log_dir, path = damaged
    before = tree(Path(log_dir))
    found = submit(job, "--log-dir", log_dir, "--dry-run")
    assert found.returncode == 3, found.stderr
    first, *_, last = found.stdout.splitlines()
    assert first.startswith("t-0")
    assert f"{path}, position 0" in found.stdout
    assert last.endswith("2 partitions: 1 done, 1 damaged")
    assert tree(Path(log_dir)) == before


@pytest.mark.parametrize(
    ("job", "options", "code", "reason"),
    [
        ("compact", ["--topics", "tt"], 1, "compaction: no topic 'tt' in {log_dir} (did you mean 't'?)"),
        *(
            pytest.param(*each, marks=pytest.mark.only_all)  # each starts a process, to say one line
            for each in (
                (
                    "retain",
                    ["--config", "retention.m=1"],
                    2,
                    "retention: unknown config retention.m (did you mean 'retention.ms'?)",
                ),
                ("rebuild_index", ["--as-of", "2999-01-01"], 2, "index rebuild: --as-of is in the future"),
                ("verify", ["--log-dir", "/no/such"], 1, "verification: /no/such: no such directory"),
            )
        ),
        ("verify", ["--quick"], 2, "unrecognized arguments: --quick"),
    ],
)
def test_what_cannot_be_run_is_reported_at_once(
    job: str, options: list[str], code: int, reason: str, damaged: tuple[str, Path]
) -> None:
    found = execute([sys.executable, str(ROOT / "jobs" / f"{job}.py"), "--log-dir", damaged[0], *options])
    assert (found.returncode, found.stdout) == (code, "")
    assert reason.format(log_dir=damaged[0]) in found.stderr


@pytest.mark.only_all
@pytest.mark.parametrize("which", [("--keys-file", "keys"), ("--where", "key_text = 'ann'")])
def test_records_are_erased_in_a_task_of_each_log_and_the_certificate_is_checked(
    which: tuple[str, str], tmp_path: Path
) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=2)
        for number in range(2):
            manager.open_log("t", number).append_records(records([b"1", b"2"], keys=[b"ann", b"ida"]))
    (tmp_path / "keys").write_text("ann\n")
    options = ["--log-dir", tmp_path / "log", "--json"]
    request = ["--topics", "t", *which, "--reason", "request 17", "--certificate", "c.json"]
    done = submit("erase", *options, *request, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["records_erased"] for line in done.stdout.splitlines()] == [1, 1]
    assert json.loads((tmp_path / "c.json").read_text())["is_complete"]
    checked = submit("erase", *options, "--check", "c.json", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert submit("erase", *options, cwd=tmp_path).returncode == 2
