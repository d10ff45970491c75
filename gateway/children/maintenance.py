"""Maintenance: retention and compaction of the gateway's directory, by ``commitlog maintain`` in a child process.

The child opens the directory as any other process does, and takes the locks of the partitions, so requests do not wait
for it. If it is ended during a run, the next run continues, as after a crash. Of several gateways over one directory,
one maintains it; two at once do no harm.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from threading import Event

from ..threads.kept import KeptThread
from .lifetime import start_child

FIRST_AFTER_S = 30.0  # Kafka's initial delay; a gateway that ends earlier, as in tests, needs no maintenance
_PROGRAM = """
from pyspark_commitlog.gateway.children.lifetime import end_with_parent
end_with_parent()
from pyspark_commitlog.cli import main
main()
"""

logger = logging.getLogger(__name__)


class Maintenance:
    """A thread that keeps the child process running; failures are logged and counted."""

    def __init__(
        self,
        log_dir: str,
        interval_ms: int,
        *,
        compacts: bool,
        failed: Callable[[], None],
        claim: Callable[[], bool] = lambda: True,
    ) -> None:
        """``failed`` is called for each partition whose maintenance failed, and when the child itself does.

        ``claim``: called before a child is started; returns whether this gateway is the one that maintains the
        directory.
        """
        self._log_dir, self._interval_ms, self._compacts, self._failed = log_dir, interval_ms, compacts, failed
        self._claim = claim
        self._stopped = Event()
        self._has_lost = False  # the claim, since the child was started
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = KeptThread("gateway-maintenance", self._run)

    def start(self) -> None:
        """Starts the thread; the first run begins after an interval, or half a minute if that is shorter."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the child and the thread."""
        self._stopped.set()
        self._kill()
        self._thread.join()

    def lose_claim(self) -> None:
        """Ends the child, because another gateway may maintain the directory now. For any thread."""
        self._has_lost = True
        self._kill()

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()

    def _run(self) -> None:
        interval_s = self._interval_ms / 1000
        first_s = min(interval_s, FIRST_AFTER_S)
        pause_s = first_s
        while not self._stopped.wait(pause_s):
            self._has_lost = False
            if not self._claim():
                pause_s = first_s
                continue
            try:
                ended = self._maintain()
            except OSError as error:
                ended = str(error)
            if not (self._stopped.is_set() or self._has_lost):
                logger.error("maintenance of %s ended unexpectedly and will be started again: %s", self._log_dir, ended)
                self._failed()
            pause_s = max(interval_s, FIRST_AFTER_S)

    def _maintain(self) -> str:
        """Runs the child until it ends; returns its exit code and its last line, for the log."""
        settings, given = os.pipe()
        with os.fdopen(given, "w") as file:
            file.write(self._settings())  # shorter than a pipe's buffer
        try:
            flags = ["--conf", f"/dev/fd/{settings}", "--log-dir", self._log_dir, "--json"]
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "pass_fds": [settings]}
            self._child = child = start_child(["-c", _PROGRAM, "maintain", *flags], **streams)
        finally:
            os.close(settings)
        if self._stopped.is_set() or self._has_lost:
            child.kill()
        last = ""
        with child:
            assert child.stdout is not None  # a pipe, above
            for line in child.stdout:
                last = line.decode(errors="replace").strip()
                self._note(last)
        return f"exit code {child.returncode}, {last!r}"

    def _settings(self) -> str:
        operations = ["retain", "compact"] if self._compacts else ["retain"]
        return "".join(f'[{each}]\nevery = "{self._interval_ms} milliseconds"\n' for each in operations)

    def _note(self, line: str) -> None:
        """Logs and counts a line of the child's output that reports a failure; ignores the others."""
        with suppress(ValueError):
            outcome = json.loads(line)
            if outcome["status"] != "done":
                where = f"{outcome['topic']}-{outcome['partition']}" if outcome["topic"] else self._log_dir
                logger.error("maintenance of %s: %s: %s", where, outcome["status"], outcome.get("error", ""))
                self._failed()
