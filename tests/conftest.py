"""Settings for every test."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support.spark import spark_jvm

# No test asserts a time: a kernel that compiles, or a busy machine, would fail it.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

os.environ.update(spark_jvm.ENVIRONMENT)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of several processes each gets the modules with slow tests first, or one would be left with them at the end."""
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: item.path not in slow)
