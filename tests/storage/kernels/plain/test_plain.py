"""Kernels as plain Python, in a process that has not compiled them yet: the same results, and the same types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.storage.kernels import canonical, loading, murmur2, scan, streams
from pyspark_commitlog.storage.kernels.arrays import frozen

HERE = Path(__file__).parent
MODULES = "bounds canonical spaced streams twins"
RECORDS = frozen(np.frombuffer(bytes([7 << 1, 0, 0, 0, 1, 2, 97, 0]), np.uint8))


def ask() -> list[object]:
    found = np.zeros(1, np.int64)
    streams.measure(RECORDS, found, found, np.zeros(1, np.int16), rooms := found.copy())
    return [
        canonical.survey(RECORDS, 0, len(RECORDS), 0, 1, 5),
        murmur2.murmur2(b"key"),
        scan.read_i64(RECORDS, 0),
        scan.walk(RECORDS, 0, found, found.copy(), np.zeros(1, np.int8)),
        rooms.tolist(),
    ]


def run(*arguments: str) -> str:
    root = HERE.parents[3]
    done = subprocess.run(
        [sys.executable, *arguments], cwd=root, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.only_all
def test_the_tests_of_kernels_hold_before_they_are_compiled() -> None:
    modules = [str(HERE.parent / f"test_{name}.py") for name in MODULES.split()]
    run("-W", "error::RuntimeWarning", "-m", "pytest", "-qx", "-p", "no:cacheprovider", "-p", PLUGIN, *modules)


def test_the_results_have_the_types_of_compiled_kernels() -> None:
    assert run("-c", f"import {PLUGIN}, {__name__} as asking; print(asking.ask())").strip() == str(ask())


def test_a_call_that_would_take_long_waits_for_the_compiled_kernel() -> None:
    program = f"""
import sys, threading, numpy as np
from pyspark_commitlog.storage.kernels import loading, scan
going_on = threading.Event()
loading.compile_beside(lambda: going_on.wait() and None, lambda: None)
rows = np.zeros({loading.PLAIN_BYTES_MAX // 8 + 1}, np.int64)
ask = lambda: print(scan.spaced(rows, 0, 1, rows), "numba" in sys.modules)
asking = threading.Thread(target=ask)
asking.start()
print(scan.spaced(rows[:9], 0, 1, rows[:9]), "numba" in sys.modules, flush=True)
going_on.set()
asking.join()
"""
    assert run("-c", program).split() == ["0", "False", "0", "True"]


def test_a_forked_child_does_not_wait_for_its_parents_thread() -> None:
    program = f"""
import os, threading, numpy as np
from pyspark_commitlog.storage.kernels import loading, scan
loading.compile_beside(lambda: threading.Event().wait() and None, lambda: None)
rows = np.zeros({loading.PLAIN_BYTES_MAX // 8 + 1}, np.int64)
child = os.fork()
if child == 0:
    assert scan.spaced(rows, 0, 1, rows) == 0
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run("-c", program).split() == ["7"]


def test_kernels_are_compiled_beside_a_process_once() -> None:
    program = """
import threading
from pyspark_commitlog.storage.kernels import loading
loaded = threading.Event()
loading.compile_beside(lambda: print("compiled"), loaded.set)
assert loaded.wait(60)
loading.compile_beside(lambda: print("again"), loaded.set)
assert loading.are_imported()
"""
    assert run("-c", program).split() == ["compiled"]


PLUGIN = "tests.storage.kernels.plain.never_compiled"
