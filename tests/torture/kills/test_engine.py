"""A short torture, and what a real broker and its clients make of the directory that it leaves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.pipeline.demo.flights import NAMES
from pyspark_commitlog.storage import COORDINATOR_TOPICS
from tests.support.kafka.broker import Broker, ProducerRecord, Step, dump_log, java_consume, java_produce, mount
from tests.torture.kills.ingest import TOPIC, Work, input_rows, row_of, write_input
from tests.torture.kills.spark import torture

# Each kind of kill, and a query that ends for it: three starts of Spark, if the machine is not too slow for the seed.
KILLS, ROWS, SEED = 4, 3000, 33
pytestmark = [pytest.mark.slow, pytest.mark.only_all]


def line(number: int) -> str:
    flight = dict.fromkeys(NAMES, "1") | {
        "carrier": "UA",
        "flight": str(number % 40),
        "dep_time": str(number),
        "tailnum": "NA" if number % 9 == 0 else f"N{number}",
        "time_hour": "2013-01-01T10:00:00Z",
    }
    return ",".join(flight.values())


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    """After the kills, and a comparison of the topic with the input: the last round's directory."""
    work = Work(tmp_path_factory.mktemp("torture"))
    write_input(work.path / "input", map(line, range(ROWS)), rows_a_file=300)
    tally = torture(work, KILLS, SEED)
    assert tally.total == KILLS
    assert tally.rows >= ROWS
    return Work(work.path, tally.rounds - 1)


@pytest.fixture(scope="module")
def broker(work: Work, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        broker.start()
        mount(broker, work.log, {TOPIC: {"retention.ms": "-1"}, **COORDINATOR_TOPICS}, clean=False)
        yield broker


def consumed(broker: Broker) -> Counter[tuple[object, ...]]:
    return Counter(row_of(json.loads(each.value or b"")) for each in java_consume(broker.bootstrap, TOPIC))


def test_java_consumer_sees_exactly_the_input_and_a_java_producer_goes_on(work: Work, broker: Broker) -> None:
    expected = input_rows(work.path / "input")
    assert consumed(broker) == expected
    steps = [Step.BEGIN, ProducerRecord(b'{"dep_time": -1}', partition=0), Step.COMMIT]
    java_produce(broker.bootstrap, TOPIC, steps, {"transactional.id": f"ingest-{TOPIC}"})
    assert consumed(broker) == expected + Counter([row_of({"dep_time": -1})])
    assert [problem for problem in broker.problems() if "ERROR" in problem] == []


@pytest.mark.parametrize(
    ("topic", "decoder", "said"),
    [
        ("__transaction_state", "--transaction-log-decoder", f"transactionalId=ingest-{TOPIC}"),
        ("__consumer_offsets", "--offsets-decoder", f'"topic":"__sink.{TOPIC}"'),
    ],
)
def test_kafkas_dump_tool_reads_the_internal_topics(work: Work, topic: str, decoder: str, said: str) -> None:
    files = [path for path in sorted(Path(work.log).glob(f"{topic}-*/*.log")) if path.stat().st_size]
    dump = dump_log(files, decoder)
    assert said in dump.stdout
    assert all(file.stderr == "" for file in dump.files.values())
