"""Checks whether a file system behaves as this engine needs it: call :func:`check_filesystem` before the first write.

docs/crash_safety.md lists the requirements. Each check works in a directory of its own below the one being checked,
with the operations that a log uses, and removes what it created.

Two properties cannot be checked:

- whether synced bytes survive a power cut: the check reports whether a sync succeeds, how long it takes, and whether
  mount options make it ineffective;
- whether locks work across machines, which depends on the server: the check locks two open files of this machine.
  To find out, run the check on one machine while another holds the lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol
from uuid import uuid4

from ..clock import Clock, SystemClock
from ..errors import StorageError
from ..filesystem.local import LocalFileSystem
from ..filesystem.operations import remove_tree
from ..filesystem.port import FileSystem, Lock, Mount
from ..format.files import file_names
from ..paths import local_path
from ..verdicts import Finding, Verdict

SYNCS = 20  # number of timed syncs
MEMORY_KINDS = ("tmpfs", "ramfs")
NETWORK_KINDS = ("nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "glusterfs", "lustre")
UNSAFE_OPTIONS = {  # option and its effect
    "nobarrier": "the disk may hold synced bytes in a cache that a power cut empties",
    "barrier=0": "the disk may hold synced bytes in a cache that a power cut empties",
    "volatile": "nothing is synced at all",
    "nolock": "locks keep out only this machine",
    "local_lock=all": "locks keep out only this machine",
    "local_lock=flock": "locks between writers keep out only this machine",
    "local_lock=posix": "locks against brokers keep out only this machine",
}


class CheckableFileSystem(FileSystem, Protocol):
    """A file system with two more operations, which only the check needs."""

    def lock_as_broker(self, path: str) -> Lock | None:
        """Takes the lock that a broker takes, without waiting; None if a writer holds it."""
        ...

    def mount(self, path: str) -> Mount:
        """Returns the mount that a path is on."""
        ...


class _TestDirectory(NamedTuple):
    """The directory in which one check creates its files."""

    filesystem: CheckableFileSystem
    directory: str
    clock: Clock

    def path(self, name: str) -> str:
        return file_names.join(self.directory, name)

    def put(self, name: str, data: bytes) -> None:
        with self.filesystem.open(self.path(name), "create") as file:
            file.write(0, data)
            file.sync()

    def get(self, name: str) -> bytes:
        with self.filesystem.open(self.path(name), "read") as file:
            return bytes(file.read(0, 1 << 16))


class _BrokenError(Exception):
    """The file system does not do what a check requires; the text states what it does."""


def check_filesystem(
    directory: str, *, filesystem: CheckableFileSystem | None = None, clock: Clock | None = None
) -> list[Finding]:
    """Checks, in a new directory in ``directory``, the properties that a log needs; returns a Finding per check.

    The checks are ``mount``, ``write and read``, ``rename``, ``remove while open``, ``names``, ``modification times``,
    ``locks between writers``, ``locks against brokers`` and ``sync``. A check during which the system reports an error
    has failed. Everything created is removed again. ``filesystem`` defaults to the local one.

    Raises StorageError if ``directory`` is missing or not writable, so that nothing can be checked.
    """
    filesystem, directory = filesystem or LocalFileSystem(), local_path(directory)
    parent = file_names.join(directory, f".fs-check-{uuid4().hex}")
    try:
        if filesystem.status(directory) is None:
            raise FileNotFoundError(f"there is no directory {directory}")
        filesystem.make_directory(parent)
    except OSError as error:
        raise StorageError(
            f"{directory}: the check needs an existing directory that it may write to: {error}"
        ) from error
    try:
        return [_checked(name, check, filesystem, parent, clock or SystemClock()) for name, check in _CHECKS.items()]
    finally:
        remove_tree(filesystem, parent)


def _checked(name: str, check: _Check, filesystem: CheckableFileSystem, parent: str, clock: Clock) -> Finding:
    tested = _TestDirectory(filesystem, file_names.join(parent, name.replace(" ", "-")), clock)
    try:
        filesystem.make_directory(tested.directory)
        verdict, detail = check(tested)
    except (_BrokenError, OSError) as error:
        return Finding(name, Verdict.FAILED, str(error))
    return Finding(name, verdict, detail)


def _expect(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise _BrokenError(otherwise)


_Answer = tuple[Verdict, str]
_Check = Callable[[_TestDirectory], _Answer]


def _check_mount(tested: _TestDirectory) -> _Answer:
    mount = tested.filesystem.mount(tested.directory)
    described = f"{mount.kind} of {mount.source}"
    if mount.kind in MEMORY_KINDS:
        return Verdict.WARNING, f"{described}: it is in memory, and a power cut deletes all of it"
    unsafe = [f"{option}: {UNSAFE_OPTIONS[option]}" for option in mount.options if option in UNSAFE_OPTIONS]
    if unsafe:
        return Verdict.WARNING, f"{described}, mounted with {'; '.join(unsafe)}"
    if mount.kind in NETWORK_KINDS:
        return Verdict.WARNING, f"{described}: only a check on two clients shows whether locks work between them"
    return Verdict.PASSED, described


def _check_bytes(tested: _TestDirectory) -> _Answer:
    """Checks that an open file sees another one's writes at once, and that a hole reads as zeros."""
    path = tested.path("file")
    with tested.filesystem.open(path, "create") as writer, tested.filesystem.open(path, "read") as reader:
        writer.write(5000, b"after a hole")
        _expect(bytes(reader.read(4998, 20)) == b"\0\0after a hole", "a reader does not see what was just written")
        writer.write(0, b"beginning")
        _expect(bytes(reader.read(0, 10)) == b"beginning\0", "a hole does not read as zeros")
        writer.truncate(4)
        writer.truncate(8)
        _expect(bytes(reader.read(0, 20)) == b"begi\0\0\0\0", "bytes that were cut off reappear")
        _expect(reader.size() == 8, "a reader sees another size than the one the writer set")
    return Verdict.PASSED, "a second open file sees writes and cuts at once, holes are zeros"


def _check_rename(tested: _TestDirectory) -> _Answer:
    tested.put("old", b"old")
    tested.put("new", b"new")
    wanted = tested.filesystem.status(tested.path("new"))
    with tested.filesystem.open(tested.path("old"), "read") as reader:
        tested.filesystem.rename(tested.path("new"), tested.path("old"))
        _expect(tested.filesystem.list(tested.directory) == ["old"], "a renamed file still has its old name too")
        _expect(tested.get("old") == b"new", "a rename does not replace the file that has the name")
        now = tested.filesystem.status(tested.path("old"))
        _expect(
            now is not None and wanted is not None and now.inode == wanted.inode,
            "a renamed file gets another inode: readers could not distinguish it from the one before",
        )
        _expect(bytes(reader.read(0, 10)) == b"old", "an open file changes when another takes its name")
    return Verdict.PASSED, "a rename replaces a file at once, and readers of the old one can continue"


def _check_removal(tested: _TestDirectory) -> _Answer:
    tested.put("file", b"still here")
    with tested.filesystem.open(tested.path("file"), "read") as reader:
        tested.filesystem.remove(tested.path("file"))
        _expect(tested.filesystem.status(tested.path("file")) is None, "a file that is open cannot be removed")
        _expect(bytes(reader.read(0, 10)) == b"still here", "an open file cannot be read any more once it is removed")
    return Verdict.PASSED, "a process that has a removed file open can still read it"


def _check_names(tested: _TestDirectory) -> _Answer:
    longest = file_names.partition_directory("t" * file_names.TOPIC_LENGTH_MAX, 12345)
    tested.filesystem.make_directory(tested.path(longest))
    tested.filesystem.make_directory(tested.path("Topic-0"))
    if tested.filesystem.status(tested.path("topic-0")) is not None:
        return Verdict.WARNING, "upper and lower case are not distinguished: topics that differ only in case clash"
    return Verdict.PASSED, f"names of {len(longest)} characters; upper and lower case are distinguished"


def _check_times(tested: _TestDirectory) -> _Answer:
    tested.put("file", b"")
    wanted_ms = 1_700_000_000_123
    tested.filesystem.set_modified(tested.path("file"), wanted_ms)
    status = tested.filesystem.status(tested.path("file"))
    _expect(status is not None and abs(status.modified_ms - wanted_ms) < 2000, "modification times are not kept")
    if status is not None and status.modified_ms != wanted_ms:
        return Verdict.WARNING, "modification times are kept only to the second: readers notice changes later"
    return Verdict.PASSED, "modification times are kept to the millisecond"


def _check_flock(tested: _TestDirectory) -> _Answer:
    """Checks flock with two open files of this process, which exclude each other like those of two processes."""

    def lock(*, exclusive: bool) -> Lock | None:
        return tested.filesystem.lock(tested.path("lock"), exclusive=exclusive, wait=False)

    with _taken(lock(exclusive=True), "a lock that nobody holds cannot be taken"):
        _expect(lock(exclusive=True) is None, "two writers hold the exclusive lock at once")
        _expect(lock(exclusive=False) is None, "an exclusive lock does not keep out a shared one")
    with (
        _taken(lock(exclusive=False), "a released lock cannot be taken"),
        _taken(lock(exclusive=False), "a shared lock excludes another shared one"),
    ):
        _expect(lock(exclusive=True) is None, "a shared lock does not keep out an exclusive one")
    return Verdict.PASSED, "flock excludes other open files, and admits them when it is released"


def _check_broker_locks(tested: _TestDirectory) -> _Answer:
    path = tested.path(file_names.LOCK_FILE)
    with _taken(tested.filesystem.lock_shared_with_broker(path), "the lock that writers share cannot be taken"):
        _taken(tested.filesystem.lock_shared_with_broker(path), "two writers cannot share a lock").release()
        _expect(tested.filesystem.lock_as_broker(path) is None, "a broker could start while the log is written to")
    with _taken(tested.filesystem.lock_as_broker(path), "a released lock cannot be taken"):
        _expect(
            tested.filesystem.lock_shared_with_broker(path) is None, "a log could be written to while a broker runs"
        )
    return Verdict.PASSED, "a broker's lock and a writer's exclude each other, in both directions"


def _taken(lock: Lock | None, otherwise: str) -> Lock:
    if lock is None:
        raise _BrokenError(otherwise)
    return lock


def _check_sync(tested: _TestDirectory) -> _Answer:
    started_ms = tested.clock.now_ms()
    for n in range(SYNCS):
        tested.put(f"{n}", b"x" * 4096)
        tested.filesystem.sync_directory(tested.directory)
    each_ms = (tested.clock.now_ms() - started_ms) / SYNCS
    detail = f"syncing a file of 4 KiB and its directory takes {each_ms:.1f} ms"
    if each_ms < 0.1:
        return Verdict.WARNING, f"{detail}: faster than disks are, so it may not reach the disk"
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
