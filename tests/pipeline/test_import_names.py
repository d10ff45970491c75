"""The folders at the root, imported as pyspark_commitlog.*: from a checkout, from a wheel, and from anywhere.

Each test runs a program in a directory with a ``pipeline`` and ``storage`` of its own, as a user's project may have.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.pipeline.test_deployments import environment

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "storage",
    "arrow",
    "registry",
    "protocol",
    "classic",
    "mirror",
    "gateway",
    "browse",
    "pipeline",
    "jobs",
    "cli",
)

README_PROGRAM, *_ = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.M | re.S)
LINES = [f"line {n}" for n in range(100)]
# What README shows, and behind it what came of it.
PROGRAM = f"""
{README_PROGRAM}
import pyspark_commitlog
read = spark.read.format("commitlog").option("subscribe", "lines").load("data/log")
print("FROM", pyspark_commitlog.__file__)
print("READ", sorted(row[0] for row in read.selectExpr("cast(value as string)").collect()) == sorted({LINES}))
"""


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A working directory whose own packages have the names of our folders, and fail when imported."""
    for name in FOLDERS:
        package = tmp_path / "foreign" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"raise RuntimeError('the wrong {name} was imported')\n")
    return tmp_path / "foreign"


def run_in(directory: Path, python: Path, **more: str) -> str:
    """Returns what PROGRAM prints, run by ``python`` in ``directory`` with ``more`` set; no variable names a Python."""
    (directory / "program.py").write_text(PROGRAM)
    (directory / "data" / "flights").mkdir(parents=True)
    (directory / "data" / "flights" / "lines.txt").write_text("\n".join(LINES))
    done = subprocess.run(
        [python, "program.py"],
        cwd=directory,
        env={name: value for name, value in environment(**more).items() if not name.endswith("_PYTHON")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheel_contains_every_module_of_the_folders_and_the_settings(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("pyspark_commitlog/")}
    # Kafka's message schemas and the pages of commitlog browse are data of the package.
    suffixes = (".py", ".pyi", ".json", ".html", ".css", ".js", ".svg")
    modules = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*") if path.suffix in suffixes]
    settings = [path for path in (ROOT / "conf").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    ours = {f"pyspark_commitlog/{path.relative_to(ROOT)}" for path in modules + settings}
    former = {f"pyspark_commitlog/clients/{path.name}" for path in (ROOT / "pyspark_commitlog/clients").glob("*.py")}
    assert packed == ours | former | {"pyspark_commitlog/__init__.py", "pyspark_commitlog/py.typed"}


@pytest.mark.only_all
def test_sink_and_source_work_from_a_directory_with_its_own_pipeline_and_storage(foreign: Path) -> None:
    printed = run_in(foreign, Path(sys.executable))
    assert "READ True" in printed


@pytest.mark.only_all
def test_wheel_installed_in_a_clean_environment_works_without_the_checkout(
    foreign: Path, wheel: Path, tmp_path: Path
) -> None:
    clean = tmp_path / "clean"
    venv.create(clean, with_pip=False)
    python = clean / "bin" / "python"
    (packages,) = clean.glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(packages)  # what an installer does with a wheel of pure Python
    # Dependencies come from here; a .pth found through a .pth is not followed, so the checkout stays out of sight.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    printed = run_in(foreign, python, NUMBA_DISABLE_JIT="1")  # in a new directory all would be compiled again
    assert f"FROM {packages / 'pyspark_commitlog'}" in printed
    assert "READ True" in printed
