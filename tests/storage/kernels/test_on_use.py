"""Kernels are imported on first use: numba takes longer than listing topics."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import pyspark_commitlog.storage.directory.manager
from pyspark_commitlog.storage.kernels import murmur2
print("numba" in sys.modules)
murmur2.murmur2
print("numba" in sys.modules)
"""


def test_numba_is_imported_with_the_first_kernel_and_not_before() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["False", "True"]
