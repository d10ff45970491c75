"""A disk for the coordinator of transactions."""

from __future__ import annotations

import pytest

from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.transactions import make_topics


@pytest.fixture
def disk() -> MemoryFileSystem:
    """A disk with the topics."""
    disk = MemoryFileSystem()
    make_topics(disk)
    return disk
