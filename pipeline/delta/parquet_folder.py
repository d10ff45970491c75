"""A folder of Parquet files that changes at once: readers see all files of one load, or all of the next.

    flights/current -> _loads/00000002       readers read it: spark.read.parquet("flights/current")
    flights/_loads/00000002/part-….parquet   the rows
    flights/_loads/00000002/_offsets.json    {"flights": {"0": 12}}: the next offset to load from each partition
    flights/_loads/00000002/_serde.json      what decoded the values (values.recorded)
    flights/_loads/00000001                  the load before; a reader that resolved the link may still read it
    flights/_lock                            held by the load that writes

A file that a load keeps is in both of its folders, as a hard link. Names that begin with ``_`` are hidden from Spark.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from ...storage import (
    CorruptionError,
    InvalidConfigError,
    LocalFileSystem,
    LogDirLockedError,
    local_path,
    lock_holders,
    write_atomically,
)
from ..rows.topic_ids import KnownOffsets

CURRENT = "current"
_OFFSETS = "_offsets.json"
_SERDE = "_serde.json"


class ParquetFolder:
    """The folder at ``path``, on a local file system."""

    def __init__(self, path: str) -> None:
        self.path = Path(local_path(path)).absolute()
        self._loads = self.path / "_loads"
        self._files = LocalFileSystem()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the folder's lock in the block, and makes the folder. Raises LogDirLockedError if another load runs."""
        self._files.make_directory(str(self._loads))
        path = str(self.path / "_lock")
        lock = self._files.lock(path, wait=False)
        if lock is None:
            raise LogDirLockedError(
                f"{self.path}: another export writes to this folder; wait until it has ended{lock_holders(path)}"
            )
        with lock:
            yield

    def current(self) -> Path | None:
        """Returns the folder with the rows of the last load, without links; None before the first load."""
        link = self.path / CURRENT
        return link.resolve() if link.is_symlink() else None

    def next_offsets(self) -> KnownOffsets:
        """Returns the next offset to load from each partition, and the topic's id; nothing before the first load.

        Raises CorruptionError if the file is missing or is not JSON: without it, rows would be loaded twice.
        """
        current = self.current()
        return KnownOffsets({}, {}) if current is None else self.next_offsets_of(current)

    def serde_of(self, load: Path) -> str | None:
        """Returns the text of the serde that decoded the rows of a load; None if an older version wrote it."""
        file = load / _SERDE
        return file.read_text(encoding="utf-8") if file.exists() else None

    def next_offsets_of(self, load: Path) -> KnownOffsets:
        """Returns :meth:`next_offsets` of one load. Raises CorruptionError."""
        file = load / _OFFSETS
        try:
            return KnownOffsets.from_json(file.read_text(encoding="utf-8"), str(file))
        except (OSError, ValueError, InvalidConfigError) as error:
            raise CorruptionError(
                f"{file}: {error}. Restore the file, or export to another folder: without it, rows would be there twice"
            ) from None

    def publish(
        self, offsets: KnownOffsets, write: Callable[[str], object], kept: Collection[str], serde: str | None = None
    ) -> None:
        """Replaces the rows by those that ``write`` puts into the folder it is called with, and the files ``kept``.

        ``kept`` are names of current files, ``serde`` the text of the serde that decoded the values. The caller holds
        the lock. The state on disk after a crash that follows each step:

        1. Files of an interrupted load, and all loads before the last one, are removed. Readers see the last load.
        2. The new files are written to a folder ``_loads/N``. Readers see the last load; the next call removes ``N``.
        3. The files to keep are linked into ``N``, the files beside the rows are written, and all is synced. As before.
        4. The link ``current`` is replaced by one to ``N``: readers see the new rows, and the next load begins at the
           new offsets. A power cut may bring back the old link, with the old rows and offsets.
        5. The link's folder is synced: readers see the new rows.
        """
        last = self.current()
        self._clean(last)
        new = self._loads / f"{1 + (int(last.name) if last else 0):08d}"
        write(str(new))
        if last is not None:
            self._keep(kept, last, new)
        if serde is not None:
            write_atomically(self._files, str(new / _SERDE), serde.encode())
        write_atomically(self._files, str(new / _OFFSETS), offsets.to_json().encode())
        self._sync(new)
        self._point_to(new)

    def _clean(self, last: Path | None) -> None:
        for each in self._loads.iterdir():
            if each != last:
                shutil.rmtree(each)

    def _keep(self, names: Collection[str], last: Path, new: Path) -> None:
        for name in [*names, *(f".{name}.crc" for name in names)]:  # Hadoop's checksums
            if (last / name).exists():
                self._files.link(str(last / name), str(new / name))

    def _sync(self, folder: Path) -> None:
        for file in folder.iterdir():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        for each in (folder, self._loads, self.path):
            self._files.sync_directory(str(each))

    def _point_to(self, new: Path) -> None:
        link = self.path / f"_{CURRENT}"
        link.unlink(missing_ok=True)
        link.symlink_to(new.relative_to(self.path))
        link.rename(self.path / CURRENT)
        self._files.sync_directory(str(self.path))
