"""Zips of modules with compiled ones beside them: what Python imports from them, and what a second run does."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pyspark_commitlog.pipeline.workers import precompile
from pyspark_commitlog.pipeline.workers.precompile import compile_archive

MODULES = {"first.py": "import second\n", "second.py": "def fail():\n    raise ValueError('found')\n"}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "modules.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, source in MODULES.items():
            file.writestr(name, source)
        file.writestr("data.txt", "no module")
    path.chmod(0o640)
    return path


def run(program: str, archive: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(archive), **environment}
    return subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)


def names(archive: Path) -> list[str]:
    with zipfile.ZipFile(archive) as file:
        return file.namelist()


def test_every_module_is_compiled_once_and_nothing_else_changes(archive: Path) -> None:
    assert compile_archive(archive) == 2
    assert names(archive) == ["first.py", "second.py", "data.txt", "first.pyc", "second.pyc"]
    assert archive.stat().st_mode & 0o777 == 0o640
    assert list(archive.parent.iterdir()) == [archive]
    before = archive.stat()
    assert compile_archive(archive) == 0
    assert archive.stat() == before


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland"])
def test_python_uses_compiled_modules_in_any_time_zone(archive: Path, zone: str) -> None:
    compile_archive(archive)
    done = run("import first, second; print(first.__file__, second.__file__)", archive, TZ=zone)
    assert done.stdout.split() == [f"{archive}/first.pyc", f"{archive}/second.pyc"]


def test_tracebacks_show_the_source(archive: Path) -> None:
    compile_archive(archive)
    program = "import second, traceback\ntry:\n    second.fail()\nexcept ValueError:\n    traceback.print_exc()"
    told = run(program, archive).stderr.splitlines()
    assert told[-3:-1] == [f'  File "{archive}/second.py", line 2, in fail', "    raise ValueError('found')"]


def test_a_process_that_has_the_zip_open_can_still_read_it(archive: Path) -> None:
    program = f"""
import sys, zipimport
importer = zipimport.zipimporter({str(archive)!r})
from pyspark_commitlog.pipeline.workers.precompile import compile_archive
from pathlib import Path
assert compile_archive(Path({str(archive)!r})) == 2
print(importer.load_module("second").__file__)
"""
    assert run(program, Path(os.getcwd())).stdout.strip() == f"{archive}/second.py"


def test_modules_compiled_by_another_python_are_compiled_again(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as other:
        other.setattr(precompile, "MAGIC_NUMBER", b"\x00\x00\r\n")
        compile_archive(archive)
    assert run("import second; print(second.__file__)", archive).stdout.strip() == f"{archive}/second.py"
    assert compile_archive(archive) == 2
    assert run("import second; print(second.__file__)", archive).stdout.strip() == f"{archive}/second.pyc"


def test_archive_is_unchanged_if_a_module_cannot_be_compiled(archive: Path) -> None:
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("wrong.py", "def")
    before = archive.read_bytes()
    with pytest.raises(SyntaxError):
        compile_archive(archive)
    assert archive.read_bytes() == before
    assert list(archive.parent.iterdir()) == [archive]


def precompiled(*archives: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", precompile.__name__, *map(str, archives)]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


def test_module_that_cannot_be_compiled_is_named(archive: Path, tmp_path: Path) -> None:
    archive.write_text("no zip")
    done = precompiled(archive)
    assert (done.returncode, done.stderr) == (1, f"{archive}: File is not a zip file\n")
    assert precompiled(tmp_path / "none.zip").stderr.startswith(f"{tmp_path}/none.zip: [Errno 2]")
    done = precompiled(SPARK_HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (
        1,
        "there is no python/lib/*.zip in SPARK_HOME: name the zips on the command line\n",
    )


def test_spark_starts_its_workers_from_compiled_zips() -> None:
    """``make install`` compiles them here; other environments use the same command."""
    told = precompiled().stdout
    assert [line.partition(":")[0][:7] for line in told.splitlines()] == ["py4j-0.", "pyspark"]
    [pyspark] = [each for each in precompile.archives_of_spark() if each.name == "pyspark.zip"]
    assert (
        run("import pyspark.worker as it; print(it.__file__)", pyspark).stdout.strip()
        == f"{pyspark}/pyspark/worker.pyc"
    )
