"""The driver of Spark's part in a process of its own, killed with its JVM and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from pyspark_commitlog.storage import Isolation
from tests.torture.gateway.beside_spark.histories import History

ROOT = Path(__file__).parents[4]
ENDS_S = 240.0  # on a busy machine
PROGRAM = "tests.torture.gateway.beside_spark.spark_driver"


class Driver:
    """``written``: the numbers below it are in the topic, as the writing query was told."""

    def __init__(self, log: Path, home: Path) -> None:
        home.mkdir()
        self._arguments = [str(log), str(home)]
        self._home = home
        self.errors = home / "stderr"
        self.written = 0
        self.told_s = 0.0  # when it first reported progress; 0: not yet
        self._done = threading.Event()

    def start(self) -> None:
        self.told_s = 0.0
        with self.errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", PROGRAM, *self._arguments],
                cwd=ROOT,
                env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(ROOT / "conf")},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == "done":
                self._done.set()
            elif line.strip().isdigit():
                self.written = max(self.written, int(line))
                self.told_s = self.told_s or time.monotonic()

    @property
    def failure(self) -> str | None:
        """What it said last, if it has ended without being killed."""
        return None if self._process.poll() is None else self.errors.read_text()[-4000:]

    def kill(self) -> None:
        """The JVM and the Python beside it."""
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()

    def finish(self) -> None:
        """Ends the writing query, and waits until the others have read all."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._process.wait(ENDS_S)
        self._reader.join()
        assert self._done.is_set(), self.errors.read_text()[-4000:]

    def history(self, isolation: Isolation) -> History:
        history = History(f"Spark's stream, {isolation.value}", isolation)
        for file in sorted((self._home / isolation.value).glob("?????????")):
            for partition, offset, key, value in json.loads(file.read_text()):
                history.add(partition, offset, key.encode(), value.encode())
        return history
