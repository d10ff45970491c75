"""The command as a person meets it: exit codes, plain errors, short start."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

import pyspark_commitlog
from pyspark_commitlog.cli import COMMANDS, PANELS, _Commands, kafka_flags
from pyspark_commitlog.cli.closed_output import ends_with_its_reader
from pyspark_commitlog.pipeline.job.command_line import arguments
from pyspark_commitlog.storage import LogManager, Records
from pyspark_commitlog.storage.format import v2
from tests.cli import in_process

GOLDEN = Path(__file__).parents[1] / "golden" / "dumps"
FIRST = "0" * 20
KAFKAS_FLAGS = json.loads((GOLDEN.parent / "tools" / "flags.json").read_text())


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The parent folder of a partition that Kafka wrote, with Kafka's dump of it."""
    root = tmp_path_factory.mktemp("plain")
    with tarfile.open(GOLDEN / "plain.tar.xz") as tar:
        tar.extractall(root, filter="data")
    return root


def commitlog(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    program = "from pyspark_commitlog.cli import main; main()"
    environment = {**os.environ, "TERM": "dumb", "COLUMNS": "120", "LC_ALL": "C"}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def test_the_files_of_a_partition_are_printed_as_by_kafkas_tool(plain: Path) -> None:
    names = ",".join(sorted(str(path.relative_to(plain)) for path in plain.glob("plain-0/*")))
    done = commitlog("dump-log", "--files", names, "--print-data-log", cwd=plain)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (plain / "dump.txt").read_bytes().decode()


def test_files_may_be_given_one_by_one(plain: Path) -> None:
    paths = [str(path) for path in sorted(plain.glob("plain-0/*.snapshot"))[:2]]
    done = commitlog("dump-log", "--files", paths[0], "--files", paths[1])
    assert [line for line in done.stdout.splitlines() if line.startswith("Dumping")] == [f"Dumping {p}" for p in paths]


def test_a_missing_file_is_one_line_and_the_others_are_still_printed(plain: Path) -> None:
    log = str(plain / "plain-0" / f"{FIRST}.log")
    done = commitlog("dump-log", "--files", f"/nowhere/{FIRST}.log,{log}")
    assert done.returncode == 1
    assert done.stderr == f"commitlog: /nowhere/{FIRST}.log: there is no such file\n"
    assert f"Dumping {log}\nLog starting offset: 0\nbaseOffset: 0" in done.stdout


def test_findings_are_printed_to_stderr_and_are_not_a_failure(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    done = commitlog("dump-log", "--files", "notes.txt", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "Dumping notes.txt\n",
        "Ignoring unknown file notes.txt\n",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["dump-log"], "--files", id="no files"),
        pytest.param(["dump-log", "--files", "a.log", "--print-data-lok"], "--print-data-log", id="a flag misspelt"),
        pytest.param(["dump-log", "--files", "a.log", "--format", "xml"], "json", id="a format that is not there"),
        pytest.param(
            ["dump-log", "--files", "a.log", "--value-decoder-class", "com.acme.Avro"],
            "only 'string'",
            id="a Java class",
        ),
        pytest.param(["dump-log", "--files", "a.log", "--max-bytes", "-1"], "max-bytes", id="fewer than no bytes"),
        pytest.param(["dump-logs"], "dump-log", id="a command misspelt"),
        pytest.param(["topics", "--log-dir", "."], "--list", id="topics without what to do"),
    ],
)
def test_wrong_use_ends_with_2_and_says_what_is_right(arguments: list[str], said: str) -> None:
    done = commitlog(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_string_decoders_may_be_named_and_show_contents(plain: Path) -> None:
    log = str(plain / "plain-0" / f"{FIRST}.log")
    named = commitlog("dump-log", "--files", log, "--key-decoder-class", "kafka.serializer.StringDecoder")
    assert named.stdout == commitlog("dump-log", "--files", log, "--print-data-log").stdout
    assert " payload: " in named.stdout


def test_help_is_plain_without_a_terminal() -> None:
    done = commitlog("dump-log", "--help")
    assert done.returncode == 0
    assert "--transaction-log-decoder" in done.stdout
    assert not set(done.stdout) & set("╭│─\x1b")


def test_the_commands_are_in_panels_with_whole_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = in_process.commitlog("--help").stdout
    assert "..." not in shown.partition("Topics:")[2]
    assert max(map(len, shown.splitlines())) <= 80
    titles = [line for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options:", *(f"{title}:" for title in PANELS)]


@pytest.mark.parametrize("command", ["dump-log --print-data-log --files {log}", "conf", "dump-log --files {log}.none"])
def test_a_command_whose_output_nobody_reads_ends_quietly_as_by_sigpipe(command: str, plain: Path) -> None:
    arguments = command.format(log=plain / "plain-0" / f"{FIRST}.log").split()
    reader, writer = os.pipe()
    os.close(reader)
    program = [sys.executable, "-c", "from pyspark_commitlog.cli import main; main()", *arguments]
    is_failure = arguments[-1].endswith(".none")  # whose message is on stderr
    done = subprocess.run(
        program,
        stdout=writer,
        stderr=writer if is_failure else subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr or "") == (141, "")


def test_a_broken_connection_is_no_closed_output() -> None:
    with pytest.raises(BrokenPipeError), ends_with_its_reader():
        raise BrokenPipeError(errno.EPIPE, "a socket")


def test_commands_that_read_no_records_import_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from importlib import import_module\n"
        "from pyspark_commitlog import cli, storage\n"
        "storage.LogStoreError\n"
        "for module in cli.COMMANDS.values(): import_module(module, 'pyspark_commitlog.cli')\n"
        "print(sorted({'numba', 'numpy', 'pyarrow', 'pyspark', 'pandas', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "--list"],
        ["topics", "--describe"],
        ["configs", "--describe", "--all"],
        ["groups", "--list"],
        ["offsets"],
        ["describe", "--topic", "orders"],
        ["transactions"],
    ],
)
def test_showing_names_configs_and_batch_headers_compiles_nothing(arguments: list[str], log_directory: Path) -> None:
    program = (
        "import sys\n"
        "from pyspark_commitlog.cli import main\n"
        "sys.argv = ['commitlog', *sys.argv[1:]]\n"
        "try: main()\n"
        "except SystemExit as ended: assert not ended.code\n"
        "print(sorted({'numba', 'pyarrow', 'pyspark', 'pandas', 'rich'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program, *arguments, "--log-dir", str(log_directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", ["verify", "retain", "compact"])
def test_maintenance_of_a_machine_needs_no_spark(command: str, tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic("orders", partitions=1)
        manager.open_log("orders", 0).append_records(Records.to_append([b"key"], [b"value"], timestamp_ms=0))
    program = (
        "import sys\n"
        "sys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "from pyspark_commitlog.cli import main\n"
        "sys.argv = ['commitlog', *sys.argv[1:]]\n"
        "main()"
    )
    command_line = [sys.executable, "-c", program, command, "--log-dir", str(tmp_path)]
    done = subprocess.run(command_line, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1].startswith(f"{command}: 1 partition: 1 done")


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    """A broker's log directory with two topics; one partition has a batch."""
    for partition in ("orders-0", "orders-1", "payments-0"):
        (tmp_path / partition).mkdir()
        (tmp_path / partition / f"{FIRST}.log").write_bytes(b"")
    batch = v2.encode(Records.to_append([b"key"], [b"value"], timestamp_ms=0), v2.BatchFields())
    (tmp_path / "orders-0" / f"{FIRST}.log").write_bytes(batch)
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    return tmp_path


def test_topics_are_listed_by_name(log_directory: Path) -> None:
    done = commitlog("topics", "--list", "--log-dir", str(log_directory))
    assert (done.returncode, done.stdout, done.stderr) == (0, "orders\npayments\n", "")


def test_one_topic_is_described_with_its_partitions(log_directory: Path) -> None:
    done = commitlog("topics", "--describe", "--log-dir", str(log_directory), "--topic", "orders")
    [topic, *partitions] = done.stdout.splitlines()
    assert topic.startswith("Topic: orders\t")
    assert "PartitionCount: 2" in topic
    assert partitions == ["\tTopic: orders\tPartition: 0", "\tTopic: orders\tPartition: 1"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--log-dir", "/nowhere"], "/nowhere", id="no such directory"),
        pytest.param(["--log-dir", "{dir}", "--topic", "order"], "order", id="no such topic"),
    ],
)
def test_an_unknown_topic_or_partition_is_one_line_on_stderr(
    arguments: list[str], said: str, log_directory: Path
) -> None:
    done = commitlog("topics", "--list", *(argument.format(dir=log_directory) for argument in arguments))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("commitlog: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("part", "command"),
    [("to-topic", "export to-topic"), ("to-table", "export to-table"), ("to-kafka", "mirror to-kafka")],
)
def test_what_follows_a_command_is_not_taken_for_another_one(part: str, command: str) -> None:
    done = commitlog(part, "--help")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"No such command '{part}'. Did you mean 'commitlog {command}'?" in done.stderr
    assert commitlog(*command.split(), "--help").returncode == 0


def test_listing_topics_writes_nothing(log_directory: Path) -> None:
    before = sorted(log_directory.rglob("*"))
    commitlog("topics", "--describe", "--log-dir", str(log_directory))
    assert sorted(log_directory.rglob("*")) == before


def test_help_lists_every_command() -> None:
    done = commitlog("--help")
    assert done.returncode == 0
    listed = {line.split()[0] for line in done.stdout.partition("Topics:")[2].splitlines() if line.strip()}
    assert {*COMMANDS} <= listed


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["commitlog", "delete"], ["delete-records"]),
        (["commitlog", "topics", "--log-dir", "{dir}", "--topic", "pay"], ["payments"]),
        (["commitlog", "cat", "--log-dir", "{dir}", "-t", ""], ["orders", "payments"]),
        (["commitlog", "cat", "--log-dir", "/nowhere", "-t", ""], []),
    ],
)
def test_shells_complete_commands_and_topics(words: list[str], completed: list[str], log_directory: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'commitlog'; from pyspark_commitlog.cli import main; main()"],
        env={
            **os.environ,
            "_COMMITLOG_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(word.format(dir=log_directory) for word in words),
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (completed, "")


# --- addresses of other file systems

LOG_DIR = {
    "topics": ["--create", "--topic", "t"],
    "configs": ["--describe", "--topic", "t"],
    "offsets": [],
    "delete-records": ["--offset-json-file", "o.json"],
    "describe": ["-t", "t"],
    "cat": ["-t", "t"],
    "find": ["-t", "t", "--key", "k"],
    "browse": ["--dry-run"],
    "produce": ["-t", "t"],
    "table": ["-t", "t", "--table", "table"],
    "verify": [],
    "rebuild-index": [],
    "retain": [],
    "compact": [],
    "key-filters": [],
    "recover": [],
    "erase": ["--topics", "t", "--keys-file", __file__, "--reason", "r"],
    "snapshot": ["--to", "s"],
    "restore": ["--from", "s"],
    "fs-check": [],
    "groups": ["--list"],
    "transactions": [],
    "metrics": ["--once"],
    "gateway": ["--dry-run"],
    "maintain": ["--conf", str(Path(__file__).parents[2] / "conf/maintenance.toml")],
}
PATHS = [(command, ["--log-dir", "hdfs:/log", *more]) for command, more in LOG_DIR.items()]
PATHS += [
    ("snapshot", ["--log-dir", "log", "--to", "hdfs:/log"]),
    ("restore", ["--log-dir", "again", "--from", "hdfs:/log"]),
    ("restore", ["--log-dir", "hdfs:/log", "--from", "log", "--dry-run"]),
    ("backup", ["--log-dir", "hdfs:/log", "--to", "b"]),
    ("backup", ["--log-dir", "log", "--to", "hdfs:/log"]),
    ("copy", ["--from", "hdfs:/log", "--to", "again"]),
    ("copy", ["--from", "log", "--to", "hdfs:/log"]),
    ("tier", ["copy", "--log-dir", "hdfs:/log", "--tier", "t"]),
    ("tier", ["publish", "--topic", "t", "--log-dir", "log", "-b", "127.0.0.1:1", "--tier", "hdfs:/tier"]),
    ("tier", ["publish", "--topic", "t", "--broker-log-dir", "hdfs:/log"]),
    ("dump-log", ["--files", f"hdfs:/log/{FIRST}.log"]),
]


def test_every_command_is_tried_with_an_address() -> None:
    others = {name for name, module in COMMANDS.items() if module == ".spark_jobs"}  # tests of jobs
    assert {command for command, _ in PATHS} == {*COMMANDS} - others - {"users", "conf"}  # which have no log directory


@pytest.mark.parametrize(("command", "arguments"), PATHS, ids=[f"{each[0]} {each[1][0]}" for each in PATHS])
def test_an_address_of_another_file_system_is_not_taken_for_a_local_folder(
    command: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=1)
    (tmp_path / "o.json").write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": 0}]}')
    monkeypatch.chdir(tmp_path)
    done = in_process.commitlog(command, *arguments)
    assert done.code == 1
    assert "a log lives on a file system that every worker mounts, not on hdfs:" in done.stderr
    assert {each.name for each in tmp_path.iterdir()} == {"log", "o.json"}


# --- flags of Kafka's tools that mean nothing here

ANSWERS = [
    (command, flag, answer)
    for command in ("topics", "configs", "offsets", "groups", "transactions", "delete-records", "dump-log")
    for flag, answer in (kafka_flags.OF_ALL | kafka_flags.NOT_HERE.get(command, {})).items()
    if (command, flag) != ("topics", "--replication-factor")
]


@pytest.mark.parametrize(("command", "flag", "answer"), ANSWERS, ids=[f"{each[0]} {each[1]}" for each in ANSWERS])
@pytest.mark.parametrize("with_value", ["", "=x"])
def test_a_flag_of_kafkas_without_meaning_here_is_explained(
    command: str, flag: str, answer: str, with_value: str
) -> None:
    done = in_process.commitlog(command, f"{flag}{with_value}")
    assert (done.code, done.stdout) == (2, "")
    assert f"{flag}: {answer}" in " ".join(done.stderr.split())


def flags_of(command: str) -> set[str]:
    return {"--help", *(flag for parameter in _Commands()[command].params for flag in parameter.opts)}


@pytest.mark.parametrize("tool", KAFKAS_FLAGS)
def test_every_flag_of_kafkas_tool_is_known_or_explained(tool: str) -> None:
    """Returns the flags of Kafka 3.9.1, as listed by ``--help`` of each tool."""
    known = flags_of(tool) | kafka_flags.OF_ALL.keys() | kafka_flags.NOT_HERE.get(tool, {}).keys()
    assert [flag for flag in KAFKAS_FLAGS[tool] if flag not in known] == []


@pytest.mark.parametrize(
    ("kafkas", "ours"),
    [
        (("list",), ()),
        (("find-hanging", "--topic", "plain"), ("--find-hanging", "--topic", "plain")),
        (
            ("abort", "--topic", "plain", "--partition", "0", "--start-offset", "0"),
            ("--abort", "--topic", "plain", "--partition", "0", "--start-offset", "0"),
        ),
        (("list", "--topic", "list"), ("--topic", "list")),  # a topic's name is no subcommand
    ],
)
def test_subcommands_of_kafkas_tool_are_flags_here(
    kafkas: tuple[str, ...], ours: tuple[str, ...], log_directory: Path
) -> None:
    here = ("transactions", "--log-dir", log_directory)
    assert in_process.commitlog(*here, *kafkas) == in_process.commitlog(*here, *ours)


def test_help_has_a_short_flag() -> None:
    for command in ((), ("topics",)):
        assert in_process.commitlog(*command, "-h").stdout == in_process.commitlog(*command, "--help").stdout != ""


def test_the_version_is_printed() -> None:
    assert in_process.commitlog("--version").stdout == f"{version('spark-commitlog')}\n"
    assert pyspark_commitlog.__version__ == version("spark-commitlog")


def test_a_decoder_flag_may_lack_its_value(plain: Path) -> None:
    log = str(plain / "plain-0" / f"{FIRST}.log")
    given = ("dump-log", "--files", log, "--value-decoder-class")
    assert in_process.commitlog(*given) == in_process.commitlog("dump-log", "--files", log, "--print-data-log")


def test_the_environment_names_the_log_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_process.commitlog("topics", "--log-dir", tmp_path / "log", "--create", "--topic", "t")
    monkeypatch.setenv("COMMITLOG_LOG_DIR", str(tmp_path / "log"))
    assert in_process.commitlog("topics", "--list").stdout == "t\n"
    assert arguments("").parse_args([]).log_dir == str(tmp_path / "log")
