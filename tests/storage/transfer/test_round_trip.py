"""Logs of real brokers copied to an object store and back: records, transactions, bytes, offsets of groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.topics import create_topic
from pyspark_commitlog.storage.bucket.upkeep import raise_log_start
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.directory.protected_topics import is_protected
from pyspark_commitlog.storage.errors import CorruptionError, StorageError, TopicExistsError
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from pyspark_commitlog.storage.groups.offsets import CommittedOffset, GroupOffsets
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.transfer import snapshots
from pyspark_commitlog.storage.transfer.groups import copy_groups
from pyspark_commitlog.storage.transfer.pieces import CopiedPartition
from pyspark_commitlog.storage.transfer.to_bucket import copy_to_bucket
from pyspark_commitlog.storage.transfer.to_directory import copy_to_directory
from tests.support.clock import ManualClock
from tests.support.kafka import broker_dirs
from tests.support.logs.building import records
from tests.support.stores.commits import commit_log
from tests.support.stores.filling import make_topic, write
from tests.support.stores.killing import Killed, KillingStore
from tests.support.stores.memory_store import MemoryStore
from tests.support.stores.transactional import PRODUCER, Client

ROOT = "memory://bucket"
SCENARIOS = (
    "transactions",
    *(
        pytest.param(name, marks=pytest.mark.only_all)
        for name in ("4-codecs", "codecs", "compaction", "leader-epochs", "idempotent", "retention", "rolls", "times")
    ),
)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def log(store: MemoryStore) -> CommitLog:
    return open_root(ROOT, create=True, store=store, check=lambda _: [])


def shown(store: MemoryStore) -> LogManager:
    return LogManager.open(ROOT, filesystem=BucketFileSystem(open_root(ROOT, store=store)), clock=ManualClock())


def copied(directory: str, log: CommitLog, limit: int = 10_000) -> None:
    with LogManager.open(directory, clock=ManualClock()) as source:
        list(copy_to_bucket(source, log, limit=limit))
        copy_groups(source, log)


def bytes_of(reader: LogReader) -> bytes:
    """The batches from the segment with the log start on."""
    segments = reader.segments.reaching(reader.log_start_offset)
    return b"".join(bytes(each.read_bytes(0, each.size)) for each in segments)


def partitions(manager: LogManager) -> Iterator[tuple[TopicPartition, LogReader]]:
    for topic in manager.topics().values():
        for each in topic.topic_partitions:
            if not is_protected(topic.name):
                with manager.open_reader(*each) as reader:
                    yield each, reader


def check_same(one: LogManager, other: LogManager) -> None:
    found = 0
    for each, reader in partitions(one):
        with other.open_reader(*each) as copy:
            assert (copy.log_start_offset, copy.log_end_offset) == (reader.log_start_offset, reader.log_end_offset)
            assert copy.last_stable_offset == reader.last_stable_offset
            if reader.log_start_offset < reader.log_end_offset:  # otherwise deleted records may be there
                assert bytes_of(copy) == bytes_of(reader)
            for isolation in Isolation:
                assert broker_dirs.rows(copy, isolation) == broker_dirs.rows(reader, isolation)
        assert one.topic(each.topic).configs == other.topic(each.topic).configs
        found += 1
    assert found
    assert [each for each, _ in partitions(other)] == [each for each, _ in partitions(one)]
    assert GroupOffsets(other).groups().keys() <= GroupOffsets(one).groups().keys()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_brokers_log_goes_to_an_object_store_and_back(
    scenario: str, log: CommitLog, store: MemoryStore, tmp_path: Path
) -> None:
    directory = broker_dirs.copy_to(tmp_path / "log", f"{scenario}/{stage_of(scenario)}")
    copied(str(directory), log)
    with (
        LogManager.open(str(directory), clock=ManualClock()) as source,
        shown(store) as bucket,
        LogManager.open(str(tmp_path / "back"), create=True, clock=ManualClock()) as target,
    ):
        check_same(source, bucket)
        list(copy_to_directory(bucket, target))
        check_same(bucket, target)


def stage_of(scenario: str) -> str:
    stages = [path.parent.name for path in broker_dirs.scenario(scenario).glob("*/log")]
    return "final" if "final" in stages else sorted(stages)[-1]


def test_logs_of_older_formats_keep_their_bytes(log: CommitLog, store: MemoryStore, tmp_path: Path) -> None:
    with (
        LogManager.open(str(broker_dirs.legacy() / "log"), clock=ManualClock()) as source,
        LogManager.open(str(tmp_path / "back"), create=True, clock=ManualClock()) as target,
    ):
        list(copy_to_bucket(source, log, limit=2_000))
        with shown(store) as bucket:
            for each, reader in partitions(source):
                with bucket.open_reader(*each) as copy:
                    assert bytes_of(copy) == bytes_of(reader)
                    assert broker_dirs.rows(copy) == broker_dirs.rows(reader)
            list(copy_to_directory(bucket, target))
            for each, reader in partitions(bucket):
                with target.open_reader(*each) as back:
                    assert bytes_of(back) == bytes_of(reader)


@pytest.fixture
def directory(tmp_path: Path) -> str:
    path = str(tmp_path / "log")
    with LogManager.open(path, create=True) as manager:
        manager.create_topic("t", partitions=3, configs={"retention.ms": "777"})
        for _ in range(4):
            manager.open_log("t", 0).append_records(records([b"x" * 300, b"y" * 300]))
        manager.open_log("t", 1).append_records(records([b"a", b"b", b"c"]))
        manager.open_log("t", 1).delete_records(3)
        GroupOffsets(manager).commit("g", {TopicPartition("t", 0): CommittedOffset(5, "here")})
    return path


def test_topics_keep_ids_settings_and_groups_their_offsets(
    directory: str, log: CommitLog, store: MemoryStore, tmp_path: Path
) -> None:
    copied(directory, log)
    with LogManager.open(directory) as source, shown(store) as bucket:
        assert bucket.topic("t") == source.topic("t")
        assert GroupOffsets(bucket).groups() == GroupOffsets(source).groups()
        with LogManager.open(str(tmp_path / "back"), create=True) as target:
            list(copy_to_directory(bucket, target))
            assert copy_groups(bucket, target) == 1
            assert target.topic("t") == source.topic("t")
            assert GroupOffsets(target).groups() == GroupOffsets(source).groups()
            with target.open_log("t", 1) as emptied:
                assert (emptied.log_start_offset, emptied.log_end_offset) == (3, 3)


def test_a_copy_of_other_topics_leaves_the_progress_in_those_copied_before(
    directory: str, log: CommitLog, store: MemoryStore, tmp_path: Path
) -> None:
    mine, writer = TopicPartition("t", 0), TopicPartition("__sink.t", 0)
    others = {TopicPartition("u", 0): CommittedOffset(3), TopicPartition("__sink.u", 0): CommittedOffset(8)}
    advanced = {mine: CommittedOffset(7), writer: CommittedOffset(9)}
    with LogManager.open(directory) as source, LogManager.open(str(tmp_path / "other"), create=True) as other:
        source.create_topic("u", partitions=1)
        GroupOffsets(source).commit("g", {writer: CommittedOffset(4), **others})
        for target in (log, other):
            assert copy_groups(source, target, ["t"]) == 1
        for target in (other, shown(store)):
            assert GroupOffsets(target).fetch("g") == {mine: CommittedOffset(5, "here"), writer: CommittedOffset(4)}
            GroupOffsets(target).commit("g", advanced)
        log.catch_up()
        for target in (log, other):
            assert copy_groups(source, target, ["u"]) == 1
        for target in (other, shown(store)):
            assert GroupOffsets(target).fetch("g") == {**advanced, **others}


def test_a_copy_that_is_repeated_sets_no_group_back(
    directory: str, log: CommitLog, store: MemoryStore, tmp_path: Path
) -> None:
    mine, new = TopicPartition("t", 0), TopicPartition("t", 1)
    with LogManager.open(directory) as source, LogManager.open(str(tmp_path / "other"), create=True) as other:
        for target in (log, other):
            copy_groups(source, target)
        for target in (shown(store), other):
            GroupOffsets(target).commit("g", {mine: CommittedOffset(7, "there")})
        log.catch_up()
        GroupOffsets(source).commit("g", {mine: CommittedOffset(6, "late"), new: CommittedOffset(2)})
        for target in (log, other):
            copy_groups(source, target)
        for target in (shown(store), other):
            assert GroupOffsets(target).fetch("g") == {mine: CommittedOffset(7, "there"), new: CommittedOffset(2)}
        GroupOffsets(source).commit("g", {mine: CommittedOffset(8, "ahead")})
        before = log.state.number
        for target in (log, other):
            copy_groups(source, target)
            copy_groups(source, target)
        assert log.state.number == before + 1
        for target in (shown(store), other):
            assert GroupOffsets(target).fetch("g")[mine] == CommittedOffset(8, "ahead")


def test_a_copy_that_was_killed_at_any_write_goes_on(directory: str) -> None:
    for writes in range(1, 200, 3):
        store = MemoryStore()
        open_root(ROOT, create=True, store=store, check=lambda _: [])
        try:
            copied(directory, open_root(ROOT, store=KillingStore(store, writes)), limit=700)
            break
        except Killed:
            copied(directory, open_root(ROOT, store=store), limit=700)
        with LogManager.open(directory) as source, shown(store) as bucket:
            check_same(source, bucket)
    assert writes > 10


def test_another_topic_of_the_name_is_not_touched(directory: str, log: CommitLog) -> None:
    log.commit(lambda state: create_topic(state, "t", 3))
    before = log.state.number
    with pytest.raises(TopicExistsError, match="has another topic 't'"):
        copied(directory, log)
    assert log.state.number == before


def values_of(store: MemoryStore) -> list[bytes | None]:
    with shown(store) as bucket, bucket.open_reader("t", 0) as reader:
        tables = reader.records(0, reader.log_end_offset)
        return [value for table in tables for value in (table.values.to_list() if table.values is not None else [])]


def test_records_that_came_after_a_copy_are_not_replaced_by_another(
    directory: str, log: CommitLog, store: MemoryStore
) -> None:
    copied(directory, log)
    write(log, "t", {0: [records([b"here"])]})
    with LogManager.open(directory) as source:
        source.open_log("t", 0).append_records(records([b"there"]))
    with pytest.raises(StorageError, match=r"t-0 has other records between offsets 0 and 9: .* delete the topic there"):
        copied(directory, log)
    assert values_of(store)[-1] == b"here"


def test_a_topic_of_the_name_and_size_is_not_replaced_by_one_without_an_id(
    directory: str, log: CommitLog, store: MemoryStore
) -> None:
    for name in ("topics.json", "partition.metadata"):
        for path in Path(directory).rglob(name):
            path.unlink()
    make_topic(log, "t", 2)  # no file was made of the third partition
    write(log, "t", {0: [records([b"here"] * 8)]})
    with pytest.raises(StorageError, match="t-0 has other records"):
        copied(directory, log)
    assert values_of(store) == [b"here"] * 8


def test_damage_in_the_source_stops_the_copy_of_its_partition(directory: str, log: CommitLog) -> None:
    [path] = (Path(directory) / "t-0").glob("*.log")
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptionError, match=path.name):
        copied(directory, log)


def test_a_snapshot_is_of_one_moment_though_its_own_process_writes_and_reads_on(
    log: CommitLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(log, "t")
    write(log, "t", {0: [records([b"before"])]})
    real = snapshots.copy_to_directory

    def beside(source: LogManager, target: LogManager) -> Iterator[CopiedPartition]:
        write(log, "t", {0: [records([b"after"])]})
        return real(source, target)

    monkeypatch.setattr(snapshots, "copy_to_directory", beside)
    with LogManager.open(ROOT, filesystem=BucketFileSystem(log)) as source:
        snapshots.take_bucket_snapshot(source, str(tmp_path / "taken"))
        with source.open_reader("t", 0) as reader:
            assert reader.log_end_offset == 2
    with LogManager.open(str(tmp_path / "taken" / "log")) as taken, taken.open_reader("t", 0) as reader:
        assert reader.log_end_offset == 1


def test_what_a_client_has_open_on_an_object_store_is_not_copied(
    log: CommitLog, store: MemoryStore, tmp_path: Path
) -> None:
    make_topic(log, "t", 2)
    client, other = Client(log), Client(log, "y", PRODUCER + 1)
    client.append(b"lost")
    client.end(commit=False)
    other.append(b"kept")
    client.append(b"open")
    other.append(b"open too")
    other.end(commit=True)
    copy = commit_log(MemoryStore())
    with shown(store) as bucket, LogManager.open(str(tmp_path / "back"), create=True) as target:
        list(copy_to_directory(bucket, target))
        with target.open_reader("t", 0) as back:
            assert (back.log_end_offset, back.last_stable_offset) == (2, 2)
            assert [row[0] for row in broker_dirs.rows(back, Isolation.READ_UNCOMMITTED)] == [1]
        list(copy_to_bucket(bucket, copy))
        assert (copy.state.partitions[copy.state.topic_ids["t"], 0].end, copy.state.open) == (2, {})


def test_a_copy_to_an_object_store_never_ends_below_the_log_start(log: CommitLog, store: MemoryStore) -> None:
    id_ = make_topic(log, "t")
    client, copy = Client(log), commit_log(MemoryStore())
    client.append(b"open", b"too")
    write(log, "t", {0: [records([b"decided"])]})
    log.commit(lambda state: raise_log_start(state, id_, 0, 2))
    with shown(store) as bucket, pytest.raises(StorageError, match="began below its log start offset 2"):
        list(copy_to_bucket(bucket, copy))
    client.end(commit=True)
    with shown(store) as bucket:
        (copied,) = copy_to_bucket(bucket, copy)
    assert copied[:4] == ("t", 0, 2, 3)
