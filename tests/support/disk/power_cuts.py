"""How many of the disks that a power cut may leave of a program are tried: few in a test, more in a long run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.support.disk.memory_filesystem import MemoryFileSystem, crash_points

Program = Callable[[MemoryFileSystem], object]


def _unnoticed(_: MemoryFileSystem) -> None:
    pass


@dataclass(frozen=True)
class Effort:
    """Every so many changes of a program, from the ``first`` one on, and so many drawn disks for each."""

    every: int = 1
    seeds: int = 1
    first: int = 1
    first_seed: int = 0
    with_kills: bool = False  # also the disk of which nothing is lost, for the process alone was killed
    on_disk: Callable[[MemoryFileSystem], None] = _unnoticed  # is told each disk, before it is tried

    def killed(self, program: Program, start: MemoryFileSystem) -> Iterator[tuple[str, MemoryFileSystem]]:
        """Where a process was killed, and the disk, which has all it wrote."""
        for operation, disk in crash_points(program, start, every=self.every, first=self.first):
            yield str(operation), disk

    def cut(self, program: Program, start: MemoryFileSystem) -> Iterator[tuple[str, MemoryFileSystem]]:
        """What power cuts leave, and during which operation the power went, by which seed."""
        for n, (operation, disk) in enumerate(self.killed(program, start), self.first_seed):
            if self.with_kills:
                yield f"{operation}, killed", disk.copy()
            for seed in range(n, n + self.seeds):
                left = disk.crash(seed)
                self.on_disk(left)
                yield f"{operation}, seed {seed}", left
