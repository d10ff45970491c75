"""Disks and queries for tests of transactions."""

from __future__ import annotations

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from tests.support.disk.faulty_filesystem import FaultyFileSystem
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.transactions import (
    Query,
    make_topics,
    manage,
)


@pytest.fixture
def disk() -> MemoryFileSystem:
    disk = MemoryFileSystem()
    make_topics(disk)
    return disk


@pytest.fixture
def query(disk: MemoryFileSystem) -> Query:
    return Query.on(disk).start()


@pytest.fixture
def faulty(disk: MemoryFileSystem) -> tuple[FaultyFileSystem, Query]:
    """A query whose driver's disk fails on request; tasks have another disk."""
    filesystem = FaultyFileSystem(disk)
    manager = LogManager.open("/logs", clock=disk.clock, filesystem=filesystem)
    return filesystem, Query(filesystem, manager, manage(disk)).start()
