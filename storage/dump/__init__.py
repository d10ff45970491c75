"""What ``kafka-dump-log`` prints of a log's files (spec 15; ``DumpLogSegments`` of Kafka 3.9.1), line for line.

:func:`dump_file` gives the lines of one file, a list at a time so that a large log is written in large pieces;
:class:`DumpFindings` collects what does not fit together, for the end. Nothing is ever written or repaired: Kafka's
own tool makes a missing ``.index`` when it is asked for a ``.timeindex``, this one says that it is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyspark_commitlog.storage.dump.indexes import IndexDump, dump_snapshot, dump_txn_index
from pyspark_commitlog.storage.dump.layouts import LAYOUTS
from pyspark_commitlog.storage.dump.log import LogDump
from pyspark_commitlog.storage.dump.options import DumpFindings, DumpOptions, PayloadDecoder
from pyspark_commitlog.storage.errors import CorruptSnapshotError
from pyspark_commitlog.storage.filesystem import FileSystem, LocalFileSystem
from pyspark_commitlog.storage.format import names
from pyspark_commitlog.storage.paths import local_path

__all__ = ["DumpFindings", "DumpOptions", "PayloadDecoder", "dump_file"]

Dump = Callable[[str, DumpOptions, DumpFindings, FileSystem], Iterator[list[str]]]


def dump_file(
    path: str, options: DumpOptions, findings: DumpFindings, filesystem: FileSystem | None = None
) -> Iterator[list[str]]:
    """The lines about the file at ``path``, whose suffix tells what it is; ``filesystem`` None is the local one.

    Raises StorageError for a file that cannot be read, NotALogDirError for a name that is no segment's, and
    CorruptionError, with path and position, at damage that ends the reading, behind the lines of all before it.
    """
    path, layout = local_path(path), LAYOUTS[options.format]
    yield [layout.note(f"Dumping {path}")]
    dump = DUMPS.get(_suffix(path))
    if dump is None:
        findings.remarks.append(f"Ignoring unknown file {path}")
        return
    yield from dump(path, options, findings, filesystem or LocalFileSystem())


def _suffix(path: str) -> str:
    _, dot, suffix = path.rpartition("/")[2].rpartition(".")
    return dot + suffix


def _log(path: str, options: DumpOptions, findings: DumpFindings, filesystem: FileSystem) -> Iterator[list[str]]:
    return LogDump(path, options, LAYOUTS[options.format], findings).lines(filesystem)


def _offset_index(
    path: str, options: DumpOptions, findings: DumpFindings, filesystem: FileSystem
) -> Iterator[list[str]]:
    return IndexDump(path, options, LAYOUTS[options.format], filesystem).offset_index(findings)


def _time_index(path: str, options: DumpOptions, findings: DumpFindings, filesystem: FileSystem) -> Iterator[list[str]]:
    return IndexDump(path, options, LAYOUTS[options.format], filesystem).time_index(findings)


def _txn_index(path: str, options: DumpOptions, findings: DumpFindings, filesystem: FileSystem) -> Iterator[list[str]]:
    return dump_txn_index(path, LAYOUTS[options.format], filesystem)


def _snapshot(path: str, options: DumpOptions, findings: DumpFindings, filesystem: FileSystem) -> Iterator[list[str]]:
    """A snapshot that is damaged is no error to Kafka, which can do without: it is remarked upon."""
    try:
        yield from dump_snapshot(path, LAYOUTS[options.format], filesystem)
    except CorruptSnapshotError as error:
        findings.remarks.append(str(error))


DUMPS: dict[str, Dump] = {
    names.LOG: _log,
    ".checkpoint": _log,
    names.INDEX: _offset_index,
    names.TIME_INDEX: _time_index,
    names.TXN_INDEX: _txn_index,
    names.SNAPSHOT: _snapshot,
}
