"""``snapshot.json``: the files of a snapshot, with sizes and times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...filesystem.operations import write_atomically
from ...filesystem.port import FileSystem
from ...format.files import file_names
from .building import sync_all

MANIFEST_FILE = "snapshot.json"
MANIFEST_VERSION = 1
MANIFEST_BYTES_MAX = 1024 * 1024 * 1024  # for five million files
LOG_FOLDER = "log"


class SnapshotFile(NamedTuple):
    """The entry of one file in ``snapshot.json``."""

    size: int  # bytes
    modified_ms: int  # retention uses it for a segment without timestamps
    linked: bool  # otherwise copied


@dataclass(frozen=True)
class Snapshot:
    """A complete snapshot."""

    directory: str
    source: str  # the log directory
    taken_at_ms: int
    files: Mapping[str, SnapshotFile]  # by path below ``log/``

    @property
    def partitions(self) -> list[str]:
        """The names of the partitions' directories, ascending."""
        return sorted({path.partition("/")[0] for path in self.files if "/" in path})

    def bytes_of(self, *, linked: bool) -> int:
        """Returns the total size, in bytes, of the files that were linked, or of those that were copied."""
        return sum(file.size for file in self.files.values() if file.linked is linked)


def complete(filesystem: FileSystem, building: str, snapshot: Snapshot) -> None:
    """Syncs the files of a snapshot, and then writes ``snapshot.json``: no crash leaves it without them."""
    sync_all(filesystem, file_names.join(building, LOG_FOLDER), snapshot.files)
    write_atomically(filesystem, file_names.join(building, MANIFEST_FILE), _encode(snapshot))


def _encode(snapshot: Snapshot) -> bytes:
    content = {
        "version": MANIFEST_VERSION,
        "source": snapshot.source,
        "taken_at_ms": snapshot.taken_at_ms,
        "files": {path: file._asdict() for path, file in sorted(snapshot.files.items())},
    }
    return json.dumps(content, indent=1).encode() + b"\n"


def decode(directory: str, data: bytes) -> Snapshot:
    """Returns the snapshot in ``directory`` by its ``snapshot.json``.

    Raises ValueError, KeyError, TypeError or AttributeError if that is damaged, or of another version.
    """
    content: dict[str, Any] = json.loads(data)
    if content["version"] != MANIFEST_VERSION:
        raise ValueError(f"it has version {content['version']}, but this engine knows {MANIFEST_VERSION}")
    files = {path: SnapshotFile(**file) for path, file in content["files"].items()}
    outside = [path for path in files if path.startswith("/") or ".." in path.split("/")]
    if outside:
        raise ValueError(f"it names {outside[0]!r}, which lies outside the snapshot")
    return Snapshot(directory, content["source"], content["taken_at_ms"], files)
