"""Every command and program in README.md and docs/ runs as written, in the order of the page.

A page finds what ``make demo`` creates, only smaller: the topic ``flights`` in data/log and its files in data/flights,
but no other file of the clone; ``s3://bucket`` is a store of this machine. Its Python is one program with a session
``spark``. Blocks of other languages are not run; ``<!--- skip: next -->`` before a block skips it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.pages import BASH, PAGES, name_of, parse, with_free_ports
from tests.support.spark.delta_jars import small_conf
from tests.support.tiers import broker

LONGER = {  # several seconds each, up to half a minute
    f"docs/{name}.md"
    for name in (
        *("backup", "clients", "cluster", "erase", "find", "gateway", "gateway_security", "scheduling"),
        *("table_and_tail", "tables", "tiers_reading"),
    )
}
ON_A_STORE = "docs/object_store.md"
WITH_A_TIER = "docs/tiers_reading.md"  # data/kafka has the files of a broker with tiered storage
BUCKET = "s3://bucket/logs"


def placed(page: Path, place: Path) -> Path:
    """Returns a copy whose programs have absolute paths: the JVM of the tests' session runs in another directory."""
    text = page.read_text(encoding="utf-8").replace('"data/', f'"{place}/data/')
    copy = place / page.name
    copy.write_text(with_free_ports(text), encoding="utf-8")
    return copy


def has_python(page: Path) -> bool:
    return "```python" in page.read_text(encoding="utf-8")


@pytest.fixture
def place(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory of the page, where the commands of this environment are on the path."""
    shutil.copytree(demo / "data", tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_CONF_DIR", str(small_conf(tmp_path / "spark")))
    yield tmp_path
    BASH.end()


def pages() -> Iterator[Any]:
    for page in (page for page in PAGES if list(parse(page).examples())):
        name = name_of(page)
        yield pytest.param(page, id=name, marks=[pytest.mark.only_all] * (name in LONGER))


@pytest.mark.parametrize("page", list(pages()))
def test_every_command_of_the_page_runs(
    page: Path, place: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = placed(page, place)
    if name_of(page) == ON_A_STORE:
        text = copy.read_text(encoding="utf-8")
        copy.write_text(text.replace(BUCKET, request.getfixturevalue("bucket")), encoding="utf-8")
    if name_of(page) == WITH_A_TIER:
        broker("kafka", place / "data" / "kafka")
    document = parse(copy)
    if "dist/" in page.read_text(encoding="utf-8"):
        (place / "dist").symlink_to(request.getfixturevalue("wheel").parent)
        monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # out of a .zip each process would compile again
    if has_python(page):
        document.namespace["spark"] = request.getfixturevalue("spark")
    for example in document.examples():
        example.evaluate()
