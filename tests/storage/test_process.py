"""What a process of ours asks of its system."""

from __future__ import annotations

import subprocess
import sys

FREEING = """
import resource
import numpy as np
from pyspark_commitlog.storage import keep_freed_memory

def faults() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    room = [np.empty(size, dtype=np.uint8) for size in (31_000_000, 30_000_000)]  # asked for, but not filled
    arrays = [np.ones(size, dtype=np.uint8) for size in (8_000_000, 7_000_000, 1_000_000, 500_000)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory(2**27)
print(faults(), faults(), faults())
"""


def test_a_process_reuses_memory_that_it_freed() -> None:
    told = subprocess.run([sys.executable, "-c", FREEING], capture_output=True, text=True, check=True).stdout
    first, second, third = map(int, told.split())
    assert first > 100, "16.5 MB are 4,000 pages, or some large and many small ones"
    assert max(second, third) < first / 20
