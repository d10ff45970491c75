"""One log and one page for the tests of all modules: they only read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.browse import Visitor, hostile_log, visiting


@pytest.fixture(scope="session")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    return hostile_log(tmp_path_factory.mktemp("browse") / "log")


@pytest.fixture(scope="session")
def visitor(log_dir: str) -> Iterator[Visitor]:
    with visiting(log_dir) as visitor:
        yield visitor
