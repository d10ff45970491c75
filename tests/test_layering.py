"""Which rooms may import which: the tables below are the rule, and every source file is read with ``ast``.

Where modules and smaller rooms inside a room have no floors, no imports lead in a circle either.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "pyspark_commitlog"
RELATIVE = (
    "storage",
    "arrow",
    "pipeline",
    "gateway",
    "registry",
    "classic",
    "mirror",
    "protocol",
    "browse",
    "cli",
)  # imports inside and between these are relative, so that tools follow them
FOLDERS = (*RELATIVE, "jobs")
READ = (*FOLDERS, PACKAGE, "tests", "benchmarks")
FILES_MAX = 12  # of a room, without its __init__.py

# A room (a folder, or a module beside the folders) imports only from floors below its own; neighbours stay strangers.
FLOORS = {
    "storage": """
        tiering
        backup
        transfer erasure filtering
        maintenance
        transactions
        groups finding remote_metadata
        compaction retention index_rebuild directory
        shown
        tiers
        bucket
        writing
        reading verify
        recovery key_filters
        segment dump topic_rules
        format log_lines
        node_config
        process
        config filesystem prefetch text paths classes extras bytes_read
        file_times
        kernels errors clock verdicts
        """,
    "storage/writing": """
        plain_appends replica
        log
        writable_log log_end
        rolling
        bounds
        durability sharing forwarding
        locks checks append_info
        """,
    "storage/writing/checks": """
        appends checked_batch
        batches
        old_formats
        records
        """,
    "arrow": """
        choice finding
        sql follower
        avro_texts producer table
        batches columns rows values
        """,
    "pipeline": """
        datasource
        delta maintenance mirror demo
        job metrics
        write
        read
        workers rows
        locations
        """,
    "gateway": """
        pytest_plugin
        metrics_server
        server metrics check
        handlers parts announcement accepting
        context
        transactions
        request producer_ids places turns fetch_sessions live_settings tiers
        resting
        partitions groups quotas
        cluster consumer_groups
        network security
        config process figures children
        listeners threads
        """,
    "registry": """
        opening
        files zookeeper
        journal operations calls kafka_nodes
        tree
        port
        errors
        """,
    "classic": """
        producer
        streams
        consumer zookeeper_groups
        wire gateway_0_7 upgrade topic_filters named_settings
        log_0_7
        requests_0_7 errors
        """,
    "mirror": """
        run
        session
        stream same_log
        settings arrivals
        topics
        targets tiers
        progress
        sources
        brokers
        errors
        """,
    "protocol": """
        produce fetch errors headers
        bodies
        decoding old writing
        apis reading
        """,
    "browse": """
        server
        application
        views
        browser
        searching
        access rendering records drawing
        config links logs
        decoding
        pages static
        """,
    "cli": """
        admin produce gateway browse spark_jobs conf
        reading copies
        maintenance
        selecting metrics
        arguments flags schemas kafka_flags passwords
        output closed_output signals
        """,
}
HEIGHT = {
    (folder, room): height
    for folder, floors in FLOORS.items()
    for height, floor in enumerate(reversed(floors.strip().split("\n")))
    for room in floor.split()
}

# What a folder may import of the others: of storage only its face. The wing `classic` is above the servers, and below
# what reads the logs and servers of all times; what is below it does not know it.
ALLOWED = {
    "storage": {"storage"},
    "arrow": {"storage", "arrow"},
    "pipeline": {"storage", "arrow", "classic", "mirror", "pipeline"},
    "jobs": {"storage", "arrow", "classic", "pipeline", "jobs"},
    "registry": {"storage", "registry"},
    "protocol": {"storage", "protocol"},
    "gateway": {"storage", "registry", "protocol", "gateway"},
    "classic": {"storage", "registry", "protocol", "gateway", "classic"},
    "mirror": {"storage", "registry", "protocol", "classic", "mirror"},
    "browse": {"storage", "browse"},
    # Of these, storage alone outside of functions.
    "cli": {"storage", "arrow", "classic", "mirror", "pipeline", "registry", "gateway", "browse", "jobs", "cli"},
    PACKAGE: {"storage", "arrow", "classic", "pipeline", "gateway"},
}

# What is made of the parts of storage, and so imports its rooms: the log of Kafka 0.7 and its upgrade.
OF_PARTS = ("classic/log_0_7/", "classic/upgrade/")

LATE = (
    "arrow",
    "classic",
    "mirror",
    "pipeline",
    "gateway",
    "browse",
    "jobs",
)  # imported by commands inside functions, so that others start sooner

# Libraries that have their places: the paths below which they may be imported.
SPARK = (
    "pipeline/",
    "jobs/",
    "tests/pipeline/",
    "tests/jobs/",
    "tests/conftest.py",
    "tests/torture/beside_spark/",
    "tests/torture/gateway/beside_spark/",
    "tests/torture/damage/queries.py",
    "tests/torture/kills/bucket_program.py",
    "tests/torture/table_schedules.py",
    "tests/torture/table_streams.py",
    "benchmarks/",
)
FINDING_JARS = ("tests/support/kafka/kafka_jvm.py", "tests/support/spark/spark_jvm.py")
KIO_SUPPORT = ("tests/support/gateway.py", "tests/support/recorded_wire.py")
PLACES = {
    "numba": ("storage/kernels/", "tests/storage/kernels/", "benchmarks/"),
    "pyspark": (*SPARK, *FINDING_JARS, "tests/support/spark/settings.py", "tests/gateway/clients/spark_program.py"),
    "delta": SPARK,
    "obstore": ("storage/bucket/stores/remote.py", "tests/storage/bucket/"),
    "deltalake": (
        "pipeline/delta/table_stream/table_files.py",
        "pipeline/delta/table_and_tail/file_upkeep.py",
        "tests/pipeline/delta/",
        "tests/cli/maintenance/",
    ),
    "kazoo": ("registry/zookeeper.py", "tests/registry/"),
    "confluent_kafka": (
        "classic/producer/targets/todays_wire.py",
        "classic/streams/todays_wire.py",
        "tests/",
        "benchmarks/",
    ),
    "starlette": ("browse/", "tests/browse/"),
    "uvicorn": ("browse/server.py", "tests/browse/"),
    "jinja2": ("browse/rendering.py", "tests/browse/"),
    "kio": ("protocol/bodies.py", "tests/gateway/", *KIO_SUPPORT, "tests/torture/gateway/"),
    "re2": ("gateway/consumer_groups/heartbeat.py",),
    "jwt": ("gateway/security/oauth/", "tests/gateway/security/"),
}

# No tool follows a module that a string names. Commands, kernels and classes of a user's own are loaded so, and
# modules that Spark names.
BY_STRING = (
    "cli/__init__.py",
    "pipeline/workers/daemon.py",
    "storage/kernels/loading.py",
    "storage/classes.py",
)

# Files and time reach storage/, and what is made of its parts, through two ports; the kernels find a folder for
# compiled code, which is no log's.
PORTS = ("storage/filesystem/", "storage/clock.py")
BEHIND_PORTS = {"os", "mmap", "time", "fcntl", "pathlib", "shutil"}
EXCEPTED = ("storage/kernels/compiling.py", "pathlib")


class Import(NamedTuple):
    """One imported name, absolute: ``from a.b import c`` gives ``("a", "b", "c")``."""

    name: tuple[str, ...]
    line: int
    in_function: bool
    is_relative: bool
    for_types: bool  # inside ``if TYPE_CHECKING``


def package_of(path: str) -> tuple[str, ...]:
    """Where relative imports of a file begin."""
    parts = Path(path).parts[:-1]
    return (PACKAGE, *parts) if parts and parts[0] in FOLDERS else parts


def imports(path: str, tree: ast.Module) -> Iterator[Import]:
    in_functions = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for_types = {
        id(node)
        for guard in ast.walk(tree)
        if isinstance(guard, ast.If) and isinstance(guard.test, ast.Name) and guard.test.id == "TYPE_CHECKING"
        for statement in guard.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = origin_of(path, node)
            names = [(*origin, alias.name) for alias in node.names]
        else:
            continue
        is_relative = isinstance(node, ast.ImportFrom) and node.level > 0
        for name in names:
            yield Import(name, node.lineno, id(node) in in_functions, is_relative, id(node) in for_types)


@cache
def imports_of(path: str) -> Sequence[Import]:
    return list(imports(path, ast.parse((ROOT / path).read_text())))


def origin_of(path: str, node: ast.ImportFrom) -> tuple[str, ...]:
    module = tuple(node.module.split(".")) if node.module else ()
    if not node.level:
        return module
    package = package_of(path)
    return (*package[: len(package) - node.level + 1], *module)


def violations(path: str, source: str) -> list[str]:
    """What is wrong with the imports of the file at ``path`` (from the root, with ``/``), one sentence each."""
    tree = ast.parse(source)
    found = [
        f"{path}:{one.line}: {'.'.join(one.name)}: {fault}"
        for one in imports(path, tree)
        for fault in faults_of(path, one)
    ]
    if path.startswith(("storage/", *OF_PARTS)) and not path.startswith(PORTS):
        found += [f"{path}:{line}: open() only behind the ports" for line in calls_of_open(tree)]
    return found


def faults_of(path: str, one: Import) -> Iterator[str]:
    top = one.name[0]
    if one.is_relative and not path.startswith(RELATIVE):
        yield "imports here are absolute"
    if top in FOLDERS:
        yield f"is imported as {PACKAGE}.{top}: a person's own folder of that name would be taken instead"
    if top in PLACES and not path.startswith(PLACES[top]):
        yield f"{top} only in {', '.join(PLACES[top])}"
    uses_ports = path.startswith(("storage/", *OF_PARTS)) and not path.startswith(PORTS)
    if top in BEHIND_PORTS and uses_ports and (path, top) != EXCEPTED:
        yield f"only in {' and '.join(PORTS)}"
    if one.name == ("importlib", "import_module") and path.startswith(FOLDERS) and path not in BY_STRING:
        yield "imports by a string, which tools cannot follow"
    if top == PACKAGE:
        yield from faults_inside(path, one)


def faults_inside(path: str, one: Import) -> Iterator[str]:
    """What is wrong with an import of one of our own modules."""
    home = path.split("/", maxsplit=1)[0]
    if home not in ALLOWED:
        return  # tests and benchmarks see everything
    folder = one.name[1] if len(one.name) > 1 else ""
    room = one.name[2] if len(one.name) > 2 else ""
    if home in RELATIVE and not one.is_relative:
        yield "is imported relatively, so that tools can follow it"
    elif folder not in ALLOWED[home]:
        yield f"{home} imports only from {', '.join(sorted(ALLOWED[home]))}"
    elif home == folder and (faults := list(faults_of_height(path, one.name[1:]))):
        yield from faults
    elif folder == "storage" != home and (folder, room) in HEIGHT and not path.startswith(OF_PARTS):
        yield "storage/__init__.py has the public names"
    elif home == "cli" and folder in LATE and not (one.in_function or one.for_types):
        yield f"the cli imports {folder} only inside functions"


def faults_of_height(path: str, imported: tuple[str, ...]) -> Iterator[str]:
    """What is wrong with one room importing another, in each folder that has floors and holds both."""
    importer = tuple(path.removesuffix(".py").split("/"))
    for depth in range(1, len(importer)):
        if importer[:depth] == imported[:depth]:
            room = imported[depth] if len(imported) > depth else ""
            yield from faults_of_floors("/".join(importer[:depth]), importer[depth], room)


def faults_of_floors(folder: str, importer: str, imported: str) -> Iterator[str]:
    """What is wrong with one room of a folder importing another."""
    if folder not in FLOORS or importer in ("__init__", imported):
        return
    if (folder, importer) not in HEIGHT:
        yield f"{importer} has no place in FLOORS"
    elif (folder, imported) not in HEIGHT:
        yield f"inside {folder}/ a name is imported from the room it lives in, which has a place in FLOORS"
    elif HEIGHT[folder, imported] >= HEIGHT[folder, importer]:
        yield f"{imported} is not below {importer}"


Name = tuple[str, ...]  # of a module, absolute; of a package, that of its ``__init__.py``


@cache
def imports_of_modules() -> Mapping[Name, set[Name]]:
    return imports_between({path: imports_of(path) for path in ours()})


def imports_between(files: Mapping[str, Iterable[Import]]) -> Mapping[Name, set[Name]]:
    """Which of these modules each of them imports, inside functions and for types too. ``files``: by their paths."""
    paths = {module_of(path): path for path in files}
    return {name: {module_with(one.name, paths) for one in files[path]} - {name, ()} for name, path in paths.items()}


def module_of(path: str) -> Name:
    stem = Path(path).stem
    return package_of(path) if stem == "__init__" else (*package_of(path), stem)


def module_with(imported: Name, modules: Mapping[Name, str]) -> Name:
    """The module that has an imported name, or is it; () if it is none of ours."""
    while imported and imported not in modules:
        imported = imported[:-1]
    return imported


def imports_in_folder(folder: Name, between: Mapping[Name, set[Name]]) -> dict[str, set[str]]:
    """What each room of a folder imports of the others; a module beside them and ``__init__.py`` are rooms, too."""
    found: dict[str, set[str]] = {}
    for name, imported in between.items():
        if name[: len(folder)] == folder:
            mine = child_of(folder, name)
            others = {child_of(folder, each) for each in imported if each[: len(folder)] == folder}
            found.setdefault(mine, set()).update(others - {mine})
    return found


def circles_of_rooms(between: Mapping[Name, set[Name]]) -> dict[str, list[str]]:
    """A circle for each folder that has one."""
    folders = {name[:length] for name in between for length in range(1, len(name))}
    circles = {".".join(folder[1:]): circle_in(imports_in_folder(folder, between)) for folder in folders}
    return {folder: circle for folder, circle in circles.items() if circle}


def child_of(folder: Name, name: Name) -> str:
    return name[len(folder)] if len(name) > len(folder) else "__init__"


def circle_in(graph: Mapping[Any, set[Any]]) -> list[Any]:
    """One circle, from a node back to itself; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))  # which importers come first in
    return []


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


def ours() -> list[str]:
    """What the package has, without its tests."""
    return [path for path in sources() if path.startswith((*FOLDERS, PACKAGE))]


def rooms() -> list[str]:
    """Folders with modules below those of :data:`RELATIVE`."""
    return sorted(
        {str(Path(path).parent) for path in sources() if path.startswith(RELATIVE) and len(Path(path).parts) > 2}
    )


def faces() -> list[str]:
    """The ``__init__.py`` files whose names are loaded when first used."""
    return [path for path in sources() if path.endswith("/__init__.py") and "lazy_loader" in (ROOT / path).read_text()]


def exports_of(source: str) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Modules and names that a face declares for tools, and those in its table for Python."""
    guarded = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.If))
    declared = {
        (node.module.removeprefix(f"{PACKAGE}."), alias.name)
        for node in guarded.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    table = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Dict))
    by_module: dict[str, list[str]] = ast.literal_eval(table)
    return declared, {(module, name) for module, names in by_module.items() for name in names}


# --- the project


@pytest.mark.parametrize("path", sources())
def test_a_file_imports_only_what_it_may(path: str) -> None:
    assert violations(path, (ROOT / path).read_text()) == []


def test_spark_is_imported_in_pipeline_and_jobs_alone() -> None:
    with_spark = {
        path.split("/")[0] for path in ours() for one in imports_of(path) if one.name[0] in ("pyspark", "py4j", "delta")
    }
    assert with_spark == {"pipeline", "jobs"}


@pytest.mark.parametrize("folder", FLOORS)
def test_every_room_has_its_floor(folder: str) -> None:
    found = {path.name.removesuffix(".py") for path in (ROOT / folder).iterdir() if path.name[0] not in "._"}
    assert found - {"__pycache__", "__init__"} == {room for home, room in HEIGHT if home == folder}


@pytest.mark.parametrize("room", rooms())
def test_a_room_says_what_it_is_for_and_is_small(room: str) -> None:
    assert ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text()))
    assert len([path for path in (ROOT / room).glob("*.py") if path.name != "__init__.py"]) <= FILES_MAX


@pytest.mark.parametrize("face", faces())
def test_a_face_loads_late_what_it_declares(face: str) -> None:
    declared, loaded = exports_of((ROOT / face).read_text())
    assert declared == loaded
    modules = {path.name.removesuffix(".py") for path in (ROOT / face).parent.iterdir()}
    assert not {name for _, name in declared} & modules, "a module of this name would hide it"


def test_no_module_imports_itself_through_others() -> None:
    assert circle_in(imports_of_modules()) == []


def test_no_room_imports_itself_through_its_neighbours() -> None:
    assert circles_of_rooms(imports_of_modules()) == {}


def test_the_project_was_read() -> None:
    assert {"storage/errors.py", f"{PACKAGE}/__init__.py", "tests/test_layering.py"} <= set(sources())
    assert not any(path.startswith(f"{PACKAGE}/storage") for path in sources())
    of_log = imports_of_modules()[PACKAGE, "storage", "writing", "log"]
    assert (PACKAGE, "storage", "errors") in of_log


# --- the checker: what it must refuse, and what it must not


REFUSED = {
    "a room imports from a higher floor": ("storage/segment/reader.py", "from ..writing.log import Log"),
    "a room imports its neighbour": ("storage/segment/reader.py", "from ..dump.log import LogDump"),
    "a room inside a room imports a higher one": ("storage/writing/checks/batches.py", "from ..log import Log"),
    "inside such a room, from a higher file": ("storage/writing/checks/records.py", "from .batches import analyze"),
    "a room imports a higher one as a whole": ("storage/segment/reader.py", "from .. import writing"),
    "a module beside the rooms imports a room": ("storage/config.py", "from .format.v2 import LAYOUT"),
    "inside a function it counts as well": (
        "storage/segment/reader.py",
        "def f():\n    from ..writing.log import Log",
    ),
    "for the type checker only it counts as well": (
        "storage/segment/reader.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..writing.log import Log",
    ),
    "a public name is imported inside storage": ("storage/segment/reader.py", "from .. import Log"),
    "a room without a floor": ("storage/novelty/one.py", "from ..errors import StorageError"),
    "storage imports pipeline": (
        "storage/writing/log.py",
        "from ...pipeline.write.foreach_batch import commitlog_sink",
    ),
    "storage imports the public face": ("storage/writing/log.py", "from ... import commitlog_sink"),
    "an absolute import in storage": (
        "storage/writing/log.py",
        "from pyspark_commitlog.storage.errors import StorageError",
    ),
    "the same, by import": ("storage/writing/log.py", "import pyspark_commitlog.storage.errors"),
    "an absolute import in pipeline": ("pipeline/write/task.py", "from pyspark_commitlog.storage import Log"),
    "pipeline reaches into storage": ("pipeline/write/task.py", "from ...storage.writing.log import Log"),
    "pipeline imports a room of storage": ("pipeline/write/task.py", "from ...storage import writing"),
    "pipeline imports a job": ("pipeline/write/task.py", "from ...jobs import ingest"),
    "reading imports writing": ("pipeline/read/batch.py", "from ..write.task import TaskWriter"),
    "a job reaches into storage": ("jobs/retain.py", "import pyspark_commitlog.storage.retention"),
    "a job imports the cli": ("jobs/retain.py", "from pyspark_commitlog.cli import main"),
    "a job imports the public face": ("jobs/retain.py", "from pyspark_commitlog import commitlog_sink"),
    "a job imports relatively": ("jobs/retain.py", "from . import demo"),
    "the cli imports pipeline with itself": ("cli/__init__.py", "from ..pipeline import job"),
    "the cli imports gateway with itself": ("cli/gateway.py", "from ..gateway import Gateway"),
    "the log imports that of Kafka 0.7": (
        "storage/finding/search.py",
        "from ...classic.log_0_7.topics import PositionTopics",
    ),
    "the gateway imports that of Kafka 0.7": (
        "gateway/server.py",
        "from ..classic.gateway_0_7.server import PositionGateway",
    ),
    "an old producer reaches into storage": ("classic/producer/producer.py", "from ...storage.writing.log import Log"),
    "os in the log of Kafka 0.7": ("classic/log_0_7/log.py", "from os import fsync"),
    "open in the log of Kafka 0.7": ("classic/log_0_7/log.py", "def f(path):\n    return open(path)"),
    "the cli imports the log of Kafka 0.7 with itself": (
        "cli/reading/positions.py",
        "from ...classic.log_0_7.topics import PositionTopics",
    ),
    "the gateway imports pipeline": ("gateway/server.py", "from ..pipeline import job"),
    "the gateway reaches into storage": ("gateway/server.py", "from ..storage.writing.log import Log"),
    "the protocol imports the gateway": ("protocol/headers.py", "from ..gateway import Gateway"),
    "kio outside its module": ("gateway/handlers/fetch.py", "from kio.schema.errors import ErrorCode"),
    "the public face reaches into storage": (
        "pyspark_commitlog/__init__.py",
        "import pyspark_commitlog.storage.writing.log",
    ),
    "bare storage": ("tests/storage/writing/test_log.py", "from storage.writing.log import Log"),
    "bare pipeline, by import": ("pipeline/write/task.py", "import pipeline.read.options"),
    "bare jobs in a benchmark": ("benchmarks/append.py", "import jobs"),
    "numba outside the kernels": ("storage/format/v2/header.py", "from numba import njit"),
    "a client of object stores outside the port": ("storage/bucket/commit_log.py", "import obstore"),
    "numba in a test of something else": ("tests/storage/writing/test_log.py", "import numba"),
    "Spark in storage": ("storage/writing/log.py", "from pyspark.sql import SparkSession"),
    "Spark for Python without it": ("arrow/table.py", "def f():\n    from pyspark.sql import DataFrame"),
    "Python without Spark imports pipeline": ("arrow/table.py", "from ..pipeline.rows.spark_schema import read_schema"),
    "Spark in the cli, even inside a function": ("cli/reading/cat.py", "def f():\n    import pyspark.sql.functions"),
    "Spark in a test of storage": ("tests/storage/writing/test_log.py", "import pyspark"),
    "Spark in a helper that makes do without": ("tests/support/spark/kafka_source.py", "import pyspark"),
    "Delta in storage": ("storage/writing/log.py", "from delta import DeltaTable"),
    "os in storage": ("storage/writing/log.py", "import os.path"),
    "one name of os in storage": ("storage/writing/log.py", "from os import fsync"),
    "time in storage": ("storage/writing/log.py", "import time"),
    "mmap in storage": ("storage/segment/index_file.py", "import mmap"),
    "pathlib in storage": ("storage/format/files/file_names.py", "from pathlib import Path"),
    "open in storage": ("storage/writing/log.py", "def f(path):\n    return open(path)"),
    "a module named by a string": ("pipeline/write/task.py", "from importlib import import_module"),
    "the second of two names": ("storage/segment/reader.py", "from .. import errors, writing"),
}

ACCEPTED = {
    "a room imports a name from its module": ("storage/writing/log.py", "from ..segment.reader import SegmentReader"),
    "a room of pipeline does": ("pipeline/write/task.py", "from ..rows.spark_schema import WriteColumns"),
    "a job does": ("jobs/demo.py", "from pyspark_commitlog.pipeline.job.session import spark_session"),
    "a room imports from below": (
        "storage/writing/log.py",
        "from ..errors import LogStoreError\nfrom ..recovery import loader\nfrom .. import format as formats",
    ),
    "a module of a room imports its neighbours in it": (
        "storage/format/v2/writing.py",
        "from ..constants import Codec\nfrom .header import LAYOUT\nfrom . import header",
    ),
    "storage's own face imports anything of storage": (
        "storage/__init__.py",
        "from .transactions import TransactionCoordinator",
    ),
    "pipeline imports public names": ("pipeline/write/task.py", "from ...storage import Log, LogConfig"),
    "pipeline imports all of storage": ("pipeline/write/task.py", "from ... import storage"),
    "pipeline imports itself and Spark": (
        "pipeline/write/task.py",
        "from pyspark.sql import DataFrame\nfrom ..read import Options",
    ),
    "the log of Kafka 0.7 is made of the rooms of storage": (
        "classic/log_0_7/log.py",
        "from ...storage.filesystem.port import FileSystem",
    ),
    "the gateway of Kafka 0.7 is made of the rooms of the gateway": (
        "classic/gateway_0_7/server.py",
        "from ...gateway.network.acceptor import Acceptor",
    ),
    "the cli imports pipeline in a command": (
        "cli/reading/cat.py",
        "from ...storage import Log\ndef cat():\n    from ...pipeline import job",
    ),
    "the public face imports pipeline": (
        "pyspark_commitlog/__init__.py",
        "from pyspark_commitlog.pipeline.write.foreach_batch import commitlog_sink",
    ),
    "a job imports absolutely": ("jobs/retain.py", "from pyspark_commitlog.storage import retain_partitions"),
    "numba in a kernel": ("storage/kernels/varint.py", "import numba"),
    "the ports": ("storage/filesystem/local_file.py", "import os, mmap\ndef f(path):\n    return open(path)"),
    "the open of a file system": (
        "storage/writing/log.py",
        "def f(filesystem, path):\n    return filesystem.open(path, 'read')",
    ),
    "tests see everything": (
        "tests/storage/writing/test_log.py",
        "import os\nfrom pyspark_commitlog.storage.writing.log import Log\nfrom tests.support.clock import ManualClock",
    ),
    "a library with a name that begins like one of ours": ("pipeline/write/task.py", "import storage_of_someone_else"),
}


@pytest.mark.parametrize(("path", "source"), REFUSED.values(), ids=REFUSED)
def test_the_checker_refuses(path: str, source: str) -> None:
    assert len(violations(path, source)) == 1


@pytest.mark.parametrize(("path", "source"), ACCEPTED.values(), ids=ACCEPTED)
def test_the_checker_accepts(path: str, source: str) -> None:
    assert violations(path, source) == []


CIRCLES = {
    "two modules": {
        "storage/log/one.py": "from .two import Two",
        "storage/log/two.py": "from .one import One",
    },
    "inside a function": {
        "storage/log/one.py": "from .two import Two",
        "storage/log/two.py": "def two():\n    from .one import One",
    },
    "for the type checker only": {
        "storage/log/one.py": "from . import two",
        "storage/log/two.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .one import One",
    },
    "a package and a module that takes a name from it": {
        "storage/log/__init__.py": "from .one import One",
        "storage/log/one.py": "from . import Bytes",
    },
    "two rooms, without two modules": {
        "storage/log/one.py": "from ..keys.one import Key",
        "storage/keys/two.py": "from ..log.two import Log",
    },
    "two rooms of one room": {
        "jobs/log/deep/one.py": "import pyspark_commitlog.jobs.log.low.one",
        "jobs/log/low/two.py": "from pyspark_commitlog.jobs.log.deep import two",
        "jobs/log/deep/two.py": "",
        "jobs/log/low/one.py": "",
    },
}


@pytest.mark.parametrize("files", CIRCLES.values(), ids=CIRCLES)
def test_a_circle_is_found(files: dict[str, str]) -> None:
    files = {"storage/__init__.py": "", "storage/log/two.py": "", "storage/keys/one.py": "", **files}
    assert circles_of_rooms(imports_between(read(files)))


def read(files: Mapping[str, str]) -> dict[str, list[Import]]:
    return {path: list(imports(path, ast.parse(source))) for path, source in files.items()}


def test_modules_above_and_below_the_rooms_beside_them_are_no_circle() -> None:
    files = {
        "storage/log/top.py": "from .room.one import One",
        "storage/log/room/one.py": "from ..low import Low\nfrom . import two",
        "storage/log/room/two.py": "import os\nfrom ..low import Low",
        "storage/log/low.py": "",
    }
    between = imports_between(read(files))
    assert (circle_in(between), circles_of_rooms(between)) == ([], {})
