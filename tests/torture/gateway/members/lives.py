"""Members in processes of their own, and what is done to them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

from tests.torture.gateway.members.history import FOREVER_S, Life, read_notes

GROUP = "members"
SESSION_MS = 3000
MAX_POLL_MS = 4000
HEARTBEAT_MS = 300
LIMIT_S = 60.0
LEAVE_S = 20.0  # rests are shorter
CLASSIC: dict[str, Any] = {
    "group.protocol": "classic",
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": HEARTBEAT_MS,
}
CONSUMER: dict[str, Any] = {"group.protocol": "consumer"}
COMMON: dict[str, Any] = {
    "group.id": GROUP,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "max.poll.interval.ms": MAX_POLL_MS,
    "topic.metadata.refresh.interval.ms": 500,
    "reconnect.backoff.max.ms": 200,
    "fetch.wait.max.ms": 100,
    "log_level": 0,
}
# What a gateway needs so that sessions are as short as here.
SERVED: dict[str, object] = {
    "group_min_session_timeout_ms": 1000,
    "group_consumer_min_session_timeout_ms": 1000,
    "group_consumer_session_timeout_ms": SESSION_MS,
    "group_consumer_min_heartbeat_interval_ms": 100,
    "group_consumer_heartbeat_interval_ms": HEARTBEAT_MS,
    "offsets_topic_num_partitions": 3,
}


class Member:
    """A member's process; ``instance``: it is static by this id."""

    def __init__(
        self,
        name: str,
        directory: Path,
        bootstrap: str,
        chance: Random,
        topics: list[str],
        protocol: dict[str, Any],
        instance: str | None,
    ) -> None:
        self.name, self.protocol, self.instance = name, protocol, instance
        self._notes, self._errors = directory / f"{name}.notes", directory / f"{name}.stderr"
        self._killed_s, self.is_stopped = FOREVER_S, False
        static = {"group.instance.id": instance} if instance else {}
        settings = {"bootstrap.servers": bootstrap, **COMMON, **protocol, **static}
        given = {"path": str(self._notes), "settings": settings, "topics": topics, "seed": chance.randrange(1 << 30)}
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.torture.gateway.members.process", json.dumps(given)],
                stdin=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    @property
    def was_killed(self) -> bool:
        return self._killed_s < FOREVER_S

    def rest(self, seconds: float) -> None:
        """Keeps it from polling."""
        self._tell(f"rest {seconds}")

    def leave(self) -> None:
        """Lets it close its consumer and end."""
        self._tell("leave")

    def stop(self) -> None:
        """Stops the process until :meth:`go_on`."""
        self.is_stopped = True
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self.is_stopped = False

    def kill(self) -> None:
        """Kills the process; what it had not committed is for others."""
        self._process.kill()
        self._process.wait()
        self._killed_s = min(self._killed_s, time.monotonic())

    def has_left(self) -> bool:
        """Waits until it has left; kills it if it does not. AssertionError if it failed."""
        try:
            code = self._process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        assert code == 0, f"{self.name} failed: {self._errors.read_text()[-2000:]}"
        return True

    def end(self) -> None:
        """Kills it if it is there, at the end of a schedule."""
        if self._process.poll() is None:
            self.kill()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def life(self) -> Life:
        """What it has noted up to now."""
        return Life(self.name, read_notes(self._notes), self._killed_s)

    def _tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
