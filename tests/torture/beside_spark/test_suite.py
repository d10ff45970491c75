from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.only_all
def test_a_short_run_finds_no_difference(tmp_path: Path) -> None:
    """In a process of its own, because other tests share one session of Spark."""
    command = [sys.executable, "-m", "tests.torture", "beside-spark", "--count", "6", "--seed", "1"]
    done = subprocess.run(
        [*command, "--directory", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "6 queries and streams, 5 batch queries" in done.stdout
