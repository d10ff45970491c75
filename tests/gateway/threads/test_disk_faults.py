"""DiskFaults: what the log says of a disk that fails."""

from __future__ import annotations

import errno
import os

import pytest

from pyspark_commitlog.gateway.threads.disk_faults import AGAIN_S, QUIET_S, DiskFaults
from pyspark_commitlog.storage import StorageError

FULL = "the disk of full/log is full (ENOSPC): produce requests get KAFKA_STORAGE_ERROR until there is space"
WORKS = "the disk of full/log works again: produce requests are served"


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def faults(clock: Clock) -> DiskFaults:
    return DiskFaults("full/log", clock)


def raised(number: int) -> StorageError:
    error = StorageError("full/log/t-0: a write failed; open the log again to recover")
    error.__cause__ = OSError(number, os.strerror(number))
    return error


def test_a_full_disk_is_one_line_and_so_is_its_end(
    faults: DiskFaults, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        faults.failed(raised(errno.ENOSPC))
        faults.worked()  # a small batch still had room
        clock.now_s += QUIET_S / 2
    assert [(each.levelname, each.message) for each in caplog.records] == [("ERROR", FULL)]
    clock.now_s += QUIET_S
    faults.worked()
    faults.worked()
    assert caplog.messages == [FULL, WORKS]


def test_a_disk_that_stays_full_is_reported_again(
    faults: DiskFaults, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    faults.failed(raised(errno.ENOSPC))
    clock.now_s += AGAIN_S
    faults.failed(raised(errno.ENOSPC))
    assert caplog.messages == [FULL, FULL]


@pytest.mark.parametrize(
    ("number", "what"),
    [
        (errno.EIO, "the disk of full/log fails (EIO)"),
        (errno.EROFS, "the file system of full/log is read-only (EROFS)"),
        (errno.EDQUOT, "the quota of full/log is used up (EDQUOT)"),
    ],
)
def test_each_fault_has_its_reason(
    faults: DiskFaults, number: int, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    faults.failed(raised(number))
    assert caplog.messages[0].startswith(what)


def test_what_is_no_fault_of_the_disk_is_not_reported(faults: DiskFaults, caplog: pytest.LogCaptureFixture) -> None:
    for error in (None, ValueError("ours"), raised(errno.ENOENT), StorageError("an earlier failure")):
        faults.failed(error)
    faults.worked()
    assert caplog.messages == []
