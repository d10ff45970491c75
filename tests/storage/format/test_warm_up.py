"""Kernels loaded in advance, for processes that are forked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import gc, sys
from numba.core.dispatcher import Dispatcher
from pyspark_commitlog import read_table
from pyspark_commitlog.storage import BatchFields, LogManager, Records, encode_batches, load_kernels, partitions_of

def loaded():
    found = (each for each in gc.get_objects() if isinstance(each, Dispatcher))
    return {f"{each.py_func.__qualname__}{signature}" for each in found for signature in each.overloads}

load_kernels()
before = loaded()
assert before
records = Records.to_append([b"k", None], [None, b"v"], 1_700_000_000_000, [(b"h", None)])
partitions_of(records.keys, 3)
with LogManager.open(sys.argv[1], create=True) as manager:
    manager.create_topic("t", partitions=1)
    manager.open_log("t", 0).append_encoded(encode_batches(records, BatchFields(), batch_bytes_max=1 << 20))
assert len(read_table(sys.argv[1], "t", start=1_600_000_000_000, by="timestamp")) == 2
print(*sorted(loaded() - before), sep="\\n")
"""


def test_writing_and_reading_a_log_needs_no_other_kernel(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
