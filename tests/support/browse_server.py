"""The page of ``commitlog browse``, served by a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = "from pyspark_commitlog.cli import main; main()"


@contextmanager
def browse_server(directory: Path) -> Iterator[tuple[str, int]]:
    """Serves the page of a log directory; yields its address, without a slash at the end, and the process's id."""
    command = [sys.executable, "-c", PROGRAM, "browse", "--log-dir", str(directory), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip().rstrip("/"), process.pid
        finally:
            process.terminate()


def own_bytes(process: int) -> int:
    """Memory that is a process's own, not that of mapped files; 0 after its end, until it is waited for."""
    text = Path(f"/proc/{process}/status").read_text()
    return sum(int(kib) * 1024 for kib in re.findall(r"^RssAnon:\s*(\d+) kB", text, re.MULTILINE))
