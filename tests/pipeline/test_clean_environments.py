"""The first example of every page works after ``pip install``: in an environment of the wheel, with no clone in sight.

An example runs in a folder that has data/log and data/flights (a small copy of what ``make demo`` creates) and nothing
else: no jobs/, no conf/, and no other packages than those that the extra brings.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from pyspark_commitlog.gateway import pytest_plugin
from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.pipeline.job.session import DELTA_SETTINGS
from tests.support.pages import BASH, PAGES, ROOT, first_example, name_of, with_free_ports
from tests.support.spark.delta_jars import delta_jars, delta_settings
from tests.support.spark.spark_jvm import SMALL

ROOMS = ("arrow", "browse", "classic", "cli", "gateway", "mirror", "pipeline", "protocol", "registry", "storage")
NOTHING, ARROW, BROWSE, GATEWAY, KAFKA, SPARK = "nothing", "arrow", "browse", "gateway", "kafka", "spark"
SIZE_MAX = {NOTHING: 400, GATEWAY: 450}  # MB

# The extra that the first example of a page needs.
EXTRA = {
    "README.md": SPARK,
    "docs/backup.md": NOTHING,
    "docs/broker_directory.md": NOTHING,
    "docs/browse.md": BROWSE,
    "docs/clients.md": GATEWAY,
    "docs/data_source.md": SPARK,
    "docs/erase.md": NOTHING,
    "docs/exactly_once.md": SPARK,
    "docs/failures.md": NOTHING,
    "docs/find.md": NOTHING,
    "docs/from_delta.md": SPARK,
    "docs/from_kafka.md": SPARK,
    "docs/gateway.md": GATEWAY,
    "docs/gateway_security.md": GATEWAY,
    "docs/gateway_settings.md": GATEWAY,
    "docs/index.md": SPARK,
    "docs/install.md": NOTHING,
    "docs/python.md": ARROW,
    "docs/quick_start.md": ARROW,
    "docs/scheduling.md": NOTHING,
    "docs/table_and_tail.md": SPARK,
    "docs/tables.md": SPARK,
    "docs/tiers.md": NOTHING,
    "docs/tuning.md": SPARK,
    "docs/values.md": ARROW,
}
# Pages whose first example cannot run alone, and why.
NOT_ALONE = {
    "docs/cluster.md": "starts a cluster of Spark, as tests/pipeline/test_pages.py does",
    "docs/kafka_0_7.md": "reads a directory of Kafka 0.7",
    "docs/object_store.md": "writes to an object store",
    "docs/tiers_reading.md": "reads the tier of a broker",
}

JOB_COMMANDS = ("export", "mirror", "ingest", "upgrade")

# Runs programs in one session, each with a folder data of its own, and ends with 1 if one of them failed.
SESSION = """
import json, os, shutil, sys, traceback
from pyspark_commitlog import spark_session

programs, settings, data = json.loads(sys.argv[1])
spark = spark_session("pages", master="local[2]", settings=settings)
spark.sparkContext.setLogLevel("ERROR")
failed = False
shutil.rmtree("data")
for number, (page, program) in enumerate(programs.items()):
    shutil.copytree(data, "data")
    try:
        exec(compile(program, page, "exec"), {"spark": spark})
    except Exception:
        print(page, traceback.format_exc(), file=sys.stderr)
        failed = True
    os.rename("data", f"data {number}")  # a sink may still be writing a checkpoint
sys.exit(failed)
"""

# With a Spark that a cluster brings: both ends of both sources, and a query that continues in another program.
OLDER_SPARK = """
import sys
from pyspark.sql import SparkSession
from pyspark_commitlog import commitlog_sink

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.python.filterPushdown.enabled", "true").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
assert spark.version.startswith(sys.argv[1]), spark.version
rows = spark.range(100).selectExpr("cast(id as string) as key", "cast(id as string) as value")
rows.write.format("commitlog").option("topic", "t").mode("append").save("log")
for run in (1, 2):
    commitlog_sink(topic="t", log_dir="log", txnAppId="app")(rows, run)
    stream = spark.readStream.format("commitlog").option("subscribe", "t").option("startingOffsets", "earliest")
    writer = stream.load("log").writeStream.option("checkpointLocation", "checkpoint").trigger(availableNow=True)
    writer.foreachBatch(commitlog_sink(topic="copy", log_dir="log")).start().awaitTermination()
    read = spark.read.format("commitlog").option("pushFilters", "true").load("log", subscribe="copy")
    assert read.count() == 100 * (run + 1), read.count()
assert read.where("key = '7'").count() == 3
try:
    stream.option("maxOffsetsPerTrigger", 5).load("log").writeStream.format("noop").start().awaitTermination()
except Exception as error:
    assert "needs Spark 4.2 or newer" in str(error), error
else:
    raise AssertionError("maxOffsetsPerTrigger was taken")
"""


def first(name: str) -> tuple[str, str]:
    found = first_example(ROOT / name)
    assert found, f"{name} has no example that is run"
    return found


def in_session(name: str) -> bool:
    return EXTRA[name] == SPARK and first(name)[0] == "python"


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """A function that returns a virtual environment of the wheel with an extra; each is made once."""
    folder = tmp_path_factory.mktemp("environments")

    @cache
    def made(extra: str) -> Path:
        clean = folder / extra
        subprocess.run([sys.executable, "-m", "venv", clean], check=True)
        wanted = f"{wheel}[{extra}]" if extra != NOTHING else str(wheel)
        subprocess.run([clean / "bin/pip", "install", "-q", "--disable-pip-version-check", wanted], check=True)
        return clean

    yield made
    shutil.rmtree(folder)


def variables(clean: Path, home: Path) -> dict[str, str]:
    """What a process of the environment finds: its own programs first, and none of the clone's or of the tests'."""
    system = [path for path in os.environ["PATH"].split(os.pathsep) if not Path(path).is_relative_to(ROOT)]
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "LANG") if name in os.environ}
    return {**kept, "PATH": os.pathsep.join([str(clean / "bin"), *system]), "HOME": str(home)}


@pytest.fixture
def place(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "place"
    shutil.copytree(demo / "data", folder / "data")
    monkeypatch.chdir(folder)
    yield folder
    BASH.end()


def test_each_page_with_an_example_says_which_extra_it_needs() -> None:
    assert {name_of(page) for page in PAGES if first_example(page)} == {*EXTRA, *NOT_ALONE}


def test_no_page_and_no_help_needs_a_file_of_the_clone() -> None:
    """Pages name ``$JOBS/…``, which the page after pip install sets, and ``commitlog conf …``."""
    of_clone = re.compile(r"(?<![\w$./-])(?:jobs/\w+\.py(?! of the\s+package)|conf/[a-z][\w/.-]+)")
    pages = [page for page in PAGES if "decisions" not in page.parts]
    texts = {name_of(page): page.read_text(encoding="utf-8") for page in pages}
    for path in (*(ROOT / "cli").rglob("*.py"), *(ROOT / "jobs" / f"{name}.py" for name in JOB_COMMANDS)):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        described = [node for node in (tree, *tree.body) if isinstance(node, ast.Module | ast.FunctionDef)]
        texts[str(path.relative_to(ROOT))] = "\n".join(ast.get_docstring(node) or "" for node in described)
    assert {name: found for name, text in texts.items() if (found := of_clone.findall(text))} == {}


def test_no_message_names_a_program_of_the_clone_where_the_wheel_has_a_command() -> None:
    named = re.compile(r"\bjobs/\w+\.py")
    texts = {path: path.read_text(encoding="utf-8") for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    nodes = [(path, node) for path, text in texts.items() if named.search(text) for node in ast.walk(ast.parse(text))]
    documents = {id(node.value) for _, node in nodes if isinstance(node, ast.Expr)}
    found = [
        f"{path}:{node.lineno}: {node.value}"
        for path, node in nodes
        if isinstance(node, ast.Constant) and id(node) not in documents
        if isinstance(node.value, str) and named.search(node.value)
    ]
    assert not found


@pytest.mark.only_all
@pytest.mark.parametrize("extra", SIZE_MAX)
def test_an_environment_of_the_wheel_stays_small(
    extra: str, environment: Callable[[str], Path], tmp_path: Path
) -> None:
    clean = environment(extra)
    size = sum(path.stat().st_blocks * 512 for path in clean.rglob("*") if not path.is_symlink())
    print(f"{extra}: {size / 2**20:.0f} MB")
    assert size < SIZE_MAX[extra] * 2**20
    env, log, commitlog = variables(clean, tmp_path), tmp_path / "log", clean / "bin/commitlog"
    for line in (f"topics --log-dir {log} --create --topic t", f"offsets --log-dir {log} --topic t"):
        subprocess.run([commitlog, *line.split()], check=True, env=env, capture_output=True)
    export = f"export to-table --log-dir {log} --topic t --table x --checkpoint c"
    no_spark = subprocess.run([commitlog, *export.split()], check=False, env=env, capture_output=True, text=True)
    assert (no_spark.returncode, no_spark.stdout) == (1, "")
    assert no_spark.stderr.startswith("commitlog: export needs pyspark, which is not installed: pip install")
    assert no_spark.stderr.count("\n") == 1


@pytest.mark.only_all
@pytest.mark.parametrize("name", [name for name in EXTRA if not in_session(name)])
def test_the_first_example_of_a_page_works_without_the_clone(
    name: str, environment: Callable[[str], Path], place: Path
) -> None:
    clean = environment(EXTRA[name])
    language, text = first(name)
    if language == "python":
        (place.parent / "example.py").write_text(text)
        text = "PYTHONSAFEPATH=1 python ../example.py"
    BASH.run(with_free_ports(text), name, variables(clean, place.parent))


@pytest.mark.only_all
def test_an_export_needs_no_other_extra_than_that_of_spark(environment: Callable[[str], Path], place: Path) -> None:
    spark = place / "spark"
    spark.mkdir()
    (spark / "spark-defaults.conf").write_text(delta_settings())
    env = {**variables(environment(SPARK), place.parent), "SPARK_CONF_DIR": str(spark)}
    export = "commitlog export to-table --log-dir data/log --topic flights --table data/table --checkpoint data/export"
    BASH.run(f"{export} | grep -x 'Everything was copied.'", "export", env)
    assert list((place / "data/table/_delta_log").glob("*.json"))


@pytest.mark.only_all
def test_a_mirror_needs_no_other_extra_than_that_of_kafka(environment: Callable[[str], Path], place: Path) -> None:
    env = variables(environment(KAFKA), place.parent)
    with Gateway(str(place / "gateway"), GatewayConfig.from_mapping(pytest_plugin.SETTINGS), create=True) as gateway:
        flags = f"--bootstrap-servers {gateway.bootstrap_servers} --topics flights --log-dir"
        BASH.run(f"commitlog mirror to-kafka {flags} data/log", "mirror to-kafka", env)
        BASH.run(f"commitlog mirror from-kafka {flags} data/copy", "mirror from-kafka", env)
    count = "commitlog cat --log-dir {} --topic flights -e -q | wc -l"
    BASH.run(f'test "$({count.format("data/log")})" = "$({count.format("data/copy")})"', "records", env)


@pytest.mark.only_all
def test_the_first_examples_with_spark_work_without_the_clone(
    environment: Callable[[str], Path], demo: Path, place: Path
) -> None:
    clean = environment(SPARK)
    programs = {name: first(name)[1] for name in EXTRA if in_session(name)}
    settings = SMALL | DELTA_SETTINGS | {"spark.jars": delta_jars()}
    argument = json.dumps([programs, settings, str(demo / "data")])
    done = subprocess.run(
        [clean / "bin/python", "-c", SESSION, argument],
        check=False,
        env=variables(clean, place.parent),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-6000:]


@pytest.mark.only_all
def test_a_cluster_may_bring_spark_4_1(environment: Callable[[str], Path], place: Path) -> None:
    clean = environment(SPARK)
    older = place.parent / "older"
    install = [clean / "bin/pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target", older]
    subprocess.run([*install, "pyspark==4.1.*"], check=True)
    done = subprocess.run(
        [clean / "bin/python", "-c", OLDER_SPARK, "4.1"],
        check=False,
        env=variables(clean, place.parent) | {"PYTHONPATH": str(older)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-6000:]
