"""The pages of README.md and docs/ and their examples, and a small copy of what ``make demo`` creates."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice
from pathlib import Path

from sybil import Document, Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser, SkipParser

from pyspark_commitlog.pipeline.demo import flights
from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager
from tests.support.logs.building import records
from tests.support.logs.directories import directory_with_internal_topics
from tests.support.ports import free_port
from tests.torture.kills.ingest import write_input

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LOCAL_PORT = re.compile(r"\b(?:127\.0\.0\.1|localhost):(\d{4,5})\b")
TOPIC, PARTITIONS, FILES, ROWS = "flights", 4, 2, 200


class Bash:
    """Runs a block as one script, which ends at the first command that fails; processes it starts may outlive it."""

    def __init__(self) -> None:
        self._started: list[int] = []

    def __call__(self, example: Example) -> None:
        self.run(example.parsed, f"{example.path}:{example.line}")

    def run(self, script: str, name: str, env: Mapping[str, str] | None = None) -> None:
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", script],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=env,
            )
            self._started.append(process.pid)
            code = process.wait()
            output.seek(0)
            assert code == 0, f"{name}: exit code {code}\n{output.read()}"

    def end(self) -> None:
        """Kills the remaining processes that it started."""
        for group in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


BASH = Bash()
SYBIL = Sybil([CodeBlockParser("python", PythonEvaluator()), CodeBlockParser("bash", BASH), SkipParser()])


def parse(page: Path) -> Document:
    return SYBIL.parse(page)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def with_free_ports(text: str) -> str:
    """Replaces each port of this machine that the text names: a gateway of one's own may listen on it."""
    for port in set(LOCAL_PORT.findall(text)):
        text = re.sub(rf"\b{port}\b", str(free_port()), text)
    return text


def first_example(page: Path) -> tuple[str, str] | None:
    """Returns language and text of the first block of the page that is run, or None."""
    skipped = False
    for example in parse(page).examples():
        if not isinstance(example.parsed, str):  # the comment that skips the next block
            skipped = True
        elif skipped:
            skipped = False
        else:
            return example.region.lexemes["arguments"], str(example.parsed)
    return None


def small_demo(directory: Path) -> None:
    """Makes data/flights and data/log in the directory: two months of flights; a group has read one."""
    months = flights.split_by_month(directory / "months")[:FILES]
    lines = (line for month in months for line in islice(month.read_text().splitlines(), 1, ROWS + 1))
    write_input(directory / "data" / "flights", lines, rows_a_file=ROWS)
    shutil.rmtree(directory / "months")
    with LogManager.open(directory_with_internal_topics(directory / "data" / "log", partitions=2)) as manager:
        manager.create_topic(TOPIC, partitions=PARTITIONS, configs={"retention.ms": "-1"})
        for number in range(PARTITIONS):
            log = manager.open_log(TOPIC, number)
            for values in _rows(directory / "data" / "flights"):
                mine = [value for value in values if int(value["flight"] or 0) % PARTITIONS == number]
                keys = [f"{value['carrier']}{value['flight']}".encode() for value in mine]
                times = [int(datetime.fromisoformat(value["time_hour"] or "").timestamp() * 1000) for value in mine]
                log.append_records(records([json.dumps(value).encode() for value in mine], keys=keys, timestamps=times))
                log.roll()
        GroupOffsets(manager).commit("dashboard", {(TOPIC, 0): CommittedOffset(10)})


def _rows(directory: Path) -> Iterator[list[dict[str, str | None]]]:
    """Returns the rows of each file, in the order of the files."""
    for file in sorted(directory.glob("*.csv")):
        with file.open(newline="") as lines:
            yield [
                {name: None if cell == "NA" else cell for name, cell in row.items()} for row in csv.DictReader(lines)
            ]
