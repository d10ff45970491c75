"""A gateway in a process of its own, that can be killed and started again."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pyspark_commitlog.storage import Address
from tests.support.ports import free_port


def memory_bytes(process: int | str = "self") -> int:
    """What a process has in memory now."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()


class Server:
    """``commitlog gateway`` on a port that stays."""

    def __init__(
        self,
        directory: Path | str,
        *,
        log: Path | None = None,
        environment: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        """``log``: by default beside the directory. ``environment``: besides that of this process.

        ``settings``: by Kafka's names, with ``_`` for ``.``.
        """
        self.address = Address("127.0.0.1", free_port())
        settings = {"group_initial_rebalance_delay_ms": 0, **settings}
        pairs = [f"--config={name.replace('_', '.')}={value}" for name, value in settings.items()]
        program = Path(sys.executable).with_name("commitlog")
        where = () if "listeners" in settings else ("--listen", self.bootstrap)
        self._command = [program, "gateway", "--log-dir", directory, *where, *pairs]
        self._environment = environment or {}
        self.log = log or Path(directory).with_suffix(".stderr")

    @property
    def bootstrap(self) -> str:
        return str(self.address)

    def start(self) -> None:
        with self.log.open("a") as errors:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, **self._environment}
            )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("listening"), self.log.read_text()[-2000:]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Stops the process (SIGSTOP) until :meth:`go_on`."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Lets the process continue."""
        self._process.send_signal(signal.SIGCONT)

    def check_log(self) -> None:
        """AssertionError if it logged an error of ours."""
        logged = self.log.read_text()
        assert "Traceback" not in logged, logged[-4000:]

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def memory_bytes(self) -> int:
        """What the process has in memory now."""
        return memory_bytes(self._process.pid)

    def descriptors(self) -> Counter[str]:
        """How many it has open of each kind, such as ``socket``; files of a directory are ``file``."""
        found: Counter[str] = Counter()
        for each in Path(f"/proc/{self._process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed in between
                kind, colon, _ = str(each.readlink()).partition(":")
                found[kind if colon else "file"] += 1
        return found
