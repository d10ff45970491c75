"""A plugin of pytest: the kernels of its process stay plain Python."""

from __future__ import annotations

import sys
from threading import Event

from pyspark_commitlog.storage.kernels.loading import compile_beside

compile_beside(lambda: Event().wait() and None, lambda: None)


def pytest_sessionfinish() -> None:
    assert "numba" not in sys.modules
