"""Compiles the modules in ``pyspark.zip`` once: ``python -m pyspark_commitlog.pipeline.workers.precompile``.

Each Python process that Spark starts imports ``pyspark`` from ``python/lib/pyspark.zip`` in Spark's home, even if
pyspark is installed as a package too. Python stores no compiled code for modules in a zip, so each process compiles 200
modules again: 0.6 to 0.9 s of a core, before its first row. But Python does use compiled modules that are in the zip
already (PEP 273).
"""

from __future__ import annotations

import argparse
import marshal
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import MAGIC_NUMBER, find_spec, source_hash
from pathlib import Path
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

# PEP 552: a hash of the source that Python does not check. A timestamp would be that of the zip's entry, which Python
# takes for local time: it would never match in another time zone.
_UNCHECKED_HASH = 0b01.to_bytes(4, "little")


def compile_archive(archive: Path) -> int:
    """Adds compiled code for modules in a zip that have none for this Python. Returns the number of modules compiled.

    Appends to a copy in the same directory, syncs it, and renames it over the archive, which is unchanged until then.
    Existing entries keep their positions, so processes that have the archive open can continue to use it.

    Raises OSError if the archive's directory cannot be written to, BadZipFile if the archive is not a zip, and
    SyntaxError for a module that this Python cannot compile.
    """
    with ZipFile(archive) as found:
        missing = [name for name in found.namelist() if name.endswith(".py") and not _is_compiled(found, name)]
        if not missing:
            return 0
    with _replacing(archive) as copy, ZipFile(copy, "a", ZIP_DEFLATED) as grown, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Duplicate name")  # compiled by another Python; the later entry counts
        for name in missing:
            grown.writestr(f"{name}c", _compiled(grown.read(name), f"{archive}{os.sep}{name}"))
    return len(missing)


def _is_compiled(archive: ZipFile, name: str) -> bool:
    if f"{name}c" not in archive.NameToInfo:
        return False
    with archive.open(f"{name}c") as file:
        return file.read(len(MAGIC_NUMBER)) == MAGIC_NUMBER


def _compiled(source: bytes, path: str) -> bytes:
    code = compile(source, path, "exec", dont_inherit=True, optimize=0)
    return MAGIC_NUMBER + _UNCHECKED_HASH + source_hash(source) + marshal.dumps(code)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yields a copy of a file, with its permissions, that replaces the file if the block succeeds."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        os.close(descriptor)
        shutil.copy(path, name)
        yield Path(name)
        with open(name, "rb") as file:
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def archives_of_spark() -> list[Path]:
    """Returns the zips that Spark puts on Python's path: those of SPARK_HOME, or of the installed pyspark."""
    home = os.environ.get("SPARK_HOME")
    if home is None:
        pyspark = find_spec("pyspark")
        assert pyspark is not None  # a dependency of this package
        assert pyspark.origin is not None
        home = os.path.dirname(pyspark.origin)
    return sorted(Path(home, "python", "lib").glob("*.zip"))


def main() -> int:
    """Compiles the zips that the command line names. Exits with 1 if a zip is missing, broken or not writable."""
    parser = argparse.ArgumentParser(description="Compile the Python modules in zips, once.")
    parser.add_argument(
        "archives", nargs="*", type=Path, help="zips (default: those of SPARK_HOME or of the installed pyspark)"
    )
    archives = parser.parse_args().archives or archives_of_spark()
    if not archives:
        parser.exit(1, "there is no python/lib/*.zip in SPARK_HOME: name the zips on the command line\n")
    for archive in archives:
        try:
            print(f"{archive.name}: {compile_archive(archive):,} modules compiled")
        except (OSError, BadZipFile, SyntaxError) as error:
            parser.exit(1, f"{archive}: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
