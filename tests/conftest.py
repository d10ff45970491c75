"""Settings for every test."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.spark import spark_jvm

# No test asserts a time: a kernel that compiles, or a busy machine, would fail it.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

os.environ.update(spark_jvm.ENVIRONMENT)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a shell's background; programs that tests start inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


FILES_MAX = 200  # so many open files, and a module's logs that were left to the collector are closed


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also run what only `make test-all` runs")
    parser.addoption("--matrix", action="store_true", help="also run what only `make test-matrix` runs")


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


def pytest_collection_finish() -> None:
    """Spares the collector what pytest collected: it runs by the number of objects, and beside those it would find the
    logs that tests left open too seldom for the usual limit of 1,024 open files.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if (
        nextitem is not None
        and nextitem.path != item.path
        and sum(1 for _ in Path("/proc/self/fd").iterdir()) > FILES_MAX
    ):
        gc.collect()
