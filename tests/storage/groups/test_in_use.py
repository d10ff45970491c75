"""GroupsInUse: coordinators and commands keep each other away from a group."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_commitlog.storage import GroupsInUse, LogManager
from tests.support.disk.memory_filesystem import MemoryFileSystem


@pytest.fixture(params=["local", "memory"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> LogManager:
    if request.param == "local":
        return LogManager.open(str(tmp_path / "log"), create=True)
    return LogManager.open("/log", create=True, filesystem=MemoryFileSystem())


def test_a_group_is_used_by_one(manager: LogManager) -> None:
    mine, other = GroupsInUse(manager), GroupsInUse(manager)
    assert mine.take("shop")
    assert mine.take("shop"), "it is mine"
    assert not other.take("shop")
    assert other.take("café \udcff"), "another group"
    mine.give("shop")
    assert other.take("shop")
    assert not mine.take("shop")
    mine.give("shop")
    assert not mine.take("shop"), "it is not mine to give"
    other.close()
    assert mine.take("shop")
    mine.close()


def test_a_process_that_ends_gives_its_groups_back(tmp_path: Path) -> None:
    program = f"""
from pyspark_commitlog.storage import GroupsInUse, LogManager
print(GroupsInUse(LogManager.open({str(tmp_path)!r}, create=True)).take("shop"), flush=True)
input()
"""
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic("orders", partitions=1)
        mine = GroupsInUse(manager)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([sys.executable, "-c", program], text=True, **pipes) as other:  # type: ignore[call-overload]
            assert other.stdout.readline() == "True\n"
            assert not mine.take("shop")
            other.kill()
        assert mine.take("shop")
        mine.close()
