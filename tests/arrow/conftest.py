"""What the tests of Python without Spark share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A path at which a log directory may be created."""
    return str(tmp_path / "log")
