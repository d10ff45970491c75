"""The recorded output of Kafka's tools for a broker's directory (tests/golden/tools), and that directory."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from pyspark_commitlog.storage import LogManager, alter_configs

GOLDEN = Path(__file__).parents[1] / "golden" / "tools"
SAID: dict[str, Any] = json.loads((GOLDEN / "said.json").read_text())
CONFIGS = {
    "orders": {"retention.ms": "-1", "segment.bytes": "16384"},
    "customers": {"cleanup.policy": "compact"},
}
T = 1_700_000_000_000  # of the first record, ms


def lines(name: str) -> list[str]:
    """Returns the standard output of a call."""
    return [line.rstrip() for line in SAID[name]["stdout"].splitlines()]


def calls(tool: str, code: int) -> list[str]:
    """Returns the names of a tool's calls with this exit code."""
    return [name for name, call in SAID.items() if call["tool"] == tool and call["exit"] == code]


def directory(target: Path, *, with_configs: bool = False) -> Path:
    """Returns the broker's log directory, on request with the configs of its topics, which a broker keeps elsewhere."""
    with tarfile.open(GOLDEN / "log.tar.xz") as packed:
        packed.extractall(target, filter="data")
    if with_configs:
        with LogManager.open(str(target / "log")) as manager:
            for topic, configs in CONFIGS.items():
                alter_configs(manager, topic, configs)
    return target / "log"


def contents(path: Path) -> dict[Path, tuple[int, bytes]]:
    """Returns every file with its time, to check that nothing was changed."""
    return {each: (each.stat().st_mtime_ns, each.read_bytes()) for each in sorted(path.rglob("*")) if each.is_file()}
