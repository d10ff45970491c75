"""The tests of the kernels once more, with the kernels as plain Python: both must do the same.

What is compiled checks no bounds; as plain Python over NumPy an index outside an array is an IndexError.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    "name",
    [
        "test_bounds.py",
        "test_keyed.py",
        "test_oddities.py",
        "test_plain.py",
        "test_spaced.py",
        "test_streams.py",
        "test_twins.py",
        "test_vectors.py",
    ],
)
def test_without_the_jit_all_holds_too(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(HERE / name)],
        cwd=HERE.parents[2],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
