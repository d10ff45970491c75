"""How long a record takes from an append by the engine, as Spark does it, in another process, to a waiting consumer."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from benchmarks.rows import records
from pyspark_commitlog.storage import LogManager

APPENDS = 200
PAUSE_S = 0.02  # so that the consumer waits again
PATIENCE_S = 60


def seen_after(bootstrap: str, log_dir: Path, topic: str, appends: int = APPENDS) -> float:
    """Median seconds, the sync of the append included."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "auto.offset.reset": "earliest", "log_level": 3}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_append, args=(log_dir, topic, theirs))
    process.start()
    try:
        seconds = [_one(consumer, ours) for _ in range(appends + 1)]
    finally:
        ours.send(False)
        process.join()
        consumer.close()
    return statistics.median(seconds[1:])


def _one(consumer: Consumer, appender: Connection) -> float:
    consumer.poll(PAUSE_S)
    appender.send(True)
    record = consumer.poll(PATIENCE_S)
    seen_s = time.monotonic()
    if record is None or record.error():
        raise RuntimeError("an appended record was not seen")
    began_s: float = appender.recv()
    return seen_s - began_s


def _append(log_dir: Path, topic: str, asker: Connection) -> None:
    """Append a record for each question, and answer when the append began; the clock is that of the system."""
    with LogManager.open(str(log_dir)) as manager:
        log, row = manager.open_log(topic, 0), records(np.arange(1))
        while asker.recv():
            began_s = time.monotonic()
            log.append_records(row)
            asker.send(began_s)
