"""What only the machine's file system can show: descriptors, short reads and writes, and other processes."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyspark_commitlog.storage.errors import LockHeldError
from pyspark_commitlog.storage.filesystem import local_file, locks
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.filesystem.locks import LocalLock


@contextmanager
def broker(path: str) -> Iterator[str]:
    """Another process that requests the lock like Java, reports whether it was granted, and holds it."""
    command = [sys.executable, "-c", BROKER, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate("stop")


BROKER = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("granted", flush=True)
    except OSError:
        print("refused", flush=True)
    sys.stdin.read()
"""


def re_path(path: object) -> str:
    return re.escape(str(path))


def test_a_new_file_respects_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        LocalFileSystem().open(str(tmp_path / "a"), "create").close()
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_create_does_not_follow_a_link_out_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError) as raised:  # noqa: PT011
        LocalFileSystem().open(str(tmp_path / "a"), "create")
    assert raised.value.errno == errno.ELOOP
    assert not (tmp_path / "elsewhere").exists()


def test_files_and_locks_are_not_passed_on_to_programs(tmp_path: Path) -> None:
    disk = LocalFileSystem()
    path = str(tmp_path / "a")
    lock = disk.lock(path)
    assert lock is not None
    script = (
        f"import os; f = '/proc/self/fd/'; print([n for n in os.listdir(f) if os.path.realpath(f + n) == {path!r}])"
    )
    with disk.open(path, "read"):
        answer = subprocess.run([sys.executable, "-c", script], close_fds=False, capture_output=True, check=True)
    lock.release()
    assert answer.stdout == b"[]\n"


def test_a_short_write_of_the_system_is_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwritev = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, data, position: pwritev(fd, [b"".join(data)[:3]], position))
    with LocalFileSystem().open(str(tmp_path / "a"), "create") as file:
        file.write(2, b"01", b"", b"2345", b"67", b"89")
    assert (tmp_path / "a").read_bytes() == b"\0\x000123456789"


def test_an_interrupted_large_write_leaves_what_was_written_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwritev = os.pwritev

    def filling(descriptor: int, data: list[memoryview], position: int) -> int:
        if position:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwritev(descriptor, [b"".join(data)[:12345]], position)

    monkeypatch.setattr(os, "pwritev", filling)
    data = random.Random(1).randbytes(1 << 20)
    with LocalFileSystem().open(str(tmp_path / "a"), "create") as file:
        with pytest.raises(OSError, match="No space left"):
            file.write(0, data)
        assert file.size() == 12345
    assert (tmp_path / "a").read_bytes() == data[:12345]


def test_a_write_too_large_for_one_system_call_is_complete(tmp_path: Path) -> None:
    data = random.Random(1).randbytes((5 << 20) + 1)
    with LocalFileSystem().open(str(tmp_path / "a"), "create") as file:
        file.write(3, data)
        file.write(3 + len(data), b"head", data, b"tail")
    assert (tmp_path / "a").read_bytes() == b"\0\0\0" + data + b"head" + data + b"tail"


@pytest.mark.parametrize("fallocate", [None, lambda *_: -1])
def test_a_large_write_needs_no_call_for_its_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fallocate: Callable[..., int] | None
) -> None:
    monkeypatch.setattr(local_file, "_fallocate", fallocate)
    data = random.Random(1).randbytes(1 << 20)
    with LocalFileSystem().open(str(tmp_path / "a"), "create") as file:
        file.write(3, data)
    assert (tmp_path / "a").read_bytes() == b"\0\0\0" + data


def test_a_short_read_of_the_system_is_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    pread, preadv = os.pread, os.preadv
    monkeypatch.setattr(os, "pread", lambda fd, length, position: pread(fd, min(length, 3), position))
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, position: preadv(fd, [buffers[0][:3]], position))
    with LocalFileSystem().open(str(tmp_path / "a"), "read") as file:
        assert bytes(file.read(1, 8)) == b"12345678"
        assert bytes(file.read(5, 100)) == b"56789"


def test_an_error_of_a_descriptor_names_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    disk = LocalFileSystem()
    with disk.open(str(tmp_path / "a"), "create") as file, pytest.raises(OSError, match=re_path(tmp_path / "a")):
        file.sync()
    with pytest.raises(OSError, match=re_path(tmp_path)):
        disk.sync_directory(str(tmp_path))


def test_the_file_system_of_a_directory_is_synced_and_no_other_one_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, real = list[int](), local_file._syncfs
    assert real is not None
    monkeypatch.setattr(os, "sync", lambda: pytest.fail("waited for all file systems"))
    LocalFileSystem().sync_all("/proc")  # by the C library: it has nothing to wait for there
    monkeypatch.setattr(local_file, "_syncfs", lambda descriptor: synced.append(os.fstat(descriptor).st_ino) or 0)
    LocalFileSystem().sync_all(str(tmp_path))
    assert synced == [tmp_path.stat().st_ino]


def test_all_file_systems_are_synced_where_the_c_library_cannot_sync_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[str]()
    monkeypatch.setattr(local_file, "_syncfs", None)
    monkeypatch.setattr(os, "sync", lambda: synced.append("all"))
    LocalFileSystem().sync_all(str(tmp_path))
    assert synced == ["all"]


def test_a_file_system_that_cannot_write_what_it_was_given_is_an_error_with_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: int) -> int:
        ctypes.set_errno(errno.EIO)
        return -1

    monkeypatch.setattr(local_file, "_syncfs", broken)
    with pytest.raises(OSError, match=f"sync the file system of: Input/output error.*{re_path(tmp_path)}"):
        LocalFileSystem().sync_all(str(tmp_path))


class Pauses:
    """A time that passes by waiting only."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, pause_s: float) -> None:
        self.now_s += pause_s


def taken(disk: LocalFileSystem, path: str, *, wait: bool = True) -> LocalLock:
    lock = disk.lock(path, wait=wait)
    assert lock is not None
    return lock


@pytest.mark.parametrize("wait", [True, False])
def test_a_lock_that_is_held_for_long_is_waited_for_once_until_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, wait: bool
) -> None:
    disk, path, time = LocalFileSystem(lock_waits_s={"lock": 2.0}), str(tmp_path / "lock"), Pauses()
    monkeypatch.setattr(locks, "time", time)
    for waited_s in (2.0, 4.0):
        with taken(LocalFileSystem(), path):
            for _ in range(3):
                with pytest.raises(LockHeldError, match="for more than 2 s"):
                    disk.lock(path)
        assert time.now_s == pytest.approx(waited_s)
        taken(disk, path, wait=wait).release()


def test_a_lock_whose_file_was_kept_open_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, path = LocalFileSystem(lock_waits_s={"lock": 2.0}), str(tmp_path / "lock")
    monkeypatch.setattr(locks, "time", Pauses())
    lock = taken(disk, path)
    lock.unlock()
    with taken(LocalFileSystem(), path), pytest.raises(LockHeldError):
        lock.lock_again()
    assert not lock.lock_again()
    taken(disk, path).release()


def test_a_lock_is_on_the_file_that_has_the_name_when_it_is_granted(tmp_path: Path) -> None:
    """The holder removes the file before releasing it: a waiting process must not get the lock of the removed file."""
    disk, path = LocalFileSystem(), str(tmp_path / "lock")
    holder = disk.lock(path)
    assert holder is not None
    granted: list[object] = []
    thread = threading.Thread(target=lambda: granted.append(disk.lock(path)))
    thread.start()
    thread.join(0.05)
    disk.remove(path)
    holder.release()
    thread.join()
    assert disk.lock(path, wait=False) is None
    assert os.path.samestat(os.fstat(granted[0]._descriptor), os.stat(path))  # type: ignore[attr-defined]
    granted[0].release()  # type: ignore[attr-defined]


@contextmanager
def forked_child(run: Callable[[], object] = lambda: None) -> Iterator[None]:
    """A child that lives as long as the block."""
    ready, begun = os.pipe()
    ended, end = os.pipe()
    child = os.fork()
    if child == 0:
        run()
        os.write(begun, b"x")
        os.read(ended, 1)
        os._exit(0)
    os.read(ready, 1)
    yield
    os.write(end, b"x")
    os.waitpid(child, 0)
    for descriptor in (ready, begun, ended, end):
        os.close(descriptor)


KINDS = {"flock": LocalFileSystem.lock, "as java": LocalFileSystem.lock_as_broker}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_releasing_frees_the_lock_although_a_child_was_forked_while_it_was_held(
    tmp_path: Path, kind: Callable[[LocalFileSystem, str], LocalLock | None]
) -> None:
    disk, path = LocalFileSystem(), str(tmp_path / "lock")
    lock = kind(disk, path)
    assert lock is not None
    with forked_child():
        lock.release()
        again = kind(disk, path)
    assert again is not None
    again.release()


def test_a_child_neither_holds_nor_releases_what_its_parent_locked(tmp_path: Path) -> None:
    disk, path = LocalFileSystem(), str(tmp_path / "lock")
    lock = disk.lock(path)
    assert lock is not None
    with forked_child(lock.release):
        assert disk.lock(path, wait=False) is None
    lock.release()


def test_locks_of_a_killed_process_are_free_although_its_child_lives(tmp_path: Path) -> None:
    path, alive = str(tmp_path / "lock"), str(tmp_path / "alive")
    program = f"""
import os, sys, time
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
lock = LocalFileSystem().lock({path!r})
if os.fork() == 0:
    open({alive!r}, "w").write(str(os.getpid()))
    time.sleep(60)
while not os.path.exists({alive!r}):
    time.sleep(0.01)
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    child = int(Path(alive).read_text())
    os.kill(child, 0)  # raises where it is gone
    lock = LocalFileSystem().lock(path, wait=False)
    os.kill(child, signal.SIGKILL)
    assert lock is not None
    lock.release()


def test_a_broker_and_we_keep_each_other_out(tmp_path: Path) -> None:
    """Java's FileChannel.lock is a process's POSIX lock: here another process takes it by lockf."""
    disk, path = LocalFileSystem(), str(tmp_path / ".lock")
    ours = disk.lock_shared_with_broker(path)
    assert ours is not None
    with broker(path) as answer:
        assert answer == "refused"
    disk.open(path, "read").close()  # would lose a plain POSIX lock
    with broker(path) as answer:
        assert answer == "refused"
    ours.release()
    with broker(path) as answer:
        assert answer == "granted"
        assert disk.lock_shared_with_broker(path) is None
    after = disk.lock_shared_with_broker(path)
    assert after is not None
    after.release()


def test_the_lock_of_this_process_does_not_count_as_a_brokers(tmp_path: Path) -> None:
    """Our own process's lockf has another owner than an open file description, so it conflicts too."""
    disk, path = LocalFileSystem(), str(tmp_path / ".lock")
    with open(path, "w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        assert disk.lock_shared_with_broker(path) is None


def test_a_held_descriptor_outlives_the_file_and_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"content")
    file = LocalFileSystem().open(str(path), "read")
    first, second = file.hold(), file.hold()
    assert first.descriptor == second.descriptor
    file.close()
    path.unlink()
    first.release()
    assert os.pread(second.descriptor, 7, 0) == b"content"
    second.release()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(second.descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.hold()


def test_a_released_descriptor_stays_that_of_the_open_file(tmp_path: Path) -> None:
    with LocalFileSystem().open(str(tmp_path / "a"), "create") as file:
        file.write(0, b"x")
        file.hold().release()
        assert bytes(file.read(0, 1)) == b"x"
        held = file.hold()
        assert os.pread(held.descriptor, 1, 0) == b"x"
        held.release()


def test_a_name_that_is_too_long_names_nothing(tmp_path: Path) -> None:
    assert LocalFileSystem().status(str(tmp_path / ("t" * 256))) is None
