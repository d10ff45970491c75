"""Clients of librdkafka for the gateway's benchmark, each in a process of its own. They begin together."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.synchronize import Barrier

from confluent_kafka import Consumer, Producer, TopicPartition

PATIENCE_S = 120
FETCHED_AT_ONCE = 10_000
VALUE_BYTES = 1_000
RECORDS_A_TRANSACTION = 3
WARM_UP_TRANSACTIONS = 3
LOG_LEVEL = 3  # errors

Work = Callable[[], None]


def produce(bootstrap: str, topic: str, batch_bytes: int, records: int, *, clients: int = 4) -> float:
    """Seconds until each client has written ``records`` of 1 KB to its partition, with acks=all."""
    return _together(clients, partial(_prepare_producer, bootstrap, topic, batch_bytes, records))


def consume(bootstrap: str, topic: str, records: int, *, clients: int = 3) -> float:
    """Seconds until each client has read ``records`` from its partition."""
    return _together(clients, partial(_prepare_consumer, bootstrap, topic, records))


def transact(bootstrap: str, topic: str, partitions: int, transactions: int, *, producers: int) -> float:
    """Seconds a transaction, of all producers together; each transaction writes to three partitions."""
    work = partial(_prepare_transactions, bootstrap, topic, partitions, transactions, producers)
    return _together(1, work) / (transactions * producers)


def _together(clients: int, prepare: Callable[[int], Work]) -> float:
    """Seconds from the moment when all clients are ready until the last one is done."""
    context = multiprocessing.get_context("spawn")
    begin, done = context.Barrier(clients + 1), context.Barrier(clients + 1)
    processes = [context.Process(target=_client, args=(prepare, number, begin, done)) for number in range(clients)]
    for process in processes:
        process.start()
    begin.wait(PATIENCE_S)
    began_s = time.perf_counter()
    done.wait(PATIENCE_S)
    seconds = time.perf_counter() - began_s
    for process in processes:
        process.join()
    return seconds


def _client(prepare: Callable[[int], Work], number: int, begin: Barrier, done: Barrier) -> None:
    try:
        work = prepare(number)
        begin.wait(PATIENCE_S)
        work()
        done.wait(PATIENCE_S)
    except BaseException:
        begin.abort()
        done.abort()
        raise


def _common(bootstrap: str) -> dict[str, str | int]:
    return {"bootstrap.servers": bootstrap, "log_level": LOG_LEVEL}


def _prepare_producer(bootstrap: str, topic: str, batch_bytes: int, records: int, partition: int) -> Work:
    producer = Producer(
        {
            **_common(bootstrap),
            "acks": "all",
            "batch.size": batch_bytes,
            "linger.ms": 5 if batch_bytes < 2**17 else 20,
            "queue.buffering.max.messages": 100_000,
        }
    )
    value = os.urandom(VALUE_BYTES)

    def work() -> None:
        for _ in range(records):
            while True:
                try:
                    producer.produce(topic, value, partition=partition)
                except BufferError:
                    producer.poll(0.01)
                else:
                    break
        if producer.flush(PATIENCE_S):
            raise RuntimeError("not all records were written")

    producer.list_topics(topic, timeout=PATIENCE_S)
    return work


def _prepare_consumer(bootstrap: str, topic: str, records: int, partition: int) -> Work:
    consumer = Consumer(
        {
            **_common(bootstrap),
            "group.id": "none",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "queued.min.messages": 1_000_000,
        }
    )
    consumer.list_topics(topic, timeout=PATIENCE_S)

    def work() -> None:
        consumer.assign([TopicPartition(topic, partition, 0)])
        left = records
        while left > 0:
            read = consumer.consume(min(left, FETCHED_AT_ONCE), PATIENCE_S)
            if not read or any(each.error() for each in read):
                raise RuntimeError(f"{left} records are missing")
            left -= len(read)

    return work


def _prepare_transactions(
    bootstrap: str, topic: str, partitions: int, transactions: int, producers: int, _number: int
) -> Work:
    mine = [Producer({**_common(bootstrap), "transactional.id": f"{topic}-{n}"}) for n in range(producers)]
    pool = ThreadPoolExecutor(producers)

    def run(number: int, count: int) -> None:
        for _ in range(count):
            mine[number].begin_transaction()
            for each in range(RECORDS_A_TRANSACTION):
                mine[number].produce(topic, b"v" * 100, partition=(number + each) % partitions)
            mine[number].commit_transaction(PATIENCE_S)

    def run_all(count: int) -> None:
        for each in [pool.submit(run, number, count) for number in range(producers)]:
            each.result()

    for each in [pool.submit(one.init_transactions, PATIENCE_S) for one in mine]:
        each.result()
    run_all(WARM_UP_TRANSACTIONS)
    return partial(run_all, transactions)
