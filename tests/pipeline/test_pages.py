"""Every command and program in README.md and docs/ runs as written, in the order of the page.

A page finds what ``make demo`` creates, only smaller: the topic ``flights`` in data/log, its files in data/flights, and
the folders ``conf`` and ``jobs``; ``s3://bucket`` is a store of this machine. Its Python is one program with a session
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

from tests.support.pages import BASH, PAGES, ROOT, name_of, parse, with_free_ports
from tests.support.spark.delta_jars import small_conf

LONGER = {"docs/cluster.md", "docs/scheduling.md", "docs/tables.md"}  # half a minute each
ON_A_STORE = "docs/object_store.md"
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
    (tmp_path / "jobs").symlink_to(ROOT / "jobs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_CONF_DIR", str(small_conf(tmp_path)))
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
    document = parse(copy)
    if "dist/" in page.read_text(encoding="utf-8"):
        (place / "dist").symlink_to(request.getfixturevalue("wheel").parent)
        monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # out of a .zip each process would compile again
    if has_python(page):
        document.namespace["spark"] = request.getfixturevalue("spark")
    for example in document.examples():
        example.evaluate()
