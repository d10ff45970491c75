"""The kernels of turns are loaded before the tests, so that these need not wait for a child."""

from __future__ import annotations

import pytest

from pyspark_commitlog.gateway.turns.loading import LOADING
from pyspark_commitlog.storage import ProduceTables


@pytest.fixture(scope="session", autouse=True)
def _loaded() -> None:
    ProduceTables().load()
    LOADING.is_done = True
