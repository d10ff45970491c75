"""The tests of the kernels once more, with the kernels as plain Python: both must do the same.

Compiled code checks no bounds; as plain Python over NumPy, an index outside an array is an IndexError.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MODULES = "bounds canonical position_entries spaced streams twins vectors"
OF_ROOMS = ("compaction/test_keys.py", "produce/test_requests.py")


@pytest.mark.only_all
def test_without_the_jit_all_holds_too() -> None:
    modules = [*(HERE / f"test_{name}.py" for name in MODULES.split()), *(HERE / name for name in OF_ROOMS)]
    options = ["-q", "-x", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "pytest", *options, *modules],
        cwd=HERE.parents[2],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
