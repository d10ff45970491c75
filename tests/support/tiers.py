"""What three brokers 3.9.1 with tiered storage left behind: log directory, tier, and what their consumers read."""

from __future__ import annotations

import json
import lzma
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

from pyspark_commitlog.storage import Isolation
from tests.support.kafka.broker_dirs import Row, expected_rows
from tests.support.stores.memory_store import MemoryStore

GOLDEN = Path(__file__).parents[1] / "golden" / "tiered"
LAYOUTS = ("kafka", "aiven", "aiven-zstd")
TOPICS = ("t-codec", "t-delrec", "t-epochs", "t-local", "t-plain", "t-retention", "t-txn")


class Broker(NamedTuple):
    """The files of one broker."""

    log: Path
    tier: Path
    consumed: dict[str, Any]  # by partition and isolation level

    def rows(self, topic: str, isolation: Isolation) -> list[Row]:
        """What the consumer read."""
        return expected_rows(self.consumed[f"{topic}-0"][isolation.value]["records"])

    def log_start(self, topic: str) -> int:
        found: int = self.consumed[f"{topic}-0"][Isolation.READ_UNCOMMITTED.value]["beginningOffset"]
        return found


def broker(layout: str, target: Path) -> Broker:
    """Unpacks the files of one broker."""
    with tarfile.open(GOLDEN / f"{layout}.tar.xz") as packed:
        packed.extractall(target, filter="data")
    return Broker(
        target / "log", target / "tier", json.loads(lzma.decompress((target / "consumed.json.xz").read_bytes()))
    )


def store_with(folder: Path) -> MemoryStore:
    """Returns a store in memory that has the files below ``folder``."""
    store = MemoryStore()
    for path in folder.rglob("*"):
        if path.is_file():
            store.put(path.relative_to(folder).as_posix(), path.read_bytes())
    return store
