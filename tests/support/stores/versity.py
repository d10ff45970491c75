"""versitygw, an object store for tests whose losers of a race do not wait: Go builds it once per user.

It is in ``spark-commitlog/versitygw-1.8.0`` under ``$XDG_CACHE_HOME`` or ``~/.cache``; building it takes minutes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from tests.support.stores.server import KEY, SECRET, StoreServer, answers

RELEASE = "v1.8.0"
MODULE = f"github.com/versity/versitygw/cmd/versitygw@{RELEASE}"
BUILD_TIMEOUT_S = 1800


class VersityGateway(StoreServer):
    """versitygw over a directory of this machine."""

    def _command(self) -> list[str]:
        (self.home / "buckets" / "logs").mkdir(parents=True, exist_ok=True)
        return [str(built()), "--port", f"127.0.0.1:{self.port}", "--quiet", "posix", str(self.home / "buckets")]

    def _settings(self) -> dict[str, str]:
        return {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}

    def _has_bucket(self) -> bool:
        return answers(f"http://127.0.0.1:{self.port}/logs/none", "GET")


def built() -> Path:
    """Returns the program, which is built if this user has not got it. Raises RuntimeError without Go."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spark-commitlog"
    folder = cache / f"versitygw-{RELEASE.removeprefix('v')}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process builds
        if not (folder / "versitygw").exists():
            _build(folder)
    return folder / "versitygw"


def _build(folder: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise RuntimeError("versitygw is built by Go, which is missing: install Debian's golang-go, 1.24 or newer")
    environment = {**os.environ, "GOBIN": str(folder / "new"), "GOFLAGS": "-mod=mod"}
    command = [go, "install", MODULE]
    done = subprocess.run(
        command, env=environment, timeout=BUILD_TIMEOUT_S, check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"versitygw was not built:\n{done.stderr[-2000:]}")
    (folder / "new" / "versitygw").rename(folder / "versitygw")
