"""Testing a file system: a suitable one passes, and each broken requirement is found."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pyspark_commitlog.storage.directory.fs_check import check_filesystem
from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.filesystem.locks import LocalLock
from pyspark_commitlog.storage.filesystem.port import FileStatus, Mount
from pyspark_commitlog.storage.verdicts import Finding, Verdict
from tests.support.disk.memory_filesystem import MemoryFileSystem


def verdicts(findings: list[Finding]) -> dict[str, Verdict]:
    return {finding.check: finding.verdict for finding in findings}


def test_the_local_file_system_passes_and_nothing_remains(tmp_path: Path) -> None:
    findings = check_filesystem(str(tmp_path))
    assert [str(finding) for finding in findings if finding.verdict is Verdict.FAILED] == []
    assert [finding.check for finding in findings] == [
        "mount", "write and read", "rename", "remove while open", "names", "modification times",
        "locks between writers", "locks against brokers", "sync",
    ]  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_the_disk_in_memory_that_other_tests_use_keeps_the_same_promises() -> None:
    disk = MemoryFileSystem()
    disk.make_directory("/logs")
    findings = check_filesystem("/logs", filesystem=disk, clock=disk.clock)
    assert {finding.check for finding in findings if finding.verdict is not Verdict.PASSED} == {"sync"}  # in no time
    assert disk.list("/logs") == []


class TornRename(LocalFileSystem):
    def rename(self, source: str, target: str) -> None:
        with open(source, "rb") as new, open(target, "wb") as old:
            old.write(new.read())
        os.unlink(source)


class HalfRename(LocalFileSystem):
    def rename(self, source: str, target: str) -> None:
        os.unlink(target)
        os.link(source, target)


class NoLocks(LocalFileSystem):
    def lock(self, path: str, *, exclusive: bool = True, wait: bool = True) -> LocalLock | None:
        return super().lock(f"{path}-{os.urandom(4).hex()}", exclusive=exclusive, wait=wait)


class NoLocksAgainstBrokers(LocalFileSystem):
    def lock_as_broker(self, path: str) -> LocalLock | None:
        return super().lock_as_broker(path + "-of-java")


class LocksHeldForEver(LocalFileSystem):
    def lock(self, path: str, *, exclusive: bool = True, wait: bool = True) -> LocalLock | None:
        return None


class NoSync(LocalFileSystem):
    def sync_directory(self, path: str) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)


class Stale(LocalFileSystem):
    def status(self, path: str) -> FileStatus | None:
        found = super().status(path)
        return found if found is None else found._replace(modified_ms=found.modified_ms + 86_400_000)


class InMemory(LocalFileSystem):
    def mount(self, path: str) -> Mount:
        return Mount("tmpfs", "tmpfs", ("rw",))


class Unsafe(LocalFileSystem):
    def mount(self, path: str) -> Mount:
        return Mount("ext4", "/dev/sda1", ("rw", "nobarrier"))


@pytest.mark.parametrize(
    ("filesystem", "check", "verdict", "told"),
    [
        (TornRename(), "rename", Verdict.FAILED, "another inode"),
        (HalfRename(), "rename", Verdict.FAILED, "still has its old name"),
        (NoLocks(), "locks between writers", Verdict.FAILED, "two writers"),
        (LocksHeldForEver(), "locks between writers", Verdict.FAILED, "cannot be taken"),
        (NoLocksAgainstBrokers(), "locks against brokers", Verdict.FAILED, "a broker could start"),
        (NoSync(), "sync", Verdict.FAILED, "Invalid argument"),
        (Stale(), "modification times", Verdict.FAILED, "not kept"),
        (InMemory(), "mount", Verdict.WARNING, "in memory"),
        (Unsafe(), "mount", Verdict.WARNING, "nobarrier"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, LocalFileSystem) else "",
)
def test_each_broken_promise_is_found_and_only_it(
    tmp_path: Path, filesystem: LocalFileSystem, check: str, verdict: Verdict, told: str
) -> None:
    broken, sound = (check_filesystem(str(tmp_path), filesystem=each) for each in (filesystem, LocalFileSystem()))
    found = next(finding for finding in broken if finding.check == check)
    assert found.verdict is verdict
    assert told in found.detail
    changed = {each.check for each in broken if verdicts(sound)[each.check] is not each.verdict}
    assert changed - {"sync"} <= {check}  # how long a sync takes is the machine's
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="missing"):
        check_filesystem(str(tmp_path / "missing"))
