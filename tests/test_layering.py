"""Who may import whom. The tables below are the rule; the sources are read with ``ast`` and held against them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "pyspark_commitlog"
FOLDERS = ("storage", "pipeline", "jobs", "cli")
READ = (*FOLDERS, PACKAGE, "tests", "benchmarks")

# A module of storage/ imports only from lines above its own; neighbours on a line stay strangers.
LAYERS = """
errors
open_files
config clock filesystem kernels ahead paths
format
index producers epochs swaps topics_file fs_check arguments internal_topics joining resync
record_times
segment_reader
times
segment broker_settings
segment_list refusals partition_locks given_settings log_end
validator
recovery splitting
snapshot_check
loader
outcomes
fetch
reader
shared_log salvage watcher follower
log
retention cleaner rebuild verify dump replica
manager
latest topics snapshots
coordinator_logs
groups
group_states
transactions lag
maintenance
description
"""
HEIGHT = {module: height for height, line in enumerate(LAYERS.split("\n")) for module in line.split()}

# What a folder may import of the others, by their __init__ only where it is storage.
ALLOWED = {
    "storage": {"storage"},
    "pipeline": {"storage", "pipeline"},
    "jobs": {"storage", "pipeline", "jobs"},
    "cli": {"storage", "pipeline", "cli"},  # pipeline, and so Spark, only inside the commands that need it
    PACKAGE: {"storage", "pipeline"},
}

# Libraries that have their places: the paths below which they may be imported.
SPARK = ("pipeline/", "jobs/", f"{PACKAGE}/", "tests/pipeline/", "tests/jobs/", "tests/conftest.py", "benchmarks/")
FINDING_JARS = ("tests/support/avro_pairs.py", "tests/support/kafka_jvm.py", "tests/support/spark_jvm.py")
PLACES = {
    "numba": ("storage/kernels/", "tests/storage/kernels/", "benchmarks/"),
    "pyspark": (*SPARK, *FINDING_JARS, "tests/support/spark_settings.py", "tests/torture/damaged_queries.py"),
    "delta": SPARK,
}

# Files and time reach storage/ through two ports; the kernels find a folder for compiled code, which is no log's.
PORTS = ("storage/filesystem.py", "storage/clock.py")
BEHIND_PORTS = {"os", "mmap", "time", "fcntl", "pathlib", "shutil"}
EXCEPTED = ("storage/kernels/compiling.py", "pathlib")


class Import(NamedTuple):
    """One imported name: ``from a.b import c`` gives ``("a", "b", "c")``."""

    name: tuple[str, ...]
    line: int
    in_function: bool


def imports(tree: ast.Module) -> Iterator[Import]:
    in_functions = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            names = [f"{origin}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            yield Import(tuple(name.split(".")), node.lineno, id(node) in in_functions)


def violations(path: str, source: str) -> list[str]:
    """What is wrong with the imports of the file at ``path`` (from the root, with ``/``), one sentence each."""
    tree = ast.parse(source)
    found = [
        f"{path}:{one.line}: {'.'.join(one.name)}: {fault}" for one in imports(tree) for fault in faults_of(path, one)
    ]
    if path.startswith("storage/") and path not in PORTS:
        found += [f"{path}:{line}: open() only behind the ports" for line in calls_of_open(tree)]
    return found


def faults_of(path: str, one: Import) -> Iterator[str]:
    top = one.name[0]
    if top == "":
        yield "imports are absolute"
    if top in FOLDERS:
        yield f"is imported as {PACKAGE}.{top}: a person's own folder of that name would be taken instead"
    if top in PLACES and not path.startswith(PLACES[top]):
        yield f"{top} only in {', '.join(PLACES[top])}"
    if top in BEHIND_PORTS and path.startswith("storage/") and path not in PORTS and (path, top) != EXCEPTED:
        yield f"only in {' and '.join(PORTS)}"
    if top == PACKAGE:
        yield from faults_inside(path, one)


def faults_inside(path: str, one: Import) -> Iterator[str]:
    """What is wrong with an import of one of our own modules."""
    home = path.split("/", maxsplit=1)[0]
    if home not in ALLOWED:
        return  # tests and benchmarks see everything
    folder = one.name[1] if len(one.name) > 1 else ""
    part = one.name[2] if len(one.name) > 2 else ""
    if folder not in ALLOWED[home]:
        yield f"{home} imports only from {', '.join(sorted(ALLOWED[home]))}"
    elif home == "storage":
        yield from faults_of_height(path, part)
    elif folder == "storage" and part in HEIGHT:
        yield "storage/__init__.py has the public names"
    elif home == "cli" and folder == "pipeline" and not one.in_function:
        yield "the cli imports pipeline only inside functions"


def faults_of_height(path: str, imported: str) -> Iterator[str]:
    """What is wrong with one module of storage/ importing another."""
    importer = path.split("/")[1].removesuffix(".py")
    if importer in ("__init__", imported):
        return
    if importer not in HEIGHT:
        yield f"{importer} has no place in LAYERS"
    elif imported not in HEIGHT:
        yield "inside storage/ a name is imported from the module it lives in, which has a place in LAYERS"
    elif HEIGHT[imported] >= HEIGHT[importer]:
        yield f"{imported} is not above {importer}"


def calls_of_open(tree: ast.Module) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"
    ]


def sources() -> list[str]:
    """Every Python file of the project; the links in the package lead to folders that are read by themselves."""
    return sorted(
        str(path.relative_to(ROOT))
        for folder in READ
        for path in (ROOT / folder).rglob("*.py")
        if not any(parent.is_symlink() for parent in path.parents)
    )


# --- the project


@pytest.mark.parametrize("path", sources())
def test_a_file_imports_only_what_it_may(path: str) -> None:
    assert violations(path, (ROOT / path).read_text()) == []


def test_every_module_of_storage_has_its_layer() -> None:
    modules = {path.name.removesuffix(".py") for path in (ROOT / "storage").iterdir() if path.name[0] not in "._"}
    assert modules - {"__pycache__", "__init__"} - set(HEIGHT) == set()


def test_the_project_was_read() -> None:
    assert {"storage/errors.py", f"{PACKAGE}/__init__.py", "tests/test_layering.py"} <= set(sources())
    assert not any(path.startswith(f"{PACKAGE}/storage") for path in sources())


# --- the checker: what it must refuse, and what it must not


REFUSED = {
    "a module imports from a lower line": ("storage/index.py", "from pyspark_commitlog.storage.log import Log"),
    "a module imports its neighbour": ("storage/index.py", "from pyspark_commitlog.storage.epochs import Cache"),
    "a module imports a lower one as a module": ("storage/index.py", "from pyspark_commitlog.storage import log"),
    "the same, by import": ("storage/index.py", "import pyspark_commitlog.storage.log"),
    "a module in a folder imports from a lower line": (
        "storage/format/v2.py",
        "from pyspark_commitlog.storage.index import OffsetIndex",
    ),
    "inside a function it counts as well": (
        "storage/index.py",
        "def f():\n    from pyspark_commitlog.storage.log import Log",
    ),
    "for the type checker only it counts as well": (
        "storage/index.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pyspark_commitlog.storage.log import Log",
    ),
    "a public name is imported inside storage": ("storage/index.py", "from pyspark_commitlog.storage import Log"),
    "all of storage is imported inside it": ("storage/index.py", "import pyspark_commitlog.storage"),
    "a module without a layer": ("storage/novelty.py", "from pyspark_commitlog.storage.errors import StorageError"),
    "storage imports pipeline": ("storage/log.py", "from pyspark_commitlog.pipeline.sink import commitlog_sink"),
    "storage imports the public face": ("storage/log.py", "import pyspark_commitlog"),
    "pipeline reaches into storage": ("pipeline/sink.py", "from pyspark_commitlog.storage.log import Log"),
    "pipeline imports a module of storage": ("pipeline/sink.py", "from pyspark_commitlog.storage import log"),
    "pipeline imports a job": ("pipeline/sink.py", "from pyspark_commitlog.jobs import ingest"),
    "a job reaches into storage": ("jobs/retain.py", "import pyspark_commitlog.storage.retention"),
    "a job imports the cli": ("jobs/retain.py", "from pyspark_commitlog.cli import main"),
    "a job imports the public face": ("jobs/retain.py", "from pyspark_commitlog import commitlog_sink"),
    "the cli imports pipeline with itself": ("cli/__init__.py", "from pyspark_commitlog.pipeline import session"),
    "the public face reaches into storage": ("pyspark_commitlog/__init__.py", "import pyspark_commitlog.storage.log"),
    "bare storage": ("tests/storage/test_log.py", "from storage.log import Log"),
    "bare pipeline, by import": ("pipeline/sink.py", "import pipeline.options"),
    "bare jobs in a benchmark": ("benchmarks/append.py", "import jobs"),
    "a relative import": ("storage/log.py", "from . import errors"),
    "a relative import of a module": ("storage/log.py", "from .errors import StorageError"),
    "numba outside the kernels": ("storage/format/v2.py", "from numba import njit"),
    "numba in a test of something else": ("tests/storage/test_log.py", "import numba"),
    "Spark in storage": ("storage/log.py", "from pyspark.sql import SparkSession"),
    "Spark in the cli, even inside a function": ("cli/cat.py", "def f():\n    import pyspark.sql.functions"),
    "Spark in a test of storage": ("tests/storage/test_log.py", "import pyspark"),
    "Spark in a helper that makes do without": ("tests/support/spark_kafka.py", "import pyspark"),
    "Delta in storage": ("storage/log.py", "from delta import DeltaTable"),
    "os in storage": ("storage/log.py", "import os.path"),
    "one name of os in storage": ("storage/log.py", "from os import fsync"),
    "time in storage": ("storage/log.py", "import time"),
    "mmap in storage": ("storage/index.py", "import mmap"),
    "pathlib in storage": ("storage/format/names.py", "from pathlib import Path"),
    "open in storage": ("storage/log.py", "def f(path):\n    return open(path)"),
    "the second of two names": ("storage/index.py", "from pyspark_commitlog.storage import errors, log"),
}

ACCEPTED = {
    "a module imports from above": (
        "storage/log.py",
        "from pyspark_commitlog.storage.errors import LogStoreError\nfrom pyspark_commitlog.storage import loader",
    ),
    "a module of a folder imports its folder": (
        "storage/format/v2.py",
        "from pyspark_commitlog.storage.format.fields import Codec\nimport pyspark_commitlog.storage.format.names",
    ),
    "storage's own face imports anything of storage": (
        "storage/__init__.py",
        "from pyspark_commitlog.storage.transactions import TransactionCoordinator",
    ),
    "pipeline imports public names": ("pipeline/sink.py", "from pyspark_commitlog.storage import Log, LogConfig"),
    "pipeline imports all of storage": ("pipeline/sink.py", "import pyspark_commitlog.storage"),
    "pipeline imports itself and Spark": (
        "pipeline/sink.py",
        "from pyspark.sql import DataFrame\nfrom pyspark_commitlog.pipeline.options import Options",
    ),
    "the cli imports pipeline in a command": (
        "cli/cat.py",
        "from pyspark_commitlog.storage import Log\ndef cat():\n    from pyspark_commitlog.pipeline import session",
    ),
    "the public face imports pipeline": (
        "pyspark_commitlog/__init__.py",
        "from pyspark_commitlog.pipeline.sink import commitlog_sink",
    ),
    "numba in a kernel": ("storage/kernels/varint.py", "import numba"),
    "the ports": ("storage/filesystem.py", "import os, mmap\ndef f(path):\n    return open(path)"),
    "the open of a file system": (
        "storage/log.py",
        "def f(filesystem, path):\n    return filesystem.open(path, 'read')",
    ),
    "tests see everything": (
        "tests/storage/test_log.py",
        "import os\nfrom pyspark_commitlog.storage.log import Log\nfrom tests.support.clock import ManualClock",
    ),
    "a library with a name that begins like one of ours": ("pipeline/sink.py", "import storage_of_someone_else"),
}


@pytest.mark.parametrize(("path", "source"), REFUSED.values(), ids=REFUSED)
def test_the_checker_refuses(path: str, source: str) -> None:
    assert len(violations(path, source)) == 1


@pytest.mark.parametrize(("path", "source"), ACCEPTED.values(), ids=ACCEPTED)
def test_the_checker_accepts(path: str, source: str) -> None:
    assert violations(path, source) == []
