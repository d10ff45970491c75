"""Whether a file system keeps what this engine builds on: :func:`check_filesystem`, before a first write.

What is asked of it is in docs/crash_safety.md. Each check works in a directory of its own below the one that is
checked, with the operations that a log uses, and removes what it made.

Two things cannot be proven here. That synced bytes outlive a power cut is only known by cutting the power: what is told
is whether syncing succeeds, how long it takes, and whether the mount says that it is for nothing. And locks are proven
between two open files of this machine; whether they reach other machines depends on the server: run the check on one
while another holds the lock.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol
from uuid import uuid4

from pyspark_commitlog.storage.clock import Clock, SystemClock
from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.filesystem import FileSystem, LocalFileSystem, Lock, Mount, remove_tree
from pyspark_commitlog.storage.format import names
from pyspark_commitlog.storage.paths import local_path

SYNCS = 20  # that are timed
MEMORY_KINDS = ("tmpfs", "ramfs")
NETWORK_KINDS = ("nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "glusterfs", "lustre")
UNSAFE_OPTIONS = {  # by option: what it takes away
    "nobarrier": "the disk may hold synced bytes in a cache that a power cut empties",
    "barrier=0": "the disk may hold synced bytes in a cache that a power cut empties",
    "volatile": "nothing is synced at all",
    "nolock": "locks keep out only this machine",
    "local_lock=all": "locks keep out only this machine",
    "local_lock=flock": "locks between writers keep out only this machine",
    "local_lock=posix": "locks against brokers keep out only this machine",
}


class Verdict(Enum):
    """What came of a check."""

    PASSED = "passed"
    WARNING = "warning"  # works, but see the detail
    FAILED = "failed"  # a log must not be kept here


class Finding(NamedTuple):
    """One check: its name, what came of it, and what was seen, in a sentence."""

    check: str
    verdict: Verdict
    detail: str

    def __str__(self) -> str:
        return f"{self.check}: {self.verdict.value}: {self.detail}"


class CheckableFileSystem(FileSystem, Protocol):
    """The port, and what only a check needs of it."""

    def lock_as_broker(self, path: str) -> Lock | None:
        """The exclusive lock of a broker, or None."""
        ...

    def mount(self, path: str) -> Mount:
        """What a path lies on."""
        ...


class _Place(NamedTuple):
    """Where a check works, alone."""

    filesystem: CheckableFileSystem
    directory: str
    clock: Clock

    def path(self, name: str) -> str:
        return names.join(self.directory, name)

    def put(self, name: str, data: bytes) -> None:
        with self.filesystem.open(self.path(name), "create") as file:
            file.write(0, data)
            file.sync()

    def get(self, name: str) -> bytes:
        with self.filesystem.open(self.path(name), "read") as file:
            return bytes(file.read(0, 1 << 16))


class _BrokenError(Exception):
    """The file system does not do what a check asks; the text says what it does."""


def check_filesystem(
    directory: str, *, filesystem: CheckableFileSystem | None = None, clock: Clock | None = None
) -> list[Finding]:
    """Prove, in a new directory below ``directory``, what a log needs of a file system; one Finding a check, in order.

    The checks are ``mount``, ``write and read``, ``rename``, ``remove while open``, ``names``, ``modification times``,
    ``locks between writers``, ``locks against brokers`` and ``sync``. A ``FAILED`` one says that no log must be kept
    there; a ``WARNING`` works, but with less safety or speed than the detail says. An error of the system in a check is
    its failure. Everything made is removed again. ``filesystem`` is the local one by default.

    Raises StorageError where ``directory`` is missing or cannot be written to, and so nothing can be checked.
    """
    filesystem, directory = filesystem or LocalFileSystem(), local_path(directory)
    work = names.join(directory, f".fs-check-{uuid4().hex}")
    try:
        if filesystem.status(directory) is None:
            raise FileNotFoundError(f"there is no directory {directory}")
        filesystem.make_directory(work)
    except OSError as error:
        raise StorageError(f"{directory}: nothing can be checked here: {error}") from error
    try:
        return [_checked(name, check, filesystem, work, clock or SystemClock()) for name, check in _CHECKS.items()]
    finally:
        remove_tree(filesystem, work)


def _checked(name: str, check: _Check, filesystem: CheckableFileSystem, work: str, clock: Clock) -> Finding:
    place = _Place(filesystem, names.join(work, name.replace(" ", "-")), clock)
    try:
        filesystem.make_directory(place.directory)
        verdict, detail = check(place)
    except (_BrokenError, OSError) as error:
        return Finding(name, Verdict.FAILED, str(error))
    return Finding(name, verdict, detail)


def _expect(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise _BrokenError(otherwise)


_Answer = tuple[Verdict, str]
_Check = Callable[[_Place], _Answer]


def _check_mount(place: _Place) -> _Answer:
    mount = place.filesystem.mount(place.directory)
    told = f"{mount.kind} of {mount.source}"
    if mount.kind in MEMORY_KINDS:
        return Verdict.WARNING, f"{told}: it lies in memory, a power cut leaves nothing of it"
    unsafe = [f"{option}: {UNSAFE_OPTIONS[option]}" for option in mount.options if option in UNSAFE_OPTIONS]
    if unsafe:
        return Verdict.WARNING, f"{told}, mounted with {'; '.join(unsafe)}"
    if mount.kind in NETWORK_KINDS:
        return Verdict.WARNING, f"{told}: whether locks reach its other clients, only a check on two of them tells"
    return Verdict.PASSED, told


def _check_bytes(place: _Place) -> _Answer:
    """What one open file writes, another sees at once, and a hole reads as zeros."""
    path = place.path("file")
    with place.filesystem.open(path, "create") as writer, place.filesystem.open(path, "read") as reader:
        writer.write(5000, b"behind a hole")
        _expect(bytes(reader.read(4998, 20)) == b"\0\0behind a hole", "a reader does not see what was just written")
        writer.write(0, b"beginning")
        _expect(bytes(reader.read(0, 10)) == b"beginning\0", "a hole does not read as zeros")
        writer.truncate(4)
        writer.truncate(8)
        _expect(bytes(reader.read(0, 20)) == b"begi\0\0\0\0", "bytes come back that were cut off")
        _expect(reader.size() == 8, "a reader is told another size than the writer made")
    return Verdict.PASSED, "a second open file sees writes and cuts at once, holes are zeros"


def _check_rename(place: _Place) -> _Answer:
    place.put("old", b"old")
    place.put("new", b"new")
    wanted = place.filesystem.status(place.path("new"))
    with place.filesystem.open(place.path("old"), "read") as reader:
        place.filesystem.rename(place.path("new"), place.path("old"))
        _expect(place.filesystem.list(place.directory) == ["old"], "a renamed file is there under its old name too")
        _expect(place.get("old") == b"new", "a rename does not replace the file that has the name")
        now = place.filesystem.status(place.path("old"))
        _expect(
            now is not None and wanted is not None and now.inode == wanted.inode,
            "a renamed file gets another inode: readers could not tell it from the one before",
        )
        _expect(bytes(reader.read(0, 10)) == b"old", "an open file changes when another takes its name")
    return Verdict.PASSED, "a rename replaces a file at once, readers of the old one go on"


def _check_removal(place: _Place) -> _Answer:
    place.put("file", b"still here")
    with place.filesystem.open(place.path("file"), "read") as reader:
        place.filesystem.remove(place.path("file"))
        _expect(place.filesystem.status(place.path("file")) is None, "a file that is open cannot be removed")
        _expect(bytes(reader.read(0, 10)) == b"still here", "an open file cannot be read on once it is removed")
    return Verdict.PASSED, "a removed file can be read on by who has it open"


def _check_names(place: _Place) -> _Answer:
    longest = names.partition_directory("t" * names.TOPIC_LENGTH_MAX, 12345)
    place.filesystem.make_directory(place.path(longest))
    place.filesystem.make_directory(place.path("Topic-0"))
    if place.filesystem.status(place.path("topic-0")) is not None:
        return Verdict.WARNING, "capitals and small letters are not told apart: topics that differ by case alone clash"
    return Verdict.PASSED, f"names of {len(longest)} characters, capitals and small letters told apart"


def _check_times(place: _Place) -> _Answer:
    place.put("file", b"")
    wanted_ms = 1_700_000_000_123
    place.filesystem.set_modified(place.path("file"), wanted_ms)
    status = place.filesystem.status(place.path("file"))
    _expect(status is not None and abs(status.modified_ms - wanted_ms) < 2000, "times of modification are not kept")
    if status is not None and status.modified_ms != wanted_ms:
        return Verdict.WARNING, "times of modification are kept to the second alone: readers notice changes later"
    return Verdict.PASSED, "times of modification are kept to the millisecond"


def _check_flock(place: _Place) -> _Answer:
    """Two open files of one process exclude each other by flock just as those of two do."""

    def lock(*, exclusive: bool) -> Lock | None:
        return place.filesystem.lock(place.path("lock"), exclusive=exclusive, wait=False)

    with _taken(lock(exclusive=True), "a lock that nobody holds is not to be had"):
        _expect(lock(exclusive=True) is None, "two writers hold the exclusive lock at once")
        _expect(lock(exclusive=False) is None, "an exclusive lock does not keep out a shared one")
    with (
        _taken(lock(exclusive=False), "a lock that was released is not to be had"),
        _taken(lock(exclusive=False), "a shared lock keeps out another"),
    ):
        _expect(lock(exclusive=True) is None, "a shared lock does not keep out an exclusive one")
    return Verdict.PASSED, "flock keeps out other open files, and lets them in when it is released"


def _check_broker_locks(place: _Place) -> _Answer:
    path = place.path(names.LOCK_FILE)
    with _taken(place.filesystem.lock_shared_with_broker(path), "the lock that writers share is not to be had"):
        _taken(place.filesystem.lock_shared_with_broker(path), "two writers cannot share a lock").release()
        _expect(place.filesystem.lock_as_broker(path) is None, "a broker could start while the log is written to")
    with _taken(place.filesystem.lock_as_broker(path), "a lock that was released is not to be had"):
        _expect(place.filesystem.lock_shared_with_broker(path) is None, "a log could be written to while a broker runs")
    return Verdict.PASSED, "a broker's lock and a writer's keep each other out, both ways"


def _taken(lock: Lock | None, otherwise: str) -> Lock:
    if lock is None:
        raise _BrokenError(otherwise)
    return lock


def _check_sync(place: _Place) -> _Answer:
    started_ms = place.clock.now_ms()
    for n in range(SYNCS):
        place.put(f"{n}", b"x" * 4096)
        place.filesystem.sync_directory(place.directory)
    each_ms = (place.clock.now_ms() - started_ms) / SYNCS
    detail = f"syncing a file of 4 KiB and its directory takes {each_ms:.1f} ms"
    if each_ms < 0.1:
        return Verdict.WARNING, f"{detail}: quicker than disks are, so perhaps it only looks so"
    return Verdict.PASSED, detail


_CHECKS: dict[str, _Check] = {
    "mount": _check_mount,
    "write and read": _check_bytes,
    "rename": _check_rename,
    "remove while open": _check_removal,
    "names": _check_names,
    "modification times": _check_times,
    "locks between writers": _check_flock,
    "locks against brokers": _check_broker_locks,
    "sync": _check_sync,
}
