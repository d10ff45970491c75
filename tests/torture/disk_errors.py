"""Errors of the disk at every call that every operation makes, once or from then on.

The operations are those of :mod:`tests.torture.crash_states`, and what must hold afterwards is the same, on the disk as
it is and after a power cut: nothing acknowledged is lost, nothing is there in part. Besides, whatever is raised names
file and operation, and a log whose write or sync failed refuses to go on, while readers do.

Short reads and writes, which a system may make of any, are made below the file system: there they must be finished.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest

from pyspark_commitlog.storage.clock import Clock
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import LogStoreError, StorageError
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.writing.log import Log
from tests.support.disk.faulty_filesystem import FaultyFileSystem, OperationName, Rule
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.disk.power_cuts import Effort, Program
from tests.support.logs.building import append, batch, config, open_log, open_reader, rows
from tests.torture.crash_states import CHECKS
from tests.torture.suite import Run, Suite, quiet

CHANGES = ("write", "truncate", "make_directory", "rename", "link", "remove", "set_modified")
ERRORS: dict[str, tuple[int, ...]] = {  # by operation; the others fail with EIO alone
    **dict.fromkeys(CHANGES, (errno.EIO, errno.ENOSPC, errno.EROFS)),
    "open": (errno.EIO, errno.EMFILE, errno.ENOSPC, errno.EROFS),
    "sync": (errno.EIO, errno.ENOSPC),
    "sync_directory": (errno.EIO, errno.EMFILE),
    "list": (errno.EIO, errno.EMFILE),
    "lock": (errno.EIO, errno.EMFILE),
}
FOR_GOOD = 0.3  # of the errors: a full disk stays full, a file system that was remounted stays read-only
EVERY = 7  # calls: a case strikes each seventh, seven cases strike all


class FailingDisk(FaultyFileSystem):
    """Fails at its n-th call, in one of the ways in which that one may; with ``for_good`` at all changes after it."""

    def __init__(self, inner: MemoryFileSystem, n: int, chance: Random) -> None:
        super().__init__(inner)
        self._left = n
        self._chance = chance
        self._for_good = chance.random() < FOR_GOOD
        self.struck: Rule | None = None
        self.failed: list[tuple[str, str]] = []  # operation and path of each call that failed

    @property
    def clock(self) -> Clock:
        assert isinstance(self.inner, MemoryFileSystem)
        return self.inner.clock

    def lose_locks(self) -> None:
        assert isinstance(self.inner, MemoryFileSystem)
        self.inner.lose_locks()

    def meet(self, operation: OperationName, *paths: str) -> Rule | None:
        self._left -= 1
        if self._left == 0:
            self.struck = self._drawn(operation, paths[0])
        elif self.struck is None or not (self._for_good and operation in CHANGES):
            return super().meet(operation, *paths)
        return self._fail(self.struck, operation, paths[0])

    def _drawn(self, operation: OperationName, path: str) -> Rule:
        code = self._chance.choice(ERRORS.get(operation, (errno.EIO,)))
        torn = self._chance.choice((None, 0, self._chance.randint(1, 200))) if operation == "write" else None
        return Rule(operation, path, 1, False, code, torn)

    def _fail(self, struck: Rule | None, operation: OperationName, path: str) -> Rule:
        assert struck is not None
        self.failed.append((operation, path))
        if operation == "write" and struck.amount is not None:
            return struck
        assert struck.error is not None
        raise OSError(struck.error, f"{operation}: {os.strerror(struck.error)}", path)


@dataclass(frozen=True)
class DiskErrors(Effort):
    """What a failing disk leaves of a program, in the place of what power cuts leave."""

    chance: Random = field(default_factory=Random)
    on_error: Callable[[], None] = lambda: None

    def killed(self, program: Program, start: MemoryFileSystem) -> Iterator[tuple[str, MemoryFileSystem]]:
        for n in count(self.first, self.every):
            inner = start.copy()
            disk = FailingDisk(inner, n, self.chance)
            error = failure_of(program, disk)
            if disk.struck is None:
                return
            self.on_error()
            where = f"call {n}, {disk.struck}"
            check_named(error, disk.failed, where)
            yield where, inner.copy()

    def cut(self, program: Program, start: MemoryFileSystem) -> Iterator[tuple[str, MemoryFileSystem]]:
        for where, disk in self.killed(program, start):
            seed = self.chance.randrange(1 << 40)
            yield (where, disk) if self.chance.random() < 0.5 else (f"{where}; power cut {seed}", disk.crash(seed))


def failure_of(program: Program, disk: FailingDisk) -> Exception | None:
    try:
        program(disk)  # type: ignore[arg-type]
    except (LogStoreError, OSError) as error:
        return error
    except pytest.fail.Exception as missing:  # a program that expects an error of its own
        return AssertionError(str(missing))
    return None


def check_named(error: Exception | None, failed: list[tuple[str, str]], where: str) -> None:
    """An error that came out tells which operation on which file failed."""
    if error is not None:
        told = " ".join(str(each) for each in chain_of(error))
        assert any(operation in told and path in told for operation, path in failed), f"{where}: {told}"


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


# A writer after an error, and its readers


def failed_writer(chance: Random, errors: DiskErrors) -> None:
    """Each call of an append, a roll and a sync fails once: the log goes on only if it says that all is well."""
    settings = config(segment_bytes=400, index_interval_bytes=0, segment_index_bytes=240, flush_messages=2)
    for n in count(errors.first, errors.every):
        inner, marks = MemoryFileSystem(), KeptInMemory()
        with open_log("/t-0", marks, filesystem=inner, segment_index_bytes=240) as log:
            append(log, b"sure")
        disk = FailingDisk(inner, 10**9, chance)
        with Log.open("/t-0", settings, clock=inner.clock, filesystem=disk, checkpoints=marks) as log:
            reader = open_reader("/t-0", marks, filesystem=inner)
            disk._left = n
            error = failure_of(lambda _, log=log: write_some(log), disk)  # type: ignore[misc]
            if disk.struck is None:
                return
            errors.on_error()
            disk._for_good = False
            check_writer(log, error, f"call {n}, {disk.struck}")
            assert rows(reader)[0] == (0, b"sure")
            reader.refresh()
            assert rows(reader)[0] == (0, b"sure")
        with open_log("/t-0", marks, filesystem=inner, segment_index_bytes=240) as log:
            assert append(log, b"after").first_offset == rows(log)[-1][0]


def write_some(log: Log) -> None:
    for n in range(4):
        log.append(batch(b"%d" % n * 100))
    log.roll()
    log.append(batch(b"last"))
    log.sync()


def check_writer(log: Log, error: Exception | None, where: str) -> None:
    if log.failure is None:
        append(log, b"goes on")
        assert rows(log)[-1][1] == b"goes on", where
        return
    assert error is not None, where
    before = rows(log)
    with pytest.raises(StorageError, match="open the log again"):
        append(log, b"must not go on")
    assert rows(log) == before, where


# Short reads and writes


def short_calls(chance: Random, directory: Path) -> None:
    """A real directory on a system that reads and writes a part of what it is asked for: nobody notices."""

    def short_write(descriptor: int, data: list[memoryview], position: int) -> int:
        whole = b"".join(data)
        return real_write(descriptor, [whole[: chance.randint(1, max(len(whole), 1))]], position)

    def short_read(descriptor: int, length: int, position: int) -> bytes:
        return real_read(descriptor, chance.randint(1, max(length, 1)), position)

    def short_reads(descriptor: int, buffers: list[memoryview], position: int) -> int:
        return real_reads(descriptor, [buffers[0][: chance.randint(1, max(len(buffers[0]), 1))]], position)

    real_write, real_read, real_reads = os.pwritev, os.pread, os.preadv
    values = [chance.randbytes(chance.randint(0, 3000)) for _ in range(12)]
    short: dict[str, Any] = {"pwritev": short_write, "pread": short_read, "preadv": short_reads}
    with mock.patch.multiple(os, **short), LogManager.open(str(directory), create=True) as manager:
        manager.create_topic("t", partitions=1, configs={"segment.bytes": "8000", "index.interval.bytes": "0"})
        for value in values:
            append(manager.open_log("t", 0), value)
        manager.close()
        with LogManager.open(str(directory)) as again:
            assert [value for _, value in rows(again.open_reader("t", 0))] == values
            append(again.open_log("t", 0), b"more")
    with LogManager.open(str(directory)) as manager:
        assert [value for _, value in rows(manager.open_reader("t", 0))] == [*values, b"more"]


def run(run: Run) -> None:
    names = [*CHECKS, "a writer after an error", "short reads and writes"]
    for case in run.cases():
        turn, index = divmod(case.number, len(names))
        name = names[index]
        errors = DiskErrors(every=EVERY, first=1 + turn % EVERY, chance=case.chance, on_error=run.passed)
        with run.watching(case, name), quiet():  # of every error
            if name in CHECKS:
                CHECKS[name](case.chance, errors)
            elif name == "a writer after an error":
                failed_writer(case.chance, errors)
            else:
                short_calls(case.chance, run.directory / f"{case.number}")
                run.passed()


SUITE = Suite("errors of the disk", 20_000, run)
