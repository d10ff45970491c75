"""A gateway that lacks descriptors while its kernels are compiled: it goes on, says so once, and tries again."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.test_layering import ROOT

TIMEOUT_S = 120

# Its own thread, as the gateway starts it, meets errors where it opens files: while it looks for room, while it starts
# the child, while it imports (the nth file), and while it loads.
PROGRAM = """
import errno, logging, sys, threading
from pyspark_commitlog.gateway.children import kernels
from pyspark_commitlog.gateway.threads import kept
from pyspark_commitlog.gateway.threads.kept import thread_failures, unwell_threads
from pyspark_commitlog.storage import are_being_compiled

logging.basicConfig(stream=sys.stdout, format="LOG %(message)s")
kept.PAUSE_S = 0.01
event, number = sys.argv[1], int(sys.argv[2])
seen = 0

def meet(name, arguments):
    global seen
    if name == event and threading.current_thread().name == "gateway-kernels":
        seen += 1
        if number <= seen < number + 5:
            raise OSError(errno.EMFILE, "Too many open files")

kernels._compile_in_child = lambda: None
loaded = threading.Event()
load = kernels.load_kernels_beside.__globals__["load_kernels"]
kernels.load_kernels_beside.__globals__["load_kernels"] = lambda: (load(), loaded.set())
sys.addaudithook(meet)
kernels.compile_kernels_beside()
assert loaded.wait(100), "not started again"
assert not are_being_compiled()
from pyspark_commitlog.storage.kernels import murmur2
assert "plain" not in murmur2.partitions_of.__module__
assert thread_failures()["gateway-kernels"] >= 1
assert unwell_threads() == []
"""


@pytest.mark.parametrize(("event", "number"), [("open", 1), ("open", 100), ("open", 400), ("import", 60)], ids=str)
def test_the_thread_of_the_kernels_is_started_again_wherever_it_failed(event: str, number: int) -> None:
    command = [sys.executable, "-c", PROGRAM, event, str(number)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("LOG thread gateway-kernels failed and is started again") == 1
    assert "Too many open files" in done.stdout


NO_CHILD = """
import errno, logging, sys, threading
from pyspark_commitlog.gateway.children import kernels
from pyspark_commitlog.gateway.threads import kept
from pyspark_commitlog.storage import are_being_compiled

logging.basicConfig(stream=sys.stdout, format="LOG %(message)s")
kept.PAUSE_S = 0.01
tries = []

def start_child(*_, **__):
    tries.append(are_being_compiled())
    raise OSError(errno.EMFILE if len(tries) < 4 else errno.ENOENT, "no child")

kernels.start_child = start_child
loaded = threading.Event()
kernels.load_kernels_beside.__globals__["load_kernels"] = loaded.set
kernels.compile_kernels_beside()
assert loaded.wait(100)
assert tries == [True] * 4
"""


def test_a_child_that_cannot_be_started_for_now_is_started_again_and_one_that_never_can_is_done_without() -> None:
    command = [sys.executable, "-c", NO_CHILD]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kernels are compiled in this process" in done.stdout
