"""Every command and program in README.md and docs/ runs as written, in the order of the page.

A page finds what ``make demo`` creates, only smaller: the topic ``flights`` in data/log, its files in data/flights, and
the folders ``conf`` and ``jobs``. Its Python is one program with a session ``spark``. Blocks of other languages are not
run; ``<!--- skip: next -->`` before a block skips it.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from sybil import Document, Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser, SkipParser

from pyspark_commitlog.pipeline.demo import flights
from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager
from tests.support.kafka.broker import free_port
from tests.support.logs.building import records
from tests.support.logs.directories import directory_with_internal_topics
from tests.support.spark.delta_jars import small_conf
from tests.torture.kills.ingest import write_input

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LONGER = {"docs/cluster.md", "docs/scheduling.md", "docs/tables.md"}  # half a minute each
LOCAL_PORT = re.compile(r"\b(?:127\.0\.0\.1|localhost):(\d{4,5})\b")
TOPIC, PARTITIONS, FILES, ROWS = "flights", 4, 2, 200


class Bash:
    """Runs a block as one script, which ends at the first command that fails; processes it starts may outlive it."""

    def __init__(self) -> None:
        self._started: list[int] = []

    def __call__(self, example: Example) -> None:
        with tempfile.TemporaryFile("w+") as output:
            script = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", example.parsed],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._started.append(script.pid)
            code = script.wait()
            output.seek(0)
            assert code == 0, f"{example.path}:{example.line}: exit code {code}\n{output.read()}"

    def end(self) -> None:
        """Kills the remaining processes that it started."""
        for group in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


BASH = Bash()
SYBIL = Sybil([CodeBlockParser("python", PythonEvaluator()), CodeBlockParser("bash", BASH), SkipParser()])


def parse(page: Path) -> Document:
    return SYBIL.parse(page)


def placed(page: Path, place: Path) -> Path:
    """Returns a copy whose programs have absolute paths: the JVM of the tests' session runs in another directory.

    Each port of this machine that the page names is a free one: a gateway of one's own may listen on the page's.
    """
    text = page.read_text(encoding="utf-8").replace('"data/', f'"{place}/data/')
    for port in set(LOCAL_PORT.findall(text)):
        text = re.sub(rf"\b{port}\b", str(free_port()), text)
    copy = place / page.name
    copy.write_text(text, encoding="utf-8")
    return copy


def has_python(page: Path) -> bool:
    return "```python" in page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with data/flights and data/log: two months of flights; a group has read one."""
    directory = tmp_path_factory.mktemp("demo")
    months = flights.split_by_month(directory / "months")[:FILES]
    lines = (line for month in months for line in islice(month.read_text().splitlines(), 1, ROWS + 1))
    write_input(directory / "data" / "flights", lines, rows_a_file=ROWS)
    shutil.rmtree(directory / "months")
    with LogManager.open(directory_with_internal_topics(directory / "data" / "log", partitions=2)) as manager:
        manager.create_topic(TOPIC, partitions=PARTITIONS, configs={"retention.ms": "-1"})
        for number in range(PARTITIONS):
            log = manager.open_log(TOPIC, number)
            for values in rows(directory / "data" / "flights"):
                mine = [value for value in values if int(value["flight"] or 0) % PARTITIONS == number]
                keys = [f"{value['carrier']}{value['flight']}".encode() for value in mine]
                times = [int(datetime.fromisoformat(value["time_hour"] or "").timestamp() * 1000) for value in mine]
                log.append_records(records([json.dumps(value).encode() for value in mine], keys=keys, timestamps=times))
                log.roll()
        GroupOffsets(manager).commit("dashboard", {(TOPIC, 0): CommittedOffset(10)})
    return directory


def rows(directory: Path) -> Iterator[list[dict[str, str | None]]]:
    """Returns the rows of each file, in the order of the files."""
    for file in sorted(directory.glob("*.csv")):
        with file.open(newline="") as lines:
            yield [
                {name: None if cell == "NA" else cell for name, cell in row.items()} for row in csv.DictReader(lines)
            ]


@pytest.fixture
def place(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory of the page, where the commands of this environment are on the path."""
    shutil.copytree(demo / "data", tmp_path / "data")
    (tmp_path / "jobs").symlink_to(ROOT / "jobs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_CONF_DIR", str(small_conf(tmp_path)))
    yield tmp_path
    BASH.end()


def pages() -> Iterator[Any]:
    for page in (page for page in PAGES if list(parse(page).examples())):
        name = str(page.relative_to(ROOT))
        yield pytest.param(page, id=name, marks=[pytest.mark.only_all] * (name in LONGER))


@pytest.mark.parametrize("page", list(pages()))
def test_every_command_of_the_page_runs(
    page: Path, place: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = parse(placed(page, place))
    if "dist/" in page.read_text(encoding="utf-8"):
        (place / "dist").symlink_to(request.getfixturevalue("wheel").parent)
        monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # out of a .zip each process would compile again
    if has_python(page):
        document.namespace["spark"] = request.getfixturevalue("spark")
    for example in document.examples():
        example.evaluate()
