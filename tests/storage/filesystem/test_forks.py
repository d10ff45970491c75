"""Locks do not survive into the children of a process, and where one does, its holder is named."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pyspark_commitlog.storage import LogDirLockedError, LogManager, TransactionalIdLock
from pyspark_commitlog.storage.filesystem.holders import lock_holders
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.filesystem.locks import LocalLock
from pyspark_commitlog.storage.writing.locks import take_maintenance_lock
from tests.support.logs import building
from tests.support.waiting import soon
from tests.test_layering import FOLDERS, ROOT, sources

TIMEOUT_S = 60
FORKS = {
    "os.fork": "child = os.fork()",
    "os.forkpty": "child = os.forkpty()[0]",
    "multiprocessing": (
        "process = multiprocessing.get_context('fork').Process(target=time.sleep, args=(600,))\n"
        "process.start()\nchild = process.pid"
    ),
    "subprocess": "child = subprocess.Popen(['sleep', '600'], close_fds=False).pid",
    "preexec_fn": "child = subprocess.Popen(['sleep', '600'], close_fds=False, preexec_fn=os.setsid).pid",
}
UNKNOWN_TO_PYTHON = "child = ctypes.CDLL(None).fork()"
PROGRAM = """
import ctypes, multiprocessing, os, signal, subprocess, sys, time
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
files = LocalFileSystem()
held = [files.lock("flock"), files.lock("shared", exclusive=False), files.lock_shared_with_broker("broker")]
kept = files.lock("kept")
kept.unlock()
assert kept.lock_again()
locks = files.byte_locks("bytes")
assert locks.take(7)
{fork}
if not child:
    time.sleep(600)
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Callable[[str], int]]:
    """Runs a program that takes locks in the directory, forks and is killed; returns the id of its child."""
    with ExitStack() as stack:

        def run(fork: str) -> int:
            program = PROGRAM.format(fork=fork)
            with subprocess.Popen(
                [sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
            ) as process:
                assert process.stdout is not None
                child = int(process.stdout.readline())
                stack.callback(os.kill, child, signal.SIGKILL)
                assert process.wait(TIMEOUT_S) == -signal.SIGKILL
            return child

        yield run


def taken_soon(files: LocalFileSystem, path: str) -> LocalLock:
    """Takes a lock that is free, or will be after the first steps of a forked child."""
    taken = list[LocalLock]()
    soon(lambda: bool(taken.extend(filter(None, [files.lock(path, wait=False)])) or taken))
    return taken[0]


@pytest.mark.parametrize("fork", FORKS.values(), ids=FORKS.keys())
def test_no_lock_outlives_its_process_in_a_child(tmp_path: Path, killed: Callable[[str], int], fork: str) -> None:
    child, files = killed(fork), LocalFileSystem()
    os.kill(child, 0)  # it is there
    with ExitStack() as stack:
        for name in ("flock", "shared", "kept"):
            stack.enter_context(taken_soon(files, str(tmp_path / name)))
        broker = files.lock_as_broker(str(tmp_path / "broker"))
        assert broker is not None
        stack.enter_context(broker)
        locks = files.byte_locks(str(tmp_path / "bytes"))
        stack.callback(locks.close)
        assert locks.take(7)


def test_a_child_that_python_does_not_know_of_is_named(tmp_path: Path, killed: Callable[[str], int]) -> None:
    child = killed(UNKNOWN_TO_PYTHON)
    for name in ("flock", "shared", "kept", "broker", "bytes"):
        assert f"; the lock is held by process {child} (" in lock_holders(str(tmp_path / name))
    assert LocalFileSystem().lock(str(tmp_path / "flock"), wait=False) is None


def test_who_only_has_the_file_open_is_no_holder(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    assert lock_holders(path) == ""
    with open(path, "w"):
        assert lock_holders(path) == ""
        lock = LocalFileSystem().lock(path)
        assert lock is not None
        with lock:
            assert f"process {os.getpid()} (" in lock_holders(path)
        assert lock_holders(path) == ""


def test_errors_name_the_process_that_holds_a_lock(tmp_path: Path) -> None:
    log = building.open_log(tmp_path / "t-0")
    maintenance = take_maintenance_lock(log.context)
    with LogManager.open(str(tmp_path), create=True) as manager, maintenance:
        holder = rf"the lock is held by process {os.getpid()} \("
        with pytest.raises(LogDirLockedError, match=holder):
            take_maintenance_lock(log.context)
        with (
            TransactionalIdLock.take(manager, "job", "a query"),
            pytest.raises(LogDirLockedError, match=rf"in use by a query.*{holder}"),
        ):
            TransactionalIdLock.take(manager, "job")


RELEASING = """
import os
from pyspark_commitlog.storage import LogManager, TransactionalIdLock
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
with LogManager.open(".", create=True) as manager:
    lock = TransactionalIdLock.take(manager, "job")
    locks = LocalFileSystem().byte_locks("bytes")
    assert locks.take(7)
    child = os.fork()
    if not child:
        others = [os.open("other", os.O_CREAT | os.O_RDWR) for _ in range(50)]  # perhaps under the numbers of the locks
        locks.give(7)
        locks.close()
        lock.release()
        assert not locks.take(7)
        assert [os.write(each, b"x") for each in others] == [1] * 50
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    other = LocalFileSystem().byte_locks("bytes")
    assert not other.take(7)
    assert lock._manager.filesystem.status(lock._path) is not None
    lock.release()
    assert lock._manager.filesystem.status(lock._path) is None
"""


def test_a_child_that_ends_its_copies_of_locks_changes_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RELEASING], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_locks_are_taken_in_the_one_place_that_closes_them_in_children() -> None:
    others = [each for each in sources() if each.startswith(FOLDERS) and not each.startswith("storage/filesystem/")]
    assert [each for each in others if _names(each) & {"flock", "lockf", "F_SETLK", "F_SETLKW", "F_OFD_SETLK"}] == []


def _names(path: str) -> set[str]:
    return {node.attr for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.Attribute)}
