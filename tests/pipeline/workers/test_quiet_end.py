"""Workers of ``pyspark.daemon`` that ran our code end without a traceback when Spark closes the connection."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pyspark_commitlog.pipeline.workers.quiet_end import PLAIN_DAEMON, end_quietly

# A process like one that pyspark.daemon forked: the first task loads the data source, the second call finds no reader.
FORKED = """
import sys
from importlib.util import spec_from_loader
__spec__ = spec_from_loader(sys.argv[1], None)
tasks = 0
class Unflushed:  # as the buffer of a file, which Python 3.13 reports
    def __del__(self):
        raise BrokenPipeError
def worker(sock, authenticated):
    global tasks
    tasks += 1
    if tasks == 1:
        from pyspark_commitlog import CommitLogDataSource
        return 0
    file = Unflushed()
    raise BrokenPipeError
print(worker(None, True), worker(None, True))
"""


@pytest.mark.parametrize(("module", "ends_quietly"), [(PLAIN_DAEMON, True), ("someone.elses", False)])
def test_a_worker_that_loaded_the_data_source_ends_without_a_traceback(module: str, ends_quietly: bool) -> None:
    done = subprocess.run([sys.executable, "-c", FORKED, module], capture_output=True, text=True, check=False)
    assert (done.stdout, "BrokenPipeError" in done.stderr) == (("0 1\n", False) if ends_quietly else ("", True))


def test_a_users_own_process_is_left_as_it_is() -> None:
    before = dict(vars(sys.modules["__main__"]))
    end_quietly()
    assert vars(sys.modules["__main__"]) == before
