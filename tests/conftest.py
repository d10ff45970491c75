"""Settings for every test."""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.support.spark import spark_jvm

# No test asserts a time: a kernel that compiles, or a busy machine, would fail it.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

os.environ.update(spark_jvm.ENVIRONMENT)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a shell's background; programs that tests start inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also run what only `make test-all` runs")
    parser.addoption("--matrix", action="store_true", help="also run what only `make test-matrix` runs")


def pytest_collection_finish() -> None:
    """Lets no later garbage collection look at what collecting the tests has made, millions of objects that stay."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what only ``--all`` runs, and gives each of several processes the modules with slow tests first, or
    one would be left with them at the end.
    """
    for option, mark in (("--all", "only_all"), ("--matrix", "matrix")):
        if not config.getoption(option):
            left_out = [item for item in items if item.get_closest_marker(mark)]
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not item.get_closest_marker(mark)]
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: item.path not in slow)
