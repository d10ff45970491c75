"""What a power cut may leave of a disk: the model behind MemoryFileSystem.

Every file and directory is kept twice: as its users see it, and as it surely is on the disk. Between the two lie the
changes that no sync has covered yet, in order. A :class:`Crash` makes a new disk out of what is sure and, by seeded
chance, some of those changes:

- **Bytes.** A file is written back in blocks of 512 bytes, each for itself: of every block the disk has one of the
  contents it had since the last sync, never a mixture of two. The size is one of those it grew through, or the end of a
  block between them; blocks below it that were not written back read as zeros, or as what was there before.
- **Truncations** happen in order. Of a file whose truncation is lost, what was written after it is lost too: the blocks
  that it freed are given away only once the truncation is on the disk.
- **Names.** The changes of one directory (made, renamed, linked, removed) are kept up to some point, in order; a rename
  within a directory is one change. Different directories know nothing of each other: a rename from one to another
  may leave the file under both names, or none. Syncing a file does not keep its name.
- **Always kept**: what a file held when it was last synced, under every name its directory held when that was synced.
- **Lost**: locks, and open files.

The model is harsher than ext4 or XFS, which keep one order for all directories: code that survives here survives there.
"""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Literal, NamedTuple

BLOCK_BYTES = 512  # what a disk writes as a whole
NAME_LENGTH_MAX = 255

Unsynced = Literal["chance", "lost", "kept"]


class Write(NamedTuple):
    """Bytes written at a position; a hole before it reads as zeros."""

    position: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        if len(content) < self.position:
            content.extend(bytes(self.position - len(content)))
        content[self.position : self.position + len(self.data)] = self.data

    def blocks(self) -> Iterator[tuple[int, Write]]:
        """The write, cut at the ends of blocks, each piece with the number of its block."""
        start, end = self.position, self.position + len(self.data)
        while start < end:
            stop = min(end, (start // BLOCK_BYTES + 1) * BLOCK_BYTES)
            yield start // BLOCK_BYTES, Write(start, self.data[start - self.position : stop - self.position])
            start = stop


class Truncate(NamedTuple):
    """A file cut, or extended with zeros, to a size."""

    size: int

    def apply(self, content: bytearray) -> None:
        del content[self.size :]
        content.extend(bytes(self.size - len(content)))


@dataclass(eq=False)
class FileNode:
    """A file: as it is seen, as it surely is, and the changes between the two."""

    inode: int
    modified_ms: int
    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    durable_modified_ms: int = 0
    pending: list[Write | Truncate] = field(default_factory=list)

    def change(self, change: Write | Truncate, now_ms: int) -> None:
        change.apply(self.content)
        self.pending.append(change)
        self.modified_ms = now_ms

    def sync(self) -> None:
        for change in self.pending:
            change.apply(self.durable)
        self.pending.clear()
        self.durable_modified_ms = self.modified_ms


@dataclass(eq=False)
class DirectoryNode:
    """A directory, in the same way; a change gives nodes to names, and None takes a name away."""

    inode: int
    modified_ms: int
    entries: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)
    pending: list[dict[str, Node | None]] = field(default_factory=list)

    def change(self, names: dict[str, Node | None], now_ms: int) -> None:
        """Make all of ``names`` at once."""
        for name in names:
            if len(name) > NAME_LENGTH_MAX:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), name)
        _apply_names(self.entries, names)
        self.pending.append(names)
        self.modified_ms = now_ms

    def sync(self) -> None:
        for names in self.pending:
            _apply_names(self.durable, names)
        self.pending.clear()


Node = FileNode | DirectoryNode


def _apply_names(entries: dict[str, Node], names: dict[str, Node | None]) -> None:
    for name, node in names.items():
        if node is None:
            del entries[name]
        else:
            entries[name] = node


@dataclass
class Crash:
    """One power cut: the tree as it was, made into the tree that is left."""

    chance: Random
    unsynced: Unsynced
    left: dict[int, Node] = field(default_factory=dict)  # by inode: a file with two names stays one

    def node(self, node: Node) -> Node:
        if node.inode not in self.left:
            self.left[node.inode] = self._directory(node) if isinstance(node, DirectoryNode) else self._file(node)
        return self.left[node.inode]

    def _directory(self, node: DirectoryNode) -> DirectoryNode:
        kept = dict(node.durable)
        for names in node.pending[: self._how_many(len(node.pending))]:
            _apply_names(kept, names)
        entries = {name: self.node(kept[name]) for name in sorted(kept)}
        return DirectoryNode(node.inode, node.modified_ms, entries, dict(entries))

    def _file(self, node: FileNode) -> FileNode:
        content = self._content(node)
        modified_ms = node.modified_ms if self._how_many(1) else node.durable_modified_ms
        return FileNode(node.inode, modified_ms, content, bytearray(content), modified_ms)

    def _content(self, node: FileNode) -> bytearray:
        content = bytearray(node.durable)
        sure_end = full_end = len(content)
        changes = self._up_to_a_lost_truncation(node.pending)
        kept: defaultdict[int, int] = defaultdict(self._versions(len(changes)))  # by block: the changes it has seen
        for index, change in enumerate(changes):
            if isinstance(change, Truncate):
                change.apply(content)
                sure_end = full_end = change.size
            else:
                full_end = max(full_end, change.position + len(change.data))
                for block, piece in change.blocks():
                    if index < kept[block]:
                        piece.apply(content)
        Truncate(self._end(sure_end, full_end)).apply(content)
        return content

    def _up_to_a_lost_truncation(self, pending: list[Write | Truncate]) -> list[Write | Truncate]:
        truncations = [index for index, change in enumerate(pending) if isinstance(change, Truncate)]
        kept = self._how_many(len(truncations))
        return pending[: truncations[kept]] if kept < len(truncations) else pending

    def _how_many(self, count: int) -> int:
        """Of so many changes in order, how many were on the disk."""
        by_chance = self.chance.choice((0, count, self.chance.randint(0, count)))
        return {"lost": 0, "kept": count, "chance": by_chance}[self.unsynced]

    def _end(self, sure: int, full: int) -> int:
        """Where a file ends that surely had ``sure`` bytes and was to have ``full``."""
        boundary = max(sure, self.chance.randint(sure, full) // BLOCK_BYTES * BLOCK_BYTES)
        by_chance = self.chance.choice((sure, full, boundary))
        return {"lost": sure, "kept": full, "chance": by_chance}[self.unsynced]

    def _versions(self, count: int) -> Callable[[], int]:
        """For each block that asks: how many of ``count`` changes it has seen. Often all have the same fate."""
        fate = {"lost": 0, "kept": 1, "chance": self.chance.randrange(3)}[self.unsynced]
        fates: tuple[Callable[[], int], ...] = (lambda: 0, lambda: count, lambda: self.chance.randint(0, count))
        return fates[fate]
