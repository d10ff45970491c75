"""Opening 1 GB of log that was not closed, compared with a broker; the log is in the page cache.

Records are uncompressed, with 16-byte keys and 100-byte values in batches of 16 KiB, in segments of 256 MiB. Nothing is
known to be synced, so both verify every batch and rebuild the indexes. Ours is one process without Spark. Kafka's time
is the one that the broker logs for this log, with the JVM options of its start script. Each has the machine to itself:
the broker is killed as soon as it has started, and its checkpoint is removed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import logs
from benchmarks.compaction import WarmBroker
from benchmarks.comparison import Comparison, Setting
from benchmarks.timing import alternate_told, time_call
from tests.support.kafka.broker import CLEAN_SHUTDOWN, Broker, move_in

RECORDS = 8_000_000
TOPIC = "recovery"
TOLD = rf"Completed load of Log\(dir=\S*{TOPIC}-0.*? in (\d+)ms"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"


def measure(setting: Setting) -> Iterator[Comparison]:
    partition = setting.directory / "source" / f"{TOPIC}-0"
    logs.write(partition, np.arange(setting.sized(RECORDS)))
    log_bytes = logs.log_bytes(partition)
    mine = shutil.copytree(partition, setting.directory / "mine")
    with WarmBroker(setting.directory / "broker") as broker:
        broker.start()
        move_in(broker, setting.directory / "source", {TOPIC: {"segment.bytes": str(logs.SEGMENT_BYTES)}})
        peers = {"ours": partial(recover, mine), "theirs": partial(let_recover, broker)}
        found = alternate_told(peers, setting.rounds)
    yield Comparison(
        "recovery of 1 GB", "Kafka's, in the page cache", **found, asked=3, work={"crc32c": float(log_bytes)}
    )


def recover(directory: Path) -> float:
    return time_call(partial(logs.recover, directory))


def let_recover(broker: Broker) -> float:
    """Seconds that the broker logs for loading the log after a crash."""
    for told_sound in (CLEAN_SHUTDOWN, RECOVERY_POINTS):
        (broker.log_dir / told_sound).unlink(missing_ok=True)
    broker.start()
    broker.kill()
    told = re.search(TOLD, broker.log_text())
    if told is None:
        raise ValueError(f"the broker logged nothing about {TOPIC}: {broker.problems()}")
    return int(told[1]) / 1e3
