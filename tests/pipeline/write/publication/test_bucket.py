"""The sink on an object store: each row of the input is in the log once, after failures of any kind at any step.

The sink and its tasks run without Spark (``inline_bucket``); for those of Spark, see ``test_bucket_on_spark``.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from pyspark_commitlog.pipeline.write.answers import Answer
from pyspark_commitlog.storage.bucket import topics as changes
from pyspark_commitlog.storage.bucket.commits.commit import VoidChange
from pyspark_commitlog.storage.bucket.files import filesystem as bucket_files
from pyspark_commitlog.storage.errors import (
    CorruptionError,
    InvalidConfigError,
    LogReplacedError,
    LogStoreError,
    ObjectStoreError,
    OutcomeUnknownError,
    ProducerFencedError,
    ProgressMismatchError,
    StoreAccessError,
    TopicExistsError,
    TransactionAbortedError,
    UnknownTopicOrPartitionError,
)
from tests.pipeline.inline_bucket import URL, BucketDriver, DeadlyStore, KilledError, content_of, reader
from tests.pipeline.inline_spark import TASKS, TOPIC, Function, InlineFrame, Run, answers_of, batch_of, expected
from tests.support.stores import content
from tests.support.stores.faulty_store import FaultyStore
from tests.support.stores.memory_store import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def offset(store: MemoryStore, topic: str = TOPIC, group: str = "app") -> tuple[int, dict[str, Any]]:
    found = reader(store).state.groups[group][f"__sink.{topic}-0"]
    return found.offset, json.loads(found.metadata)


def test_batches_are_there_once_with_offsets_without_gaps_and_their_progress(store: MemoryStore) -> None:
    driver = BucketDriver(store)
    first, second = driver.write(0), driver.write(1)
    assert content_of(store) == expected(2)
    assert offset(store)[0] == 2
    assert offset(store)[1]["records"] == len(expected(1))
    ends = {number: len(values) for number, values in content.values(reader(store), TOPIC).items()}
    placed = sorted((each.partition, each.first_offset, each.last_offset) for each in (*first, *second))
    for number, end in ends.items():
        covered = [offset for p, low, high in placed if p == number for offset in range(low, high + 1)]
        assert covered == list(range(end))


def test_a_batch_takes_few_requests(store: MemoryStore) -> None:
    driver = BucketDriver(store)
    driver.write(0)
    before = dict(store.requests)
    driver.write(1)
    asked = {name: count - before.get(name, 0) for name, count in store.requests.items()}
    assert {name: count for name, count in asked.items() if count} == {"get": 3, "put_new": TASKS + 1}


def test_a_fenced_driver_stays_fenced_after_a_read_in_its_process_failed(store: MemoryStore) -> None:
    first, second = BucketDriver(store, 1), BucketDriver(store, 2)
    first.write(0)
    second.write(1)
    silent = mock.patch.object(store, "get", side_effect=StoreAccessError("403"))
    with first.running(), silent, pytest.raises(StoreAccessError):
        bucket_files.open_files(URL)
    with pytest.raises(ProducerFencedError):
        first.write(2)
    second.write(2)


def test_a_fenced_driver_stays_fenced_after_its_process_opened_other_logs(store: MemoryStore) -> None:
    first, second = BucketDriver(store, 1), BucketDriver(store, 2)
    first.write(0)
    second.write(1)
    first.logs.clear()
    with pytest.raises(ProducerFencedError):
        first.write(2)
    second.write(2)


def test_batches_come_again_in_any_order_and_are_skipped(store: MemoryStore) -> None:
    driver = BucketDriver(store)
    for number in (0, 1, 1, 0, 2, 1):
        driver.write(number)
    assert content_of(store) == expected(3)
    assert BucketDriver(store).write(2) == []


def test_an_empty_batch_moves_the_offset_alone(store: MemoryStore) -> None:
    driver = BucketDriver(store)
    with driver.running() as write:
        assert write(InlineFrame([]), 0) == []  # type: ignore[arg-type]
        assert write(InlineFrame([[], []]), 1) == []  # type: ignore[arg-type]
    driver.write(1)
    assert (content_of(store), offset(store)[0]) == ([], 2)


def test_topics_of_a_column_and_bad_records_are_in_one_commit(store: MemoryStore) -> None:
    driver = BucketDriver(store)
    rows = pa.RecordBatch.from_pydict(
        {"topic": ["a", "b", "elsewhere", "a"], "value": [b"1", b"2", b"3", b"4"]},
        schema=pa.schema([("topic", pa.string()), ("value", pa.binary())]),
    )
    frame = InlineFrame([[rows]])
    frame.schema = frame.schema.add("topic", "string")
    with driver.running(topics=["a", "b"], badRecords="bad", partitions=1) as write:
        write(frame, 0)  # type: ignore[arg-type]
    log = reader(store)
    found = {name: content.values(log, name)[0] for name in ("a", "b", "bad")}
    assert found == {"a": [b"1", b"4"], "b": [b"2"], "bad": [b"3"]}
    assert (offset(store, "a")[0], offset(store, "b")[0]) == (1, 1)
    assert "__sink.bad-0" not in log.state.groups["app"]
    assert log.state.number == 3 + 1 + 1  # topics, the claim, the data


def test_two_sinks_of_a_query_share_a_name(store: MemoryStore) -> None:
    driver = BucketDriver(store)
    for number in (0, 1):
        driver.write(number)
        driver.write(number, arguments={"topic": "second"})
    assert (content_of(store), content_of(store, "second")) == (expected(2), expected(2))


# --- what is refused


def test_a_topic_with_other_settings_is_refused(store: MemoryStore) -> None:
    driver = BucketDriver(store)
    driver.write(0, arguments={"configs": {"retention.ms": "-1"}})
    with pytest.raises(TopicExistsError, match=r"retention\.ms = -1, but 5"):
        driver.write(1, arguments={"configs": {"retention.ms": "5"}})
    with pytest.raises(TopicExistsError, match="has 2 partitions, but 3"):
        driver.write(1, arguments={"partitions": 3})
    driver.write(1, arguments={"partitions": None, "configs": {"cleanup.policy": "delete"}})
    assert content_of(store) == expected(2)


def test_a_row_above_the_size_of_an_object_is_written_and_a_setting_above_a_put_is_refused(store: MemoryStore) -> None:
    driver = BucketDriver(store)
    with pytest.raises(InvalidConfigError, match="at most 134152192 on an object store"):
        driver.write(0, arguments={"configs": {"max.message.bytes": "200000000"}})
    row = pa.RecordBatch.from_pydict({"value": [bytes(40_000_000)]}, schema=pa.schema([("value", pa.binary())]))
    with driver.running(configs={"max.message.bytes": "60000000"}) as write:
        write(InlineFrame([[row]]), 0)  # type: ignore[arg-type]
    (found,) = (values for values in content.values(reader(store), TOPIC).values() if values)
    assert found == [bytes(40_000_000)]


def test_a_topic_gets_its_settings_and_more_partitions_while_the_query_runs(store: MemoryStore) -> None:
    driver = BucketDriver(store)
    driver.write(0, arguments={"configs": {"max.message.bytes": "1000"}})
    reader(store).commit(lambda state: changes.add_partitions(state, TOPIC, 5))
    driver.write(1, arguments={"partitions": None})
    topic = changes.find_topic(reader(store).state, TOPIC)
    assert (topic.partitions, topic.configs) == (5, {"max.message.bytes": "1000"})
    assert content_of(store) == expected(2)


def test_a_new_checkpoint_with_an_old_name_is_refused(store: MemoryStore) -> None:
    def write_as(driver: BucketDriver, query: str, batch: int) -> None:
        frame = InlineFrame(batch_of(batch))
        of_query = {"sql.streaming.queryId": query, "spark.jobGroup.id": f"run of {query}"}
        frame.sparkSession.sparkContext.getLocalProperty.side_effect = of_query.get
        with driver.running() as write:
            write(frame, batch)  # type: ignore[arg-type]

    driver = BucketDriver(store)
    with mock.patch("pyspark_commitlog.pipeline.write.foreach_batch._planned", return_value=_unplanned()):
        write_as(driver, "first", 0)
        with pytest.raises(InvalidConfigError, match="as query first, but this is query second"):
            write_as(BucketDriver(store), "second", 1)
        write_as(BucketDriver(store), "first", 1)
    assert content_of(store) == expected(2)


def _unplanned() -> tuple[Any, Any]:
    from pyspark_commitlog.pipeline.write.exactly_once.checkpoint import NO_PLAN, Checkpoint  # noqa: PLC0415

    return Checkpoint(), NO_PLAN


def test_speculation_and_further_attempts_are_allowed(store: MemoryStore) -> None:
    rounds: list[int] = []

    def twice(run: Run, _function: Function) -> list[Any]:
        rounds.append(1)
        run()  # its answers are lost
        return run()

    driver = BucketDriver(store)
    second = mock.Mock(partitionId=lambda: 0, attemptNumber=lambda: 1)
    second.taskAttemptId.side_effect = range(100, 200)
    with mock.patch.object(BucketDriver, "task", return_value=second), driver.running() as write:
        frame = InlineFrame(batch_of(0), around=twice)
        frame.sparkSession.conf.get.return_value = "true"
        write(frame, 0)  # type: ignore[arg-type]
    assert (len(rounds), content_of(store)) == (1, expected(1))


# --- two drivers


def test_the_later_of_two_drivers_fences_the_other(store: MemoryStore) -> None:
    first, second = BucketDriver(store, 1), BucketDriver(store, 2)
    first.write(0)
    second.write(1)
    assert first.write(1) == []  # done, it sees
    with pytest.raises(ProducerFencedError, match="another writer took over"):
        first.write(2)
    second.write(2)
    assert content_of(store) == expected(3)


def test_a_driver_that_was_fenced_while_its_tasks_ran_commits_nothing(store: MemoryStore) -> None:
    sleeper, other = BucketDriver(store, 1), BucketDriver(store, 2)
    sleeper.write(0)

    def sleep(run: Run, _function: Function) -> list[Any]:
        answers = run()
        other.write(1)
        return answers

    with pytest.raises(ProducerFencedError):
        sleeper.write(1, around=sleep)
    other.write(2)
    assert content_of(store) == expected(3)


def test_tasks_of_a_dead_driver_that_go_on_change_nothing(store: MemoryStore) -> None:
    late: list[Function] = []

    def die(_run: Run, function: Function) -> list[Any]:
        late.append(function)
        raise KilledError

    dead, living = BucketDriver(store, 1), BucketDriver(store, 2)
    with pytest.raises(KilledError):
        dead.write(0, around=die)
    living.write(0)
    with dead.running():
        assert all(Answer(*row).refused is None for row in answers_of(late[0], batch_of(0)[0]))
    living.write(1)
    assert content_of(store) == expected(2)


# --- kills


@pytest.mark.parametrize("put", ["before", "never", "later"])
@pytest.mark.parametrize(
    ("prefix", "nth"),
    [("commitlog.json", 1), ("commits", 1), ("commits", 2), ("commits", 3), ("staged", 1), ("staged", TASKS)],
    ids=str,
)
def test_a_driver_killed_at_a_put_of_its_first_batch_is_followed_by_another(
    store: MemoryStore, prefix: str, nth: int, put: str
) -> None:
    deadly = DeadlyStore(store, prefix, nth, put)
    with pytest.raises(KilledError):
        BucketDriver(deadly, 1).write(0)
    follow_up(store, deadly, 0)


@pytest.mark.parametrize("lands", ["before the next driver", "while its tasks run", "after it"])
@pytest.mark.parametrize("put", ["before", "never", "later"])
@pytest.mark.parametrize(("prefix", "nth"), [("staged", 1), ("staged", TASKS), ("commits", 1)], ids=str)
def test_a_driver_killed_at_a_put_of_a_later_batch_is_followed_by_another(
    store: MemoryStore, prefix: str, nth: int, put: str, lands: str
) -> None:
    first = BucketDriver(store, 1)
    first.write(0)
    first.store = deadly = DeadlyStore(store, prefix, nth, put)
    for files in first.logs.values():
        files.log.store = deadly
    with pytest.raises(KilledError):
        first.write(1)
    assert content_of(store) == expected(2 if (prefix, put) == ("commits", "before") else 1)
    follow_up(store, deadly, 1, lands)


def follow_up(store: MemoryStore, deadly: DeadlyStore, batch: int, lands: str = "while its tasks run") -> None:
    """Another driver writes the batch again, and the next one; the put of the dead one may arrive in between."""

    def landing(run: Run, _function: Function) -> list[Any]:
        deadly.land()
        return run()

    if lands == "before the next driver" and "commitlog.json" in store.objects:
        deadly.land()
    following = BucketDriver(store, 2)
    following.write(batch, around=landing if lands == "while its tasks run" else None)
    deadly.land()
    following.write(batch + 1)
    assert content_of(store) == expected(batch + 2)
    assert offset(store)[0] == batch + 2


@pytest.mark.parametrize("seed", range(12))
def test_whatever_the_store_answers_each_row_is_there_once(store: MemoryStore, seed: int) -> None:
    random = Random(seed)
    faulty = FaultyStore(store, random, 0.0)
    driver = BucketDriver(faulty, seed)
    driver.write(0)
    for number in range(1, 6):
        for attempt in range(100):
            faulty.rate = 0.4 if attempt < 30 else 0.05  # each attempt adds a commit, so the next one has more to read
            try:
                driver.write(number)
                break
            except (ObjectStoreError, OutcomeUnknownError, ProducerFencedError, TransactionAbortedError):
                driver = BucketDriver(faulty, random.randrange(1 << 30))  # the query is started again
        else:
            pytest.fail("the batch was never written")
        if random.random() < 0.3:
            faulty.rate = 0.0
            faulty.land_late(1.0)
    faulty.land_late(1.0)
    assert content_of(store) == expected(6)


def test_a_store_without_an_answer_leaves_it_open_and_the_next_start_finds_out(store: MemoryStore) -> None:
    class Silent(DeadlyStore):
        def put_new(self, key: str, data: bytes) -> None:
            if key.startswith(self.prefix):
                if key not in self.inner.objects:
                    self.late.append((key, data))
                raise ObjectStoreError(f"{key}: no answer")
            self.inner.put_new(key, data)

    driver = BucketDriver(store, 1)
    driver.write(0)
    silent = Silent(store, "commits", 0, "later")
    for files in driver.logs.values():
        files.log.store = silent
    with pytest.raises(OutcomeUnknownError, match="may be there, or come later"):
        driver.write(1)
    silent.land()
    following = BucketDriver(store, 2)
    assert following.write(1) == []
    following.write(2)
    assert content_of(store) == expected(3)


# --- the log under a query


def test_a_write_that_a_collector_gave_up_is_written_again(store: MemoryStore) -> None:
    driver = BucketDriver(store)
    driver.write(0)
    rounds: list[int] = []

    def give_up(run: Run, _function: Function) -> list[Any]:
        answers = run()
        rounds.append(1)
        if len(rounds) == 1:
            known = {key.split("/")[1] for key in store.objects if key.startswith("staged/")}
            mine = known - set(reader(store).state.writes)
            reader(store).commit(lambda _: VoidChange(sorted(mine)))
        return answers

    driver.write(1, around=give_up)
    assert (len(rounds), content_of(store)) == (2, expected(2))


def test_a_topic_that_is_deleted_while_tasks_write_to_it_is_not_brought_back(store: MemoryStore) -> None:
    driver = BucketDriver(store)
    driver.write(0)

    def delete(run: Run, _function: Function) -> list[Any]:
        answers = run()
        reader(store).commit(lambda state: changes.delete_topic(state, TOPIC))
        return answers

    with pytest.raises(UnknownTopicOrPartitionError, match="not there any more"):
        driver.write(1, around=delete)


def test_a_topic_that_was_made_again_gets_the_next_batches(store: MemoryStore) -> None:
    driver = BucketDriver(store)
    driver.write(0)
    log = reader(store)
    log.commit(lambda state: changes.delete_topic(state, TOPIC))
    log.commit(lambda state: changes.create_topic(state, TOPIC, 2))
    driver.write(1)
    assert content_of(store) == sorted(set(expected(2)) - set(expected(1)))


def test_a_log_that_was_replaced_under_a_running_query_is_noticed(store: MemoryStore) -> None:
    driver = BucketDriver(store)
    driver.write(0)
    older = dict(store.objects)
    driver.write(1)
    store.objects = older
    store.modified = dict.fromkeys(older, 0)
    with pytest.raises(LogStoreError) as raised:
        driver.write(2)
    assert isinstance(raised.value, ProgressMismatchError | CorruptionError)
    assert content_of(store) == expected(1)


def test_a_log_that_was_set_back_while_tasks_write_gets_no_commit(store: MemoryStore) -> None:
    driver = BucketDriver(store)
    driver.write(0)
    older = dict(store.objects)
    driver.write(1)

    class SetBack(DeadlyStore):
        """Is set back when the tasks have put their objects."""

        def get(self, key: str, *, limit: int) -> bytes:
            self.gets += 1
            if self.gets == 3:  # after the last commit and the next one, which the driver reads first
                store.objects = {**older, **{key: store.objects[key] for key in store.objects if "staged" in key}}
            return super().get(key, limit=limit)

        gets = 0

    driver.store = SetBack(store, "none", 0, "")
    for files in driver.logs.values():
        files.log.store = driver.store
    with pytest.raises(LogReplacedError):
        driver.write(2)
    assert sorted(key for key in store.objects if "commits" in key) == sorted(key for key in older if "commits" in key)


def test_another_error_of_the_store_than_a_missing_log_makes_none(store: MemoryStore) -> None:
    BucketDriver(store).write(0)
    del store.objects["commitlog.json"]
    with pytest.raises(CorruptionError, match="commits are there"):
        BucketDriver(store).write(1)
