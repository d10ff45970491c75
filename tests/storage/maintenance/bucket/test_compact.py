"""Compaction on an object store: the newest record of each key stays, and the segments are Kafka's."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.bucket.collecting import CollectLimits, collect
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.commit import Segment, commit_key
from pyspark_commitlog.storage.bucket.stores.patience import PatientStore
from pyspark_commitlog.storage.bucket.upkeep import raise_log_start
from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.config import CleanerConfig, LogConfig
from pyspark_commitlog.storage.errors import CorruptionError
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.files.checkpoints import ProducerEntry, decode_snapshot, encode_snapshot
from pyspark_commitlog.storage.maintenance.bucket.compact import Compaction, compact
from pyspark_commitlog.storage.maintenance.bucket.consolidate import consolidate
from pyspark_commitlog.storage.maintenance.bucket.scratch import read_part
from tests.support.clock import ManualClock
from tests.support.stores.commits import commit_log, create_topic
from tests.support.stores.filled import Pair, place_of, read_rows, write_pairs
from tests.support.stores.killing import Killed, KillingStore
from tests.support.stores.memory_store import MemoryStore

NOW_MS = 10_000_000
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=600, delete_retention_ms=1000, min_cleanable_dirty_ratio=0.1
)
CLEANER = CleanerConfig(dedupe_buffer_size=1 << 20, threads=1)


def run(log: CommitLog, now_ms: int = NOW_MS, config: LogConfig = CONFIG) -> Compaction:
    return compact(place_of(log), config, Cleaner(CLEANER), ManualClock(now_ms), now_ms)


def filled(store: MemoryStore, writes: int = 12, seed: int = 3) -> tuple[CommitLog, dict[bytes | None, bytes | None]]:
    """A log with many records of few keys; and what a reader must find."""
    log, random = commit_log(store), Random(seed)
    log.commit(lambda _: create_topic())
    newest: dict[bytes | None, bytes | None] = {}
    for number in range(1, writes + 1):
        pairs: list[Pair] = [
            (b"k%d" % random.randrange(8), random.choice([b"v%d" % number, b"w" * 20])) for _ in range(6)
        ]
        write_pairs(log, *pairs, batch_bytes=200)
        newest.update(pairs)
    return log, newest


def table_of(log: CommitLog) -> dict[bytes | None, bytes | None]:
    return {key: value for _, key, value in read_rows(log)}


def test_the_newest_record_of_each_key_stays_at_its_offset() -> None:
    store = MemoryStore()
    log, newest = filled(store)
    before = read_rows(log)
    done = run(log)
    after = read_rows(log)
    assert table_of(log) == newest
    assert len(after) == len({key for _, key, _ in before})
    assert set(after) <= set(before)
    assert log.state.partitions[place_of(log).topic.topic_id, 0].end == len(before)
    assert done.is_whole
    assert place_of(log).state.clean_end == len(before)
    assert sum(each.records for each in done.segments) == len(after)
    assert run(log).rounds == ()  # it is clean


def test_producers_whose_batches_are_gone_are_still_known() -> None:
    store = MemoryStore()
    log, _ = filled(store)
    consolidate(place_of(log), LogConfig(segment_ms=1), ManualClock(NOW_MS), NOW_MS)
    (segment,) = place_of(log).parts
    assert isinstance(segment, Segment)
    topic_id = place_of(log).topic.topic_id
    known = ProducerEntry(99, 0, 5, 3, 0, NOW_MS, -1, -1)
    store.put(segment.key(topic_id, 0) + file_names.SNAPSHOT, encode_snapshot([known]))
    (put,) = run(log).segments
    assert put.records < segment.records
    assert decode_snapshot(store.objects[put.key(topic_id, 0) + file_names.SNAPSHOT]) == [known]


def test_a_tombstone_goes_once_readers_had_the_time_to_see_it() -> None:
    store = MemoryStore()
    log, newest = filled(store)
    write_pairs(log, (b"k1", None))
    run(log)
    assert table_of(log) == {**newest, b"k1": None}
    write_pairs(log, *[(b"other", b"x" * 30)] * 30)
    run(log, NOW_MS + 5000)
    write_pairs(log, *[(b"other", b"x" * 30)] * 30)
    run(log, NOW_MS + 10_000)
    assert table_of(log) == {**{key: value for key, value in newest.items() if key != b"k1"}, b"other": b"x" * 30}


def test_a_run_that_is_killed_at_any_step_loses_no_newest_record_and_the_next_one_ends_it() -> None:
    puts = 0
    while True:
        store = MemoryStore()
        log, newest = filled(store, 5)
        try:
            run(commit_log(KillingStore(store, puts)))
        except Killed:
            assert table_of(commit_log(store)) == newest
            collect(commit_log(store), CollectLimits(0, 0))
            run(commit_log(store))
            log = commit_log(store)
            assert table_of(log) == newest
            assert place_of(log).state.clean_end == 30
            puts += 3
            continue
        assert puts > 6
        return


def beside(monkeypatch: pytest.MonkeyPatch, other: Callable[[], object]) -> None:
    """Lets ``other`` act once, after a run has copied the partition and before it puts anything."""
    real = PatientStore.put_unique

    def late(store: PatientStore, key: str, data: bytes) -> None:
        monkeypatch.setattr(PatientStore, "put_unique", real)
        other()
        real(store, key, data)

    monkeypatch.setattr(PatientStore, "put_unique", late)


def test_of_two_runs_at_once_the_slower_one_drops_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    log, newest = filled(store)
    beside(monkeypatch, lambda: run(commit_log(store, 1)))
    done = run(log)
    assert (done.segments, done.is_whole) == ([], False)
    assert table_of(log) == newest


def test_records_that_are_written_and_retained_beside_it_do_not_disturb_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    log, newest = filled(store)
    topic_id = place_of(log).topic.topic_id

    def other() -> None:
        another = commit_log(store, 1)
        write_pairs(another, (b"k1", b"new"))
        another.commit(lambda state: raise_log_start(state, topic_id, 0, 1))

    beside(monkeypatch, other)
    assert run(log).is_whole
    log.catch_up()
    assert table_of(log) == {**newest, b"k1": b"new"}
    assert log.state.partitions[topic_id, 0].log_start == 1


@pytest.mark.parametrize("at", [11, 16, 70, 170], ids=["a size", "a magic", "a record", "a later record"])
def test_a_damaged_slice_is_reported_and_nothing_is_changed(at: int) -> None:
    store = MemoryStore()
    log, _ = filled(store)
    part = place_of(log).parts[3]
    key, number = place_of(log).key(part), log.state.number
    broken = bytearray(store.objects[key])
    broken[at] ^= 1
    store.objects[key] = bytes(broken)
    with pytest.raises(CorruptionError, match=key):
        run(log)
    assert commit_key(number + 1) not in store.objects


def test_a_damaged_or_missing_segment_is_reported() -> None:
    store = MemoryStore()
    log, _ = filled(store)
    run(log)
    place = place_of(log)
    key = place.key(place.parts[-1])
    sound = store.objects[key]
    store.objects[key] = sound[:-1]
    with pytest.raises(CorruptionError, match=f"{key}.*SHA-256"):
        read_part(place, place.parts[-1])
    del store.objects[key]
    with pytest.raises(CorruptionError, match=f"{key}.*missing"):
        read_part(place, place.parts[-1])


def test_a_topic_that_was_only_consolidated_before_is_compacted_from_its_start() -> None:
    store = MemoryStore()
    log, newest = filled(store)
    consolidate(place_of(log), LogConfig(segment_bytes=600, segment_ms=1), ManualClock(NOW_MS), NOW_MS)
    assert all(not part.is_compacted for part in place_of(log).parts if isinstance(part, Segment))
    run(log)
    assert table_of(log) == newest
    assert len(read_rows(log)) == len(newest)


def test_segments_keep_their_batches_and_say_what_they_hold() -> None:
    store = MemoryStore()
    log, _ = filled(store)
    run(log)
    place = place_of(log)
    for part in place.parts:
        assert isinstance(part, Segment)
        buffer = np.frombuffer(read_part(place, part), np.uint8)
        headers = formats.scan(buffer).headers
        assert int(headers.table["count"].sum()) == part.records
        assert int(headers.table["max_timestamp"].max(initial=-1)) == part.max_timestamp
        assert set(headers.table["leader_epoch"].tolist()) <= {0}
        assert set(headers.table["base_offset"].tolist()) <= set(range(part.base, part.end))
