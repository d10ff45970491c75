"""Consolidation on an object store: slices become Kafka's segments, and readers see the same records."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.bucket.collecting import CollectLimits, collect
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.commit import Segment
from pyspark_commitlog.storage.bucket.commits.state import Slice, State
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.bucket.topics import delete_topic
from pyspark_commitlog.storage.bucket.upkeep import raise_log_start
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import StorageError, UnknownTopicOrPartitionError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.files import checkpoints, file_names
from pyspark_commitlog.storage.maintenance.bucket import scratch
from pyspark_commitlog.storage.maintenance.bucket.consolidate import Consolidation, consolidate, plan_runs
from pyspark_commitlog.storage.maintenance.bucket.scratch import SEGMENT_BYTES_MAX, epochs_before, read_part
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.transfer.to_bucket import copy_to_bucket
from pyspark_commitlog.storage.writing.replica import append_fetched
from tests.support.clock import ManualClock
from tests.support.logs.building import records
from tests.support.stores.commits import commit_log, create_topic
from tests.support.stores.filled import place_of, read_rows, write_pairs
from tests.support.stores.memory_store import MemoryStore
from tests.support.stores.transactional import PRODUCER, Client, shown

NOW_MS = 10_000
SMALL = LogConfig(segment_bytes=300, segment_ms=5_000)  # three slices


def filled(store: MemoryStore, writes: int = 7) -> CommitLog:
    log = commit_log(store)
    log.commit(lambda _: create_topic())
    for number in range(writes):
        write_pairs(log, *((None, b"%d-%d" % (number, row)) for row in range(3)), time_ms=NOW_MS - 100)
    return log


def run(log: CommitLog, config: LogConfig = SMALL, now_ms: int = NOW_MS, *, dry_run: bool = False) -> Consolidation:
    return consolidate(place_of(log), config, ManualClock(), now_ms, dry_run=dry_run)


def test_slices_become_segments_and_readers_see_the_same() -> None:
    store = MemoryStore()
    log = filled(store)
    before, number = read_rows(log), log.state.number
    assert run(log, dry_run=True).slices == 6
    assert log.state.number == number
    done = run(log)
    assert read_rows(log) == before
    assert [(part.base, part.end) for part in place_of(log).parts] == [(0, 9), (9, 18), (18, 21)]
    assert [type(part) for part in place_of(log).parts] == [Segment, Segment, Slice]
    assert (len(done.segments), done.size, done.others) == (2, sum(each.size for each in done.segments), 0)
    assert run(log).slices == 0
    collect(log, CollectLimits(0, 0))
    assert sum(key.startswith("staged/") for key in store.objects) == 1
    assert read_rows(log) == before


def test_beside_a_segment_is_what_tiered_storage_of_kafka_keeps() -> None:
    store = MemoryStore()
    log = filled(store)
    (first, _) = run(log).segments
    name = first.key(place_of(log).topic.topic_id, 0)
    kinds = {key.removeprefix(name) for key in store.objects if key.startswith(name)}
    assert kinds == {".log", ".index", ".timeindex", ".snapshot", file_names.EPOCHS}
    assert checkpoints.decode_leader_epochs(store.objects[name + file_names.EPOCHS]) == [(0, 0)]
    assert checkpoints.decode_snapshot(store.objects[name + ".snapshot"]) == []
    assert len(store.objects[name + ".timeindex"]) == 12  # one entry, no room for more


def test_the_last_slices_wait_until_a_segment_is_full_or_old() -> None:
    store = MemoryStore()
    log = filled(store, 2)
    assert run(log).slices == 0
    assert run(log, now_ms=NOW_MS + 4_900).slices == 0
    assert run(log, now_ms=NOW_MS + 4_901).slices == 2


def test_one_segment_never_takes_more_than_a_put() -> None:
    large = [Slice(base, f"k{base}", 0, 30 << 20, 1, 1, 0) for base in range(9)]
    runs = plan_runs(large, LogConfig(), 10**12)
    assert [len(run) for run in runs] == [4, 4, 1]
    assert all(sum(part.size for part in run) <= SEGMENT_BYTES_MAX for run in runs)
    assert plan_runs([Slice(0, "k", 0, 30 << 20, 1, 1, 0)], LogConfig(segment_bytes=1 << 20), 10**12) != []


def test_offsets_of_a_segment_are_not_too_far_apart() -> None:
    far = [Slice(base, f"k{base}", 0, 100, 2**30, 1, 0) for base in range(0, 5 * 2**30, 2**30)]
    assert [len(run) for run in plan_runs(far, LogConfig(), 10**12)] == [2, 2, 1]


def test_another_run_is_faster() -> None:
    store = MemoryStore()
    log = filled(store)
    before = read_rows(log)
    place = place_of(log)
    run(commit_log(store, 1))
    done = consolidate(place, SMALL, ManualClock(), NOW_MS)  # as this process still knows it
    assert (len(done.segments), done.others) == (0, 2)
    log.catch_up()
    assert read_rows(log) == before


def test_parts_are_of_one_moment_though_other_threads_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(MemoryStore(), 2)
    place, slices, moved = place_of(log), State.slices, list[bool]()

    def moving(state: State, *which: int) -> list[Slice]:
        with ThreadPoolExecutor(1) as another:
            moved.append(another.submit(log._moving.acquire, blocking=False).result())
        return slices(state, *which)  # type: ignore[arg-type]

    monkeypatch.setattr(State, "slices", moving)
    assert len(place.parts) == 2
    assert moved == [False]


def test_retention_is_faster() -> None:
    store = MemoryStore()
    log = filled(store)
    place = place_of(log)
    commit_log(store, 1).commit(lambda state: raise_log_start(state, place.topic.topic_id, 0, 20))
    done = consolidate(place, SMALL, ManualClock(), NOW_MS)  # two segments: the first one's commit finds it out
    assert (len(done.segments), done.others) == (0, 2)
    assert [(part.base, part.end) for part in place.parts] == [(18, 21)]


def test_a_topic_that_is_deleted_during_the_run_is_said_to_be_gone() -> None:
    store = MemoryStore()
    log = filled(store)
    place = place_of(log)
    commit_log(store, 1).commit(lambda state: delete_topic(state, "t"))
    with pytest.raises(UnknownTopicOrPartitionError, match="t-0: the topic was deleted"):
        consolidate(place, SMALL, ManualClock(), NOW_MS)  # two segments: the first one's commit finds it out


def test_many_slices_are_read_at_once() -> None:
    class Together(MemoryStore):
        waiting: Barrier | None = None

        def get_range(self, key: str, start: int, length: int) -> memoryview:
            if self.waiting is not None:
                self.waiting.wait()
            return super().get_range(key, start, length)

    store = Together()
    log = filled(store, 16)
    before = read_rows(log)
    store.waiting = Barrier(8, timeout=60)
    assert run(log, LogConfig(segment_bytes=1 << 20, segment_ms=1), now_ms=NOW_MS).slices == 16
    store.waiting = None
    assert read_rows(log) == before


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        pytest.param(lambda data: data[:-1] + bytes([data[-1] ^ 1]), "checksum|CRC", id="a bit"),
        pytest.param(lambda data: data[:100], "no batch", id="its end"),
        pytest.param(lambda data: data + data[:50], "no batch", id="more"),
    ],
)
def test_a_copy_that_this_machine_damaged_replaces_nothing(
    damaged: Callable[[bytes], bytes], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    log = filled(store)
    before, objects = read_rows(log), dict(store.objects)
    read = scratch.read_file
    monkeypatch.setattr(scratch, "read_file", lambda *args: damaged(read(*args)))
    with pytest.raises(StorageError, match=rf"this copy is damaged, and nothing was replaced.*({said})"):
        run(log)
    assert store.objects == objects
    assert read_rows(log) == before


def test_a_copy_that_lost_records_replaces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    log = filled(store)
    objects = dict(store.objects)
    whole = scratch._described
    monkeypatch.setattr(
        scratch, "_described", lambda *args, **more: (found := whole(*args, **more))._replace(records=found.records - 1)
    )
    with pytest.raises(StorageError, match="it has 8 records, and the slices have 9"):
        run(log)
    assert store.objects == objects


def copied(log: CommitLog, directory: Path, **fields: int) -> None:
    """Copies a directory with two records of leader epoch 5 to the log."""
    with LogManager.open(str(directory), create=True, clock=ManualClock()) as source:
        source.create_topic("t", partitions=1)
        table = records([b"a", b"b"], timestamps=[ManualClock().now_ms()] * 2)
        buffer, headers = v2.encode_batches(table, v2.BatchFields(**fields), batch_bytes_max=1 << 20)  # type: ignore[arg-type]
        v2.stamp(buffer, headers, base_offset=0, leader_epoch=5)
        append_fetched(source.open_log("t", 0), buffer.tobytes(), 0, 0)
        assert len(list(copy_to_bucket(source, log))) == 1


def producers_of(log: CommitLog) -> list[tuple[int, int, int]]:
    """Id, last sequence and last offset of the producers, as a reader and a copy see them."""
    shown = BucketFileSystem(log)
    manager = LogManager.open(shown.root, filesystem=shown, clock=ManualClock())
    with manager, manager.open_reader("t", 0) as reader:
        return [(id_, each.last_sequence, each.last_offset) for id_, each in reader.producers.producers.items()]


def test_producers_of_a_copied_directory_are_known_after_later_slices_were_consolidated(tmp_path: Path) -> None:
    store = MemoryStore()
    log = commit_log(store)
    copied(log, tmp_path / "log", producer_id=7, producer_epoch=0, base_sequence=0)
    assert producers_of(log) == [(7, 1, 1)]
    for _ in range(2):
        write_pairs(log, (None, b"c"), time_ms=1)
        (segment,) = run(log).segments
        name = segment.key(place_of(log).topic.topic_id, 0)
        (producer,) = checkpoints.decode_snapshot(store.objects[name + file_names.SNAPSHOT])
        assert (producer.producer_id, producer.last_offset) == (7, 1)
        assert producers_of(log) == [(7, 1, 1)]


def test_epochs_of_a_copied_directory_go_on(tmp_path: Path) -> None:
    store = MemoryStore()
    log = commit_log(store)
    copied(log, tmp_path / "log")
    write_pairs(log, (None, b"c"), time_ms=1)
    (segment,) = run(log).segments
    place = place_of(log)
    data = np.frombuffer(read_part(place, segment), np.uint8)
    assert formats.scan(data).headers.table["leader_epoch"].tolist() == [5]
    assert epochs_before(place, segment.end).entries == ((5, 0),)
    assert [value for _, _, value in read_rows(log)] == [b"a", b"b", b"c"]


def test_what_was_aborted_is_consolidated_and_what_is_open_is_left() -> None:
    store = MemoryStore()
    log = filled(store, 1)
    first, second = Client(log), Client(log, "y", PRODUCER + 1)
    first.append(b"lost" * 50)
    second.append(b"open")
    first.append(b"lost", b"lost")
    first.end(commit=False)
    first.append(b"kept")
    first.end(commit=True)
    kept = {offset: value for offset, value in shown(log, Isolation.READ_UNCOMMITTED).items() if offset < 4}
    done = run(log, LogConfig(segment_bytes=1 << 20, segment_ms=1), now_ms=2**60)
    assert [(each.base, each.end) for each in done.segments] == [(0, 4)]
    assert kept.keys() == {0, 1, 2}
    second.end(commit=True)
    before = shown(log)
    assert {*before} == {0, 1, 2, 4, 7}
    assert len(run(log, LogConfig(segment_bytes=1 << 20, segment_ms=1), now_ms=2**60).segments) == 1
    assert shown(log) == shown(log, Isolation.READ_UNCOMMITTED) == before
    assert collect(log, CollectLimits(0, 0)).dropped
    assert shown(commit_log(store, 1)) == before
