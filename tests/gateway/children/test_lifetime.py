"""Children of a gateway end with it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

PARENT = """
import sys, time
from pyspark_commitlog.gateway.children.lifetime import start_child
child = start_child(["-c", sys.argv[1]])
print(child.pid, flush=True)
time.sleep(600)
"""


CHILD = """
import time
from pyspark_commitlog.gateway.children.lifetime import end_with_parent
end_with_parent()
print("up", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_ends_when_its_parent_is_killed(number: signal.Signals) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = parent.stdout.readline().strip()
    assert parent.stdout.readline() == "up\n"
    assert os.path.exists(f"/proc/{pid}")
    parent.send_signal(number)
    assert parent.stdout.read() == ""  # its end comes when the child, which has the other end too, has ended
    parent.wait(30)
    parent.stdout.close()
