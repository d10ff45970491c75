"""Rates of clients with quotas, and of others beside them, over the same minute, at our gateway.

A producer and a consumer of librdkafka have a quota of 1 MB/s each and want more. Another producer sends 10 MB/s,
which another consumer reads as they come.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks import gateway_clients
from benchmarks.comparison import Comparison, Ratio, Setting
from benchmarks.gateway_servers import Gateway
from benchmarks.timing import Timing

MINUTE_S = 60
QUOTA, OFFERED = 1_000_000, 10_000_000  # bytes per second
OFF_BY = 0.05  # of a quota, at most
KEPT = 0.95  # of what others offer, at least
LIMITED, FREE, FILLED, STREAM = "limited", "free", "filled", "stream"  # client ids, and topics
VALUE = os.urandom(gateway_clients.VALUE_BYTES)
READY_S, PATIENCE_S = 10, 120
POLL_S = 0.01


def measure(setting: Setting) -> Iterator[Comparison]:
    seconds = setting.sized(MINUTE_S)
    with Gateway(setting.directory / "ours", {"commitlog.quotas.file": _quotas(setting.directory)}) as server:
        for topic in (LIMITED, FILLED):
            server.create(topic)
        needed = 2 * seconds * QUOTA // len(VALUE)
        gateway_clients.produce(server.bootstrap, FILLED, 2**18, needed, clients=1)
        found = [_together(server, f"{STREAM}-{number}", seconds) for number in range(setting.rounds)]
    limit = Timing.of([seconds * OFF_BY])
    for what, used in (("producer", 0), ("consumer", 1)):
        off = Timing.of([abs(round[used] / QUOTA - seconds) for round in found])
        told = f"quota that a {what} at 1 MB/s uses too much or too little of in a minute"
        yield Comparison(told, f"{OFF_BY:.0%}", off, limit, 1.0, 0.5, Ratio.SLOWER)
    for what, took in (("producer sends", 2), ("consumer reads", 3)):
        told = f"a {what} a minute of 10 MB/s beside clients at their quotas"
        yield Comparison(told, "a minute", Timing.of([each[took] for each in found]), Timing.of([seconds]), KEPT)


def _quotas(directory: Path) -> str:
    """The path of a file that gives the limited clients their quotas."""
    values = {"producer_byte_rate": QUOTA, "consumer_byte_rate": QUOTA}
    path = directory / "quotas.json"
    path.write_text(json.dumps({"version": 1, "quotas": [{"entity": {"client-id": LIMITED}, "values": values}]}))
    return str(path)


def _together(server: Gateway, stream: str, seconds: int) -> list[float]:
    """The bytes of the limited producer and consumer, and the seconds of the others, who begin together."""
    server.create(stream)
    tasks: list[Callable[..., float]] = [_limited_producer, _limited_consumer, _producer, _consumer]
    with multiprocessing.get_context("spawn").Pool(len(tasks)) as pool:
        begin_s = time.time() + READY_S
        waiting = [pool.apply_async(task, (server.bootstrap, stream, begin_s, seconds)) for task in tasks]
        return [each.get(READY_S + seconds + PATIENCE_S) for each in waiting]


def _limited_producer(bootstrap: str, _stream: str, begin_s: float, seconds: int) -> float:
    """The bytes of the values that were acknowledged in time."""
    producer, sent = _producer_of(bootstrap, LIMITED), 0

    def on_delivery(error: Any, _message: Any) -> None:
        nonlocal sent
        sent += 0 if error else len(VALUE)

    _until(begin_s)
    while time.time() < begin_s + seconds:
        try:
            producer.produce(LIMITED, VALUE, on_delivery=on_delivery)
        except BufferError:
            producer.poll(POLL_S)
    producer.purge()
    return sent


def _limited_consumer(bootstrap: str, _stream: str, begin_s: float, seconds: int) -> float:
    """The bytes of the values that were read in time."""
    consumer, read = _consumer_of(bootstrap, LIMITED), 0
    _until(begin_s)
    consumer.assign([TopicPartition(FILLED, 0, 0)])
    while time.time() < begin_s + seconds:
        read += sum(len(each.value() or b"") for each in consumer.consume(1_000, POLL_S) if not each.error())
    return read


def _producer(bootstrap: str, stream: str, begin_s: float, seconds: int) -> float:
    """The seconds until all was acknowledged that was offered at its rate."""
    producer, step = _producer_of(bootstrap, FREE), OFFERED // 100 // len(VALUE)
    _until(begin_s)
    for number in range(seconds * 100):
        _until(begin_s + number / 100)
        for _ in range(step):
            producer.produce(stream, VALUE)
        producer.poll(0)
    if producer.flush(PATIENCE_S):
        raise RuntimeError("not all records were written")
    return time.time() - begin_s


def _consumer(bootstrap: str, stream: str, begin_s: float, seconds: int) -> float:
    """The seconds until all of it was read."""
    consumer, left = _consumer_of(bootstrap, FREE), seconds * 100 * (OFFERED // 100 // len(VALUE))
    _until(begin_s)
    consumer.assign([TopicPartition(stream, 0, 0)])
    while left and time.time() < begin_s + seconds + PATIENCE_S:
        left -= sum(not each.error() for each in consumer.consume(min(left, 10_000), POLL_S))
    return time.time() - begin_s


def _producer_of(bootstrap: str, client_id: str) -> Producer:
    settings = {"queue.buffering.max.messages": 10_000 if client_id == LIMITED else 1_000_000}
    return Producer({**_common(bootstrap, client_id), **settings, "linger.ms": 20, "batch.size": 100_000})


def _consumer_of(bootstrap: str, client_id: str) -> Consumer:
    return Consumer({**_common(bootstrap, client_id), "group.id": "none", "enable.auto.commit": False})


def _common(bootstrap: str, client_id: str) -> dict[str, str | int]:
    return {"bootstrap.servers": bootstrap, "client.id": client_id, "log_level": 3}


def _until(at_s: float) -> None:
    time.sleep(max(0.0, at_s - time.time()))
