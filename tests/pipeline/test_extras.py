"""What each extra of the package brings is enough for every ``--help``, and what is missing is named.

A process sees only the distributions that an extra brings, by their metadata; test_clean_environments.py installs the
wheel.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pyspark_commitlog.cli import COMMANDS
from pyspark_commitlog.gateway import pytest_plugin
from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import LogManager
from pyspark_commitlog.storage.extras import EXTRAS as EXTRA_OF_MODULE
from tests.support.logs.building import append, rows

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NOTHING = "nothing"
NOT_USERS = ("all", "bench", "dev", "release", "torture")  # all: of these nothing is missing
EXTRAS = [NOTHING, *(name for name in PROJECT["optional-dependencies"] if name not in NOT_USERS)]
JOBS = sorted(path.stem for path in (ROOT / "jobs").glob("*.py") if path.stem not in ("__init__", "demo"))
QUICK = (NOTHING, "kafka")

# Hides the modules that ``hidden`` has from a process.
HIDING = """
class Hidden:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden)
"""

# Runs --help of every command and job, and prints those that fail, or name a file of the clone.
HELP_OF_ALL = (
    """
import contextlib, io, json, runpy, sys
hidden, commands, jobs = json.loads(sys.argv[1])
"""
    + HIDING
    + """
import pyspark_commitlog.cli
runs = [(f"commitlog {name}", ["commitlog", name, "--help"], pyspark_commitlog.cli.main) for name in commands]
for job in jobs:
    module = f"pyspark_commitlog.jobs.{job}"
    runs.append((job, [job, "--help"], lambda module=module: runpy.run_module(module, run_name="__main__")))
for name, argv, run in runs:
    sys.argv, code = argv, None
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(printed):
        try:
            run()
        except SystemExit as ended:
            code = ended.code
        except Exception as error:
            code = repr(error)
    if code or "sage:" not in printed.getvalue() or "docs/" in printed.getvalue():  # pages are in the clone
        print(name, code, printed.getvalue()[-300:])
"""
)


# Runs a command.
COMMAND = f"""
import json, sys
hidden = json.loads(sys.argv.pop(1))
{HIDING}
from pyspark_commitlog.cli import main
sys.argv[0] = "commitlog"
main()
"""


def requirements(extra: str) -> Iterator[Requirement]:
    optional = PROJECT["optional-dependencies"]
    for text in [*PROJECT["dependencies"], *(optional[extra] if extra != NOTHING else ())]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            for inner in requirement.extras:
                yield from requirements(inner)
        else:
            yield requirement


def brought(extra: str) -> set[str]:
    """The distributions that pip installs for an extra, by their canonical names."""
    found, waiting = set[tuple[str, str]](), [(each, "") for each in requirements(extra)]
    while waiting:
        requirement, _ = waiting.pop()
        for inner in ("", *requirement.extras):
            key = (canonicalize_name(requirement.name), inner)
            if key in found:
                continue
            found.add(key)
            try:
                needed = [Requirement(text) for text in distribution(requirement.name).requires or ()]
            except PackageNotFoundError:
                continue
            waiting += [(each, inner) for each in needed if not each.marker or each.marker.evaluate({"extra": inner})]
    return {name for name, _ in found}


def not_brought(extra: str) -> list[str]:
    """The modules installed here that an environment with only this extra would not have."""
    there = brought(extra) | {"spark-commitlog", "pip", "setuptools"}
    return [
        module
        for module, distributions in packages_distributions().items()
        if not {canonicalize_name(each) for each in distributions} & there
    ]


@pytest.mark.parametrize(
    "extra", [each if each in QUICK else pytest.param(each, marks=pytest.mark.only_all) for each in EXTRAS]
)
def test_every_help_is_printed_with_what_an_extra_brings(extra: str) -> None:
    hidden = not_brought(extra)
    assert extra != NOTHING or {"pyspark", "pyarrow", "pandas", "kio", "kafka", "fastavro"} <= set(hidden)
    done = subprocess.run(
        [sys.executable, "-c", HELP_OF_ALL, json.dumps([hidden, list(COMMANDS), JOBS])],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""


def test_a_mirror_needs_what_the_extra_of_kafka_brings(tmp_path: Path) -> None:
    """To the gateway of this process, from there to another log, and between both; its help is not all that works."""
    source, target = tmp_path / "source", tmp_path / "target"
    with LogManager.open(str(source), create=True) as manager:
        manager.create_topic("t", partitions=1)
        append(manager.open_log("t", 0), b"a", b"b")
    hidden = not_brought("kafka")
    assert {"pyarrow", "pyspark", "pandas"} <= set(hidden)
    config = GatewayConfig.from_mapping(pytest_plugin.SETTINGS)
    with Gateway(str(tmp_path / "gateway"), config, create=True) as gateway:
        servers = ["--bootstrap-servers", gateway.bootstrap_servers]
        for name, settings in (
            ("consumer", f"bootstrap.servers={gateway.bootstrap_servers}\ngroup.id=g\n"),
            ("producer", f"log.dir={tmp_path / 'between'}\n"),
        ):
            (tmp_path / name).write_text(settings)
        clusters = ["--consumer.config", str(tmp_path / "consumer"), "--producer.config", str(tmp_path / "producer")]
        for arguments in (
            ["to-kafka", *servers, "--log-dir", str(source), "--topics", "t"],
            ["from-kafka", *servers, "--log-dir", str(target), "--topics", "t"],
            ["between-clusters", *clusters, "--whitelist", "t"],
        ):
            command = [sys.executable, "-c", COMMAND, json.dumps(hidden), "mirror", *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (arguments, done.stderr)
    for log_dir in (target, tmp_path / "between"):
        with LogManager.open(str(log_dir)) as manager:
            assert [value for _, value in rows(manager.open_reader("t", 0))] == [b"a", b"b"]


def test_an_export_of_a_directory_imports_nothing_of_clients_of_brokers(tmp_path: Path) -> None:
    """Its own error comes, and no other extra is asked for; test_clean_environments.py exports with the wheel."""
    hidden = ["kafka", "kio", "kazoo", "confluent_kafka", "fastavro", "obstore"]
    program = (
        f"import sys\nfor each in {hidden}:\n    sys.modules[each] = None\n"
        "from pyspark_commitlog.jobs.export import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    to_table = ["to-table", "--log-dir", str(tmp_path), "--topic", "t", "--table", "t", "--checkpoint", "c"]
    done = subprocess.run(
        [sys.executable, "-c", program, *to_table], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{tmp_path}: contains neither topics.json nor a partition" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["find", "--topic", "t", "--where", "true"],
        ["erase", "--topics", "t", "--where", "true", "--reason", "r"],
    ],
)
def test_a_condition_in_sql_asks_for_the_extra_that_brings_all_it_needs(command: list[str], tmp_path: Path) -> None:
    program = (
        "import sys\nsys.modules['pyarrow'] = sys.modules['duckdb'] = None\n"
        "from pyspark_commitlog.cli import main\nsys.argv[0] = 'commitlog'\nmain()\n"
    )
    arguments = [*command, "--log-dir", str(tmp_path)]
    (tmp_path / "topics.json").write_text('{"version": 1, "topics": {}}')
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, "pip install 'spark-commitlog[find]'" in done.stderr) == (1, True), done.stderr


def test_every_module_of_an_extra_is_brought_by_it() -> None:
    by_module = packages_distributions()
    for module, extra in EXTRA_OF_MODULE.items():
        names = {canonicalize_name(each) for each in by_module[module]}
        assert names & brought(extra), (module, extra)


def test_a_name_of_the_public_face_that_needs_spark_says_which_extra_brings_it() -> None:
    program = (
        "import sys\nsys.modules['pyspark'] = None\nimport pyspark_commitlog\n"
        "try:\n    pyspark_commitlog.commitlog_sink\nexcept ModuleNotFoundError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(
        "pyspark_commitlog.commitlog_sink needs pyspark, which is not installed: pip install 'spark-commitlog[spark]'"
    )
