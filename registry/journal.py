"""Journal: the file of an embedded registry, to which every change is appended.

The first line names the format and has an id of the file. The second has all nodes at the time when the file was
created. Each later line has a change. A line is a CRC-32, a space and JSON. When the changes are much longer than the
nodes, the file is replaced by a new one with the current nodes.

Each change is synced before the next one is written, so a crash can only tear the last one, of which a power cut may
leave zeros. An incomplete or zeroed line at the end is therefore an unacknowledged write: the next writer removes it
and logs that. A wrong checksum without zeros is damage, and so are zeros that a whole change follows; both are
reported.

After an error of the disk, such as a full one, the next change may succeed. If a sync failed, it is unknown what of the
file is on disk, so the file is replaced first.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

from ..storage import CorruptionError, File, FileSystem, LogStoreError, StorageError, parent_of, write_atomically
from .tree import Operation, Tree

_KIND = b"commitlog-registry 1 "
_HEAD_BYTES = len(_KIND) + 33  # a name of 32 characters, and the end of the line
_REPLACED_FROM = 256 * 1024  # bytes; smaller files are left as they are
_CHANGES_MAX = 4  # the file is replaced once it has this many times the bytes of the nodes
_CHANGES_BYTES_MAX = 64 * 1024 * 1024  # it is also replaced once the changes are as long as this
_FILE_BYTES_MAX = 512 * 1024 * 1024  # JSON may take several times KEPT_BYTES_MAX

logger = logging.getLogger(__name__)


class Journal:
    """The file and its nodes. For one thread at a time; writers hold a lock on another file."""

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self.tree = Tree()
        self._filesystem, self._path = filesystem, path
        self._head = b""  # of the file that was read last
        self._seen: tuple[int, int, int] | None = None  # its state at the last check
        self._end = 0  # of its last whole line
        self._synced = 0  # this object synced the file up to here; after that, others may have left unsynced changes
        self._nodes_bytes = 0
        self._is_doubtful = False  # whether a sync failed, so that it is unknown what of the file is on disk

    def catch_up(self) -> bool:
        """Reads the changes of other processes; returns whether there were any. The file is created by the first write.

        Raises CorruptionError for a damaged file.
        """
        status = self._filesystem.status(self._path)
        if status is None:
            if self._head:
                raise CorruptionError(
                    "the file was removed while it was in use; restart its processes", path=self._path
                )
            return False
        seen = (status.inode, status.size, status.modified_ms)
        if seen == self._seen:
            return False
        before = self.tree.number
        with self._filesystem.open(self._path, "read") as file:
            head = bytes(file.read(0, _HEAD_BYTES))
            position = self._end if head == self._head else 0
            if (size := file.size()) < position or size > _FILE_BYTES_MAX:
                length = "short" if size < position else "long"
                raise self._damage(position, f"the file has {size} bytes, which is too {length}")
            lines = bytes(file.read(position, size - position))
        if position == 0:
            self._begin(head, lines)
        else:
            self._read(lines)
        self._seen = seen
        return self.tree.number != before or position == 0

    def _begin(self, head: bytes, content: bytes) -> None:
        if len(head) < _HEAD_BYTES or not (head.startswith(_KIND) and head.endswith(b"\n")):
            raise self._damage(0, "the file is not a registry, or has a newer version")
        end = content.find(b"\n", _HEAD_BYTES) + 1
        first = _decoded(content[_HEAD_BYTES:end])
        if first is None or "nodes" not in first:
            raise self._damage(_HEAD_BYTES, "the nodes cannot be read")
        try:
            self.tree = Tree.decode(first["number"], first["nodes"])
        except (ValueError, TypeError, KeyError) as error:
            raise self._damage(_HEAD_BYTES, f"the nodes are invalid ({error})") from error
        self._head, self._end, self._nodes_bytes, self._synced = head, end, end, 0
        self._read(content[end:])

    def _read(self, content: bytes) -> None:
        """Applies the complete lines; an incomplete one at the end may be a write in progress."""
        begin = 0
        while end := content.find(b"\n", begin) + 1:
            change = _decoded(content[begin:end])
            if change is None:
                if _is_torn(content[begin:]):
                    return
                raise self._damage(self._end, "the checksum of a change is wrong")
            try:
                self.tree.apply(change["number"], change["change"])
            except (ValueError, TypeError, KeyError) as error:
                raise self._damage(self._end, f"a change is invalid ({error})") from error
            self._end += end - begin
            begin = end

    def append(self, operations: Sequence[Operation]) -> None:
        """Writes a change and applies it. The caller must hold the lock, and have caught up.

        On disk after each step: all changes before, synced, even if their writer was killed before it synced; the
        change, perhaps incomplete; after the sync, all of it.

        Raises StorageError if the disk fails; it is then unknown whether others will find the change. The next call
        cuts off what a failed write left. After a failed sync, the file is replaced before others can have the lock,
        or else by the next call.
        """
        if self._is_doubtful or not self._head:
            self._replace()
        number = self.tree.number + 1
        line = _encoded({"number": number, "change": operations})
        try:
            if not self._synced:  # another process may have been killed before it synced the name of the file
                self._filesystem.sync_directory(parent_of(self._path))
            with self._filesystem.open(self._path, "write") as file:
                if (size := file.size()) > self._end:
                    logger.warning(
                        "%s: cut off %d bytes from position %d, which a failed write or a crash left",
                        self._path,
                        size - self._end,
                        self._end,
                    )
                    file.truncate(self._end)
                if self._synced < size:
                    self._sync(file)
                file.write(self._end, line)
                self._sync(file)
        except OSError as error:
            if self._is_doubtful:  # others may believe what they find in the file, once they have the lock
                with suppress(LogStoreError, OSError):
                    self.catch_up()
                    self._replace()
            raise StorageError(f"{self._path}: {error.strerror or error}") from error
        self.tree.apply(number, operations)
        self._end += len(line)
        self._synced = self._end
        longest = min(_CHANGES_MAX * self._nodes_bytes, self._nodes_bytes + _CHANGES_BYTES_MAX)
        if self._end > max(_REPLACED_FROM, longest):
            self._replace()

    def _sync(self, file: File) -> None:
        """Syncs the file. After an error, a second sync may wrongly succeed, so the file is not written any more."""
        self._is_doubtful = True
        file.sync()
        self._is_doubtful = False

    def _replace(self) -> None:
        """Replaces the file atomically by one without changes: a crash leaves the old or the new one."""
        head = _KIND + uuid4().hex.encode() + b"\n"
        content = head + _encoded({"number": self.tree.number, "nodes": self.tree.encode()})
        self._is_doubtful = True  # until the content and the name of the new file are synced
        try:
            write_atomically(self._filesystem, self._path, content)
        except OSError as error:
            raise StorageError(f"{self._path}: {error.strerror or error}") from error
        self._head, self._end, self._nodes_bytes = head, len(content), len(content)
        self._synced, self._is_doubtful = self._end, False

    def _damage(self, position: int, reason: str) -> CorruptionError:
        return CorruptionError(
            f"{reason}; stop all gateways and remove the file: they register again, but committed offsets that old "
            "consumers keep in the registry are lost",
            path=self._path,
            position=position,
        )


def _encoded(content: dict[str, Any]) -> bytes:
    text = json.dumps(content, separators=(",", ":")).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def _decoded(line: bytes) -> dict[str, Any] | None:
    """Returns the content of a line; None if its checksum is wrong."""
    checksum, _, text = line.rstrip(b"\n").partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return None
    content: dict[str, Any] = json.loads(text)
    return content


def _is_torn(content: bytes) -> bool:
    """Whether the bytes from a line that cannot be read on may be of one unfinished write: zeros, and no whole line."""
    lines = content.split(b"\n")[:-1]
    return b"\0" in content and all(_decoded(line.rpartition(b"\0")[2]) is None for line in lines)
