"""The list of a backup's files at one moment: ``cuts/TIME-CHECKSUM.json``.

It is written last, when all the pieces that it names are durable. Its name has the first half of its own digest, which
reveals a changed bit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from ..errors import CorruptionError, SnapshotError
from .places import BackupPlace

VERSION = 1
CUT_BYTES_MAX = 1024 * 1024 * 1024
FOLDER = "cuts"
OBJECTS = "objects"
_SUFFIX = ".json"
_DIGITS = 32  # of the checksum in the name


class Piece(NamedTuple):
    """Consecutive bytes of a file."""

    digest: str  # SHA-256; in an encrypted backup, with a key
    size: int  # bytes

    @property
    def name(self) -> str:
        """The name of its object."""
        return f"{OBJECTS}/{self.digest[:2]}/{self.digest}"


class CutFile(NamedTuple):
    """A file of the log directory."""

    size: int  # bytes
    modified_ms: int  # ms since 1970
    inode: int  # inode in the log directory: with size and time it identifies a file of an earlier cut
    pieces: tuple[Piece, ...]  # zeros at the end of the file belong to no piece

    @property
    def stored(self) -> int:
        """Bytes in pieces."""
        return sum(piece.size for piece in self.pieces)


@dataclass(frozen=True)
class Cut:
    """A log directory at one moment."""

    source: str
    taken_at_ms: int
    files: Mapping[str, CutFile]  # by path below the log directory
    name: str = ""  # the name of its file in the backup, without folder and suffix; empty: not written yet

    @property
    def partitions(self) -> list[str]:
        return sorted({path.partition("/")[0] for path in self.files if "/" in path})

    @property
    def pieces(self) -> set[Piece]:
        return {piece for file in self.files.values() for piece in file.pieces}

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())


class CutName(NamedTuple):
    """The parts of the name of a cut's file."""

    taken_at_ms: int
    name: str


def write_cut(place: BackupPlace, cut: Cut) -> str:
    """Writes a cut, after its pieces were synced; returns its name. Durable on return."""
    content = {
        "version": VERSION,
        "source": cut.source,
        "taken_at_ms": cut.taken_at_ms,
        "files": {path: _file_to_json(file) for path, file in sorted(cut.files.items())},
    }
    data = json.dumps(content, separators=(",", ":")).encode()
    moment = datetime.fromtimestamp(cut.taken_at_ms / 1000, UTC)
    name = f"{moment:%Y%m%dT%H%M%S}.{cut.taken_at_ms % 1000:03}Z-{place.digest(data)[:_DIGITS]}"
    place.publish(file_of(name), data)
    return name


def read_cut(place: BackupPlace, name: str) -> Cut:
    """Raises CorruptionError, with the file, if it is missing or has changed."""
    file = file_of(name)
    data = bytes(place.get(file, CUT_BYTES_MAX))
    if place.digest(data)[:_DIGITS] != name.rpartition("-")[2]:
        raise CorruptionError(
            "the list is not what was written: its checksum is another one", path=f"{place.path}/{file}"
        )
    content = json.loads(data)
    if content["version"] != VERSION:
        raise SnapshotError(f"{place.path}/{file}: has version {content['version']}, but this engine knows {VERSION}")
    files = {path: _file_from_json(each) for path, each in content["files"].items()}
    return Cut(content["source"], content["taken_at_ms"], files, name)


def file_of(name: str) -> str:
    """Returns the path of a cut's file in the backup."""
    return f"{FOLDER}/{name}{_SUFFIX}"


def list_cuts(place: BackupPlace) -> list[CutName]:
    """Returns the cuts of a backup, oldest first, by their names alone."""
    names = [each.name.removeprefix(f"{FOLDER}/") for each in place.list_files(FOLDER)]
    found = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return sorted(CutName(time_ms, name) for name in found if (time_ms := _time_of(name)) is not None)


def is_backup(place: BackupPlace) -> bool:
    """Whether there is at least one cut."""
    return bool(list_cuts(place))


def find_cut(place: BackupPlace, wanted: str | int | None = None) -> Cut:
    """Returns a cut by its name or the beginning of it, the last one at or before a time in ms, or the newest one.

    Raises SnapshotError, with a list of the existing ones, if there is none; and the errors of :func:`read_cut`.
    """
    cuts = list_cuts(place)
    if not cuts:
        raise SnapshotError(f"{place.path}: is no backup, or no first one was completed")
    if isinstance(wanted, str):
        found = [each for each in cuts if each.name.startswith(wanted)]
    else:
        found = [each for each in cuts if wanted is None or each.taken_at_ms <= wanted][-1:]
    if len(found) != 1:
        there = ", ".join(each.name.partition("-")[0] for each in cuts)
        raise SnapshotError(f"{place.path}: {len(found)} backups are of {wanted!r}; there are those of {there}")
    return read_cut(place, found[0].name)


def _time_of(name: str) -> int | None:
    moment, _, checksum = name.partition("-")
    if len(checksum) != _DIGITS:
        return None
    try:
        return round(datetime.strptime(moment, "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return None


def _file_to_json(file: CutFile) -> list[object]:
    return [file.size, file.modified_ms, file.inode, [[*piece] for piece in file.pieces]]


def _file_from_json(content: Sequence[object]) -> CutFile:
    size, modified_ms, inode, pieces = content
    return CutFile(size, modified_ms, inode, tuple(Piece(*piece) for piece in pieces))  # type: ignore[arg-type,attr-defined]
