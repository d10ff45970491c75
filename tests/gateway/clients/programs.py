"""Programs of others that tests start, and what they print."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

TIMEOUT_S = 120
PROBLEMS = ("WARN", "ERR", "%3|", "%4|")  # the last two are librdkafka's for errors and warnings


def program(name: str, package: str) -> str:
    """Where a program is. A test fails without it, and says which ``package`` of Debian has it."""
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"no {name} in PATH: install it (Debian: apt-get install {package})", pytrace=False)
    return found


def printed(command: Sequence[str], *, stdin: str = "", cwd: Path | None = None, timeout_s: float = TIMEOUT_S) -> str:
    """What a program prints. It must succeed, and neither warn nor complain on standard error."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=cwd)
    problems = [line for line in done.stderr.splitlines() if any(each in line for each in PROBLEMS)]
    assert (done.returncode, problems) == (0, []), done.stdout + done.stderr
    return done.stdout
