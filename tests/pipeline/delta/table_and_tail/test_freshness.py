"""An acknowledged record is in the answer of the next call, whatever acknowledged it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.pipeline.delta.table_and_tail.exported import flight
from tests.pipeline.delta.table_and_tail.placed import Placed
from tests.support.gateway import serving, serving_apart

TIMEOUT_S = 60.0
ROUNDS = 4
INTERNAL = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}


@pytest.mark.parametrize("writer", ["Spark", "gateway"])
@pytest.mark.parametrize("place", ["directory", pytest.param("object store", marks=pytest.mark.only_all)])
def test_acknowledged_record_is_in_the_next_answer(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, place: str, writer: str
) -> None:
    log = request.getfixturevalue("bucket") if place == "object store" else str(tmp_path / "log")
    topic = Placed(spark, tmp_path, log, str(tmp_path / "table"), "append")
    topic.write((b"key", flight("first", 0)))
    topic.export()
    carriers = ["first"]
    with (by_spark if writer == "Spark" else by_gateway)(topic) as acknowledged:
        for number in range(ROUNDS):
            carriers.append(f"round {number}")
            acknowledged(flight(carriers[-1], number))
            assert sorted(row.carrier for row in topic.both().collect()) == sorted(carriers)
            if number == ROUNDS // 2:
                topic.export()


@contextmanager
def by_spark(topic: Placed) -> Iterator[Callable[[bytes], None]]:
    yield lambda value: topic.write((b"key", value))


@contextmanager
def by_gateway(topic: Placed) -> Iterator[Callable[[bytes], None]]:
    """Yields what returns once the gateway has acknowledged a record; it shares nothing with what reads the log."""
    served = serving_apart if "://" in topic.log_dir else serving
    with served(topic.log_dir, **INTERNAL) as gateway:
        producer = Producer({"bootstrap.servers": gateway.bootstrap_servers, "acks": "all"})

        def acknowledged(value: bytes) -> None:
            failed: list[object] = []
            producer.produce(topic.name, value, partition=0, on_delivery=lambda error, _: failed.append(error))
            assert producer.flush(TIMEOUT_S) == 0
            assert failed == [None]

        yield acknowledged
