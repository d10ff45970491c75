"""Dumps one file; the suffix of its name decides the kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..errors import CorruptSnapshotError
from ..filesystem.local import LocalFileSystem
from ..filesystem.port import FileSystem, MadeFileSystem
from ..format.files import file_names
from ..paths import local_path
from .indexes import IndexDump, dump_snapshot, dump_txn_index
from .layouts import LAYOUTS
from .log import LogDump
from .options import DumpFindings, DumpOptions

Dump = Callable[[str, DumpOptions, DumpFindings, FileSystem], Iterator[list[str]]]


def dump_file(
    path: str, options: DumpOptions, findings: DumpFindings, filesystem: FileSystem | None = None
) -> Iterator[list[str]]:
    """Yields the lines about the file at ``path``, in lists; the suffix of the name decides the kind of file.

    Raises StorageError for an unreadable file, NotALogDirError for a name that no segment can have, and
    CorruptionError, with path and position, for damage that ends the reading, after all lines before it.
    """
    layout = LAYOUTS[options.format]
    path = path if isinstance(filesystem, MadeFileSystem) else local_path(path)
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
    """Yields the lines of a snapshot. Damage is a remark, not an error, because Kafka can do without snapshots."""
    try:
        yield from dump_snapshot(path, LAYOUTS[options.format], filesystem)
    except CorruptSnapshotError as error:
        findings.remarks.append(str(error))


DUMPS: dict[str, Dump] = {
    file_names.LOG: _log,
    ".checkpoint": _log,
    file_names.INDEX: _offset_index,
    file_names.TIME_INDEX: _time_index,
    file_names.TXN_INDEX: _txn_index,
    file_names.SNAPSHOT: _snapshot,
}
