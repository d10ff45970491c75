"""Random queries and streams with ``format("kafka")`` from a broker, and ``format("commitlog")`` from its directory.

Both must return the same rows, a stream in the same micro-batches, or fail for the same kind of reason. What differs on
purpose is in docs/data_source.md: there ours must be what the definition says (``expected``), and it is counted.
Every :data:`STREAM_EVERY`-th case is a stream.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from random import Random
from typing import NamedTuple

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row

from pyspark_commitlog.pipeline.job.session import spark_session
from tests.pipeline.read.kafka_sources import OUTSIDE, UNKNOWN, WRONG, Batches, Sources, in_order
from tests.support.kafka.broker import Broker, ProducerRecord, Step, Topic, create_topics, java_produce
from tests.support.spark import spark_jvm
from tests.support.spark.connector import connector_jars
from tests.support.spark.kafka_source import FIRST_MS, PROMPT
from tests.torture.beside_spark.drawing import Chosen, Options, Topics, draw_limit, draw_query, draw_stream
from tests.torture.beside_spark.expected import Definition, Position, Times, WrongError, has_times
from tests.torture.beside_spark.topics import fill_for
from tests.torture.suite import Case, Run, Suite, quiet

STREAM_EVERY = 6
NAMES = ("kafka", "commitlog")
PATIENCE = {"kafkaConsumer.pollTimeoutMs": "10000"}  # at a record that will never be there
COMMITTED = "read_committed"
# Kinds of errors as in the tests, with what a stream's error of Spark says in the place of the class of its cause.
KINDS = (
    (f"{WRONG[0]}|No offset matched from request", WRONG[1]),
    UNKNOWN,
    (f"{OUTSIDE[0]}|data may have been missed|KAFKA_DATA_LOSS", OUTSIDE[1]),
)


class Outcome(NamedTuple):
    """Rows in the order of offsets, or the error in their place."""

    schema: str
    rows: list[Row]
    error: str | None


class Beside(NamedTuple):
    """The broker with its topics, both sources, and all visible records by isolation level."""

    sources: Sources
    topics: Topics
    visible: dict[str, Times]


def run(run: Run) -> None:
    with beside(run) as there, quiet():
        for case in run.cases():
            is_stream = case.number % STREAM_EVERY == STREAM_EVERY - 1
            what: list[object] = []  # filled in before anything can fail
            with run.watching(case, what):
                if is_stream:
                    check_stream(run, case, there, what)
                else:
                    check_query(run, case.chance, there, what)
            run.note("streams" if is_stream else "batch queries")
            run.passed()


@contextmanager
def beside(run: Run) -> Iterator[Beside]:
    settings = spark_jvm.SMALL | {"spark.jars": connector_jars(), "spark.sql.warehouse.dir": str(run.directory / "w")}
    with Broker(run.directory / "broker").start(props=PROMPT) as broker:
        topics = fill_for(broker, run.seed)
        spark = spark_session("beside-spark", master="local[2]", settings=settings)
        spark.sparkContext.setLogLevel("OFF")  # many queries are to fail
        try:
            sources = Sources(spark, broker)
            levels = ("read_uncommitted", COMMITTED)
            yield Beside(sources, topics, {level: visible_in(sources, topics, level) for level in levels})
        finally:
            spark.stop()


def visible_in(sources: Sources, topics: Topics, level: str) -> Times:
    """Reads the offsets and times of all records by Spark's Kafka source."""
    frame = sources.kafka({"subscribe": ",".join(topics), "kafka.isolation.level": level})
    found = defaultdict[tuple[str, int], list[tuple[int, int]]](list)
    times = frame.selectExpr("topic", "partition", "offset", "unix_millis(timestamp) as ms").collect()
    for row in sorted(times, key=in_order):
        found[row.topic, row.partition].append((row.offset, row.ms))
    return found


# Batch queries


def check_query(run: Run, chance: Random, there: Beside, what: list[object]) -> None:
    options, chosen = draw_query(chance, there.topics)
    what.append(options)
    kafkas = outcome(there.sources.kafka, options | PATIENCE)
    ours = outcome(there.sources.commitlog, options | PATIENCE)
    if ours.error is None and kafkas.error is None and ours[:2] == kafkas[:2]:
        return
    if ours.error is not None and kafkas.error is not None:
        run.note("refused by both")
        check_reasons(ours.error, kafkas.error)
    else:
        run.note(difference(there, options, chosen, ours, kafkas))


def outcome(load: Callable[[Options], DataFrame], options: Options) -> Outcome:
    try:
        frame = load(options)
        return Outcome(frame.schema.simpleString(), sorted(frame.collect(), key=in_order), None)
    except (PySparkException, Py4JError) as error:
        return Outcome("", [], f"{type(error).__name__}: {error}")


def check_reasons(ours: str, kafkas: str) -> None:
    """Both errors are of one kind."""
    for told, kind in KINDS:
        if re.search(rf"\b{kind.__name__}\b", ours):
            assert re.search(told, kafkas), f"ours: {ours[:2000]}\nSpark's: {kafkas[:2000]}"
            return
    raise AssertionError(f"ours is no error on purpose: {ours[:2000]}\nSpark's: {kafkas[:600]}")


def difference(there: Beside, options: Options, chosen: Chosen, ours: Outcome, kafkas: Outcome) -> str:
    """Returns the reason for which the outcomes may differ. Raises AssertionError if there is none."""
    if has_times(options) and has_markers(there, chosen):
        check_definition(there, options, chosen, ours)
        return "times that Kafka finds elsewhere"
    if options.get("failOnDataLoss") == "false" and kafkas.error is not None and ours.error is None:
        return "data loss that Spark's source does not allow"
    raise AssertionError(
        f"ours: {len(ours.rows)} rows, {ours.schema} {(ours.error or '')[-600:]}\n"
        f"Spark's: {len(kafkas.rows)} rows, {kafkas.schema} {(kafkas.error or '')[-600:]}\n"
        f"only ours: {sorted(positions(ours) - positions(kafkas))[:9]}\n"
        f"only Spark's: {sorted(positions(kafkas) - positions(ours))[:9]}"
    )


def has_markers(there: Beside, chosen: Chosen) -> bool:
    """Whether one of the topics has transactions or deleted records."""
    return not all(there.topics[name].is_plain for name in chosen)


def once(rows: Iterable[Row]) -> dict[Position, Row]:
    """Returns the rows without those that a failed micro-batch brought again, by position."""
    return {in_order(row): row for row in rows}


def positions(found: Outcome) -> set[Position]:
    return set(map(in_order, found.rows))


def check_definition(there: Beside, options: Options, chosen: Chosen, ours: Outcome) -> None:
    level = options.get("kafka.isolation.level", "read_uncommitted")
    try:
        wanted = Definition(there.topics, there.visible[level], options).positions(chosen)
    except WrongError:
        assert ours.error is not None, "a query that must be refused"
        return
    assert ours.error is None, ours.error
    assert [in_order(row) for row in ours.rows] == wanted


# Streams


class Plan(NamedTuple):
    """One run of a stream: until all is read, or until the function of a batch fails."""

    limit: Options
    fails_at: int | None  # the number of the batch in this run
    is_late: bool  # whether it fails after it took the rows
    appended: int  # records that are written to the stream's own topic before the run


class FailingError(Exception):
    """The function of a batch failed."""


class Failing(Batches):
    """Takes batches until one is to fail."""

    plan = Plan({}, None, False, 0)
    taken = 0

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        is_last = self.taken == self.plan.fails_at
        self.taken += 1
        if is_last and not self.plan.is_late:
            raise FailingError
        super().__call__(frame, batch_id)
        if is_last:
            raise FailingError


def check_stream(run: Run, case: Case, there: Beside, what: list[object]) -> None:
    chance, own = case.chance, f"stream-{case.number}" if case.chance.random() < 0.4 else None
    options, chosen = draw_stream(chance, there.topics)
    if own is not None:
        start = {"startingOffsets": chance.choice(("earliest", "latest"))}
        kept = ("includeHeaders", "kafka.isolation.level", "minPartitions", "maxRecordsPerPartition")
        chosen = {}
        options = {"subscribe": own} | start | {name: options[name] for name in kept if name in options}
        create_topics(there.sources.broker.bootstrap, {own: Topic(2, {"retention.ms": "-1"})})
    plans = [draw_plan(chance, own) for _ in range(chance.randint(1, 3))]
    what += [options, plans]
    found = {name: Failing() for name in NAMES}
    errors = dict.fromkeys(NAMES, "")
    for number, plan in enumerate(plans):
        append(there.sources.broker, own, number, plan.appended)
        for name, batches in found.items():
            batches.plan, batches.taken = plan, 0
            checkpoint = run.directory / f"{case.number}" / name
            errors[name] = errors[name] or run_stream(there.sources, name, options | plan.limit, batches, checkpoint)
    rows = {name: batches.rows for name, batches in found.items()}
    run.note(compare_streams(there, options, chosen, rows, errors))


def draw_plan(chance: Random, own: str | None) -> Plan:
    fails_at = chance.randint(0, 3) if chance.random() < 0.4 else None
    return Plan(draw_limit(chance), fails_at, chance.random() < 0.5, 0 if own is None else chance.randint(0, 60))


def append(broker: Broker, topic: str | None, run: int, count: int) -> None:
    """Writes to a stream's own topic, every other run in a transaction."""
    if topic is None or not count:
        return
    records = [ProducerRecord(b"%d/%d" % (run, i), None, i % 2, FIRST_MS + i) for i in range(count)]
    if run % 2:
        java_produce(broker.bootstrap, topic, [Step.BEGIN, *records, Step.COMMIT], {"transactional.id": topic})
    else:
        java_produce(broker.bootstrap, topic, records)


def run_stream(sources: Sources, name: str, options: Options, batches: Failing, checkpoint: Path) -> str:
    """Runs the stream until all is read. Returns the error of the source, if there was one."""
    try:
        batches.run(sources.stream(name, options | PATIENCE), checkpoint)
    except (PySparkException, Py4JError) as error:
        return "" if FailingError.__name__ in str(error) else f"{type(error).__name__}: {error}"
    return ""


def compare_streams(
    there: Beside, options: Options, chosen: Chosen, found: dict[str, list[list[Row]]], errors: dict[str, str]
) -> str:
    """Returns in what way the micro-batches are the same. Raises AssertionError if they are not."""
    ours, kafkas = errors["commitlog"], errors["kafka"]
    rows = {name: sorted(chain(*batches), key=in_order) for name, batches in found.items()}
    if ours and kafkas:
        check_reasons(ours, kafkas)
        return "streams refused by both"
    if not ours and not kafkas and found["commitlog"] == found["kafka"]:
        return "streams with the same micro-batches"
    if has_times(options) and has_markers(there, chosen):
        check_definition(there, options, chosen, Outcome("", list(once(rows["commitlog"]).values()), ours or None))
        return "streams from times that Kafka finds elsewhere"
    if not ours and not kafkas and (has_times(options) or not chosen or has_markers(there, chosen)):
        # Ours first stores where a time leads to, and does not pass a marker that is not synced.
        assert once(rows["commitlog"]) == once(rows["kafka"])
        return "streams with the same rows in other micro-batches"
    sizes = {name: [len(each) for each in batches] for name, batches in found.items()}
    raise AssertionError(f"{sizes}; ours: {ours[-1000:]}; Spark's: {kafkas[-1000:]}")


SUITE = Suite("queries and streams", 1200, run)
