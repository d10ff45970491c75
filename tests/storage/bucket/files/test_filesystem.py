"""The log on an object store as a log directory: what readers find, how many requests they take, and damage."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pytest

from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.commit import (
    GroupOffset,
    OffsetsChange,
    RetainChange,
    Segment,
    SwapChange,
    TopicChange,
)
from pyspark_commitlog.storage.bucket.files import filesystem as filesystem_module, layout
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.bucket.files.layout import MadeSegment, files_of
from pyspark_commitlog.storage.bucket.files.parts import Part, Parts
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.staged_objects import Footer
from pyspark_commitlog.storage.bucket.topics import delete_topic, find_topic
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import CorruptionError, StorageError
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from pyspark_commitlog.storage.format.tables import Records
from pyspark_commitlog.storage.groups.offsets import GroupOffsets
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.verify.log import CheckpointedOffsets, verify_log
from tests.support.logs.building import NOW_MS, records
from tests.support.stores.commits import hex_id
from tests.support.stores.filling import make_topic, write
from tests.support.stores.memory_store import MemoryStore

ROOT = "memory://bucket"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def log(store: MemoryStore) -> CommitLog:
    return open_root(ROOT, create=True, store=store, check=lambda _: [])


def manager_of(store: MemoryStore) -> LogManager:
    return LogManager.open(ROOT, filesystem=BucketFileSystem(open_root(ROOT, store=store)))


def numbered(start: int, count: int, *, size: int = 20, step_ms: int = 1) -> Records:
    """Records whose values begin with their numbers, and whose times rise with them."""
    values = [f"{number}|".encode().ljust(size, b".") for number in range(start, start + count)]
    return records(values, timestamps=[NOW_MS + step_ms * number for number in range(start, start + count)])


def numbers(reader: LogReader, start: int = 0, end: int | None = None) -> list[int]:
    found: list[int] = []
    for table in reader.records(start, reader.log_end_offset if end is None else end):
        assert table.values is not None
        values = [int((value or b"").split(b"|")[0]) for value in table.values.to_list()]
        assert values == table.offsets.tolist()
        found += values
    return found


def fill(log: CommitLog, sizes: Sequence[int], **options: int) -> int:
    """Creates a topic of one partition and writes so many records a commit; returns how many."""
    make_topic(log, "t")
    start = 0
    for size in sizes:
        write(log, "t", {0: [numbered(start, size, size=options.get("size", 20))]}, batch_bytes_max=400)
        start += size
    return start


def requests(store: MemoryStore) -> int:
    return sum(store.requests.values())


def test_records_are_read_from_every_offset_with_their_offsets(log: CommitLog, store: MemoryStore) -> None:
    count = fill(log, [1, 7, 40, 3, 25])
    with manager_of(store) as manager, manager.open_reader("t", 0) as reader:
        assert (reader.log_start_offset, reader.log_end_offset) == (0, count)
        for start in range(count + 1):
            assert numbers(reader, start) == list(range(start, count))


def test_a_slice_larger_than_a_part_is_read_from_any_of_its_batches(
    log: CommitLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("parts", "slices", "open_files"):
        monkeypatch.setattr(f"pyspark_commitlog.storage.bucket.files.{module}.PART_BYTES", 1000)
    count = fill(log, [150, 1, 90])
    with manager_of(store) as manager, manager.open_reader("t", 0) as reader:
        for start in range(0, count, 7):
            assert numbers(reader, start) == list(range(start, count))


def test_any_bytes_of_a_file_are_those_of_the_whole_file(log: CommitLog, store: MemoryStore) -> None:
    fill(log, [30, 1, 12])
    filesystem = BucketFileSystem(open_root(ROOT, store=store))
    with filesystem.open(f"{ROOT}/t-0/{0:020}.log", "read") as file:
        whole = bytes(file.read(0, file.size()))
        assert len(whole) == file.size()
        for position in range(0, file.size(), 3):
            for length in (1, 5, 8, 13, 200, 10_000):
                assert bytes(file.read(position, length)) == whole[position : position + length]


def test_many_slices_are_shown_as_several_segments(
    log: CommitLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "SEGMENT_BYTES_MAX", 3000)
    count = fill(log, [20] * 12)
    with manager_of(store) as manager, manager.open_reader("t", 0) as reader:
        described = reader.describe_segments()
        assert len(described) > 3
        assert [each.base_offset for each in described[1:]] == [each.next_offset for each in described[:-1]]
        assert max(each.size for each in described) <= 3000
        assert numbers(reader) == list(range(count))


def test_a_time_is_found_wherever_it_is(log: CommitLog, store: MemoryStore) -> None:
    count = fill(log, [5, 40, 1, 30])
    with manager_of(store) as manager, manager.open_reader("t", 0) as reader:
        for offset in range(0, count, 3):
            found = reader.offset_for_timestamp(NOW_MS + offset)
            assert found is not None
            assert found.offset == offset
        assert reader.offset_for_timestamp(NOW_MS + count) is None
        newest = reader.offset_of_max_timestamp()
        assert newest is not None
        assert newest.offset == count - 1


def test_times_that_do_not_rise_are_found(log: CommitLog, store: MemoryStore) -> None:
    make_topic(log, "t")
    times = np.random.default_rng(5).integers(0, 1000, 120)
    for rows in np.split(times, [30, 31, 80]):
        write(log, "t", {0: [records([b"x"] * len(rows), timestamps=rows.tolist())]}, batch_bytes_max=300)
    with manager_of(store) as manager, manager.open_reader("t", 0) as reader:
        for wanted in range(0, 1001, 37):
            found = reader.offset_for_timestamp(wanted)
            expected = np.flatnonzero(times >= wanted)
            assert (None if found is None else found.offset) == (int(expected[0]) if len(expected) else None)


def test_few_requests_open_a_log_look_for_an_offset_a_time_and_what_is_new(log: CommitLog, store: MemoryStore) -> None:
    count = fill(log, [20] * 80, size=1500)
    filesystem = BucketFileSystem(open_root(ROOT, store=store))
    store.requests.clear()
    with LogManager.open(ROOT, filesystem=filesystem) as manager, manager.open_watcher("t", 0) as watcher:
        assert watcher.end_offset(Isolation.READ_COMMITTED) == count
        assert requests(store) == 1  # a look at what is new: the commits say where the log ends
        store.requests.clear()
        next(iter(watcher.records(count // 2, count // 2 + 1)))
        assert requests(store) <= 5
        store.requests.clear()
        watcher.offset_for_timestamp(NOW_MS + count // 3)
        assert requests(store) <= 4
        store.requests.clear()
        watcher.catch_up()
        assert requests(store) == 1


def test_a_full_read_takes_a_request_for_a_slice_and_reads_ahead(log: CommitLog, store: MemoryStore) -> None:
    count = fill(log, [20] * 80)
    with manager_of(store) as manager, manager.open_reader("t", 0) as reader:
        store.requests.clear()
        assert len(numbers(reader)) == count
        assert requests(store) == 80


def test_what_follows_is_asked_for_where_a_reader_goes_on_at_the_batch_that_its_read_cut(
    log: CommitLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("parts", "slices", "open_files"):
        monkeypatch.setattr(f"pyspark_commitlog.storage.bucket.files.{module}.PART_BYTES", 1000)
    fill(log, [400])
    filesystem = BucketFileSystem(open_root(ROOT, store=store))
    with filesystem.open(f"{ROOT}/t-0/{0:020}.log", "read") as file:
        file.read(0, 2000)
        assert parts_asked_for(filesystem) == [0, 1000]
        file.read(1900, 2000)
        assert parts_asked_for(filesystem) == [0, 1000, 2000, 3000, 4000, 5000]


def parts_asked_for(filesystem: BucketFileSystem) -> list[int]:
    return sorted(start for _, start, _ in filesystem._parts._kept)


def test_a_file_stays_the_same_one_when_a_state_forgets_objects(log: CommitLog, store: MemoryStore) -> None:
    fill(log, [4, 4, 4])
    swap(log, store, 0, 4)
    topic_id = find_topic(log.state, "t").topic_id
    before = files_of(log.state, topic_id, 0).segments[4]
    log.state.forget_unnamed()
    after = files_of(log.state, topic_id, 0).segments[4]
    assert isinstance(before, MadeSegment)
    assert isinstance(after, MadeSegment)
    assert (after.inode, after.key(0)) == (before.inode, before.key(0))


def test_no_small_slice_is_waited_for_before_it_was_asked_for_with_others(
    log: CommitLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_commitlog.storage.bucket.files.slices.AHEAD_PARTS", 3)
    fill(log, [1] * 20)
    begun: set[Part] = set()
    get = Parts.get

    def watched(self: Parts, wanted: Sequence[Part], ahead: Sequence[Part] = ()) -> list[bytes]:
        assert begun.issuperset(wanted)
        begun.update(ahead)
        return get(self, wanted, ahead)

    monkeypatch.setattr(Parts, "get", watched)
    with manager_of(store) as manager, manager.open_reader("t", 0) as reader:
        assert numbers(reader) == list(range(20))
    assert len(begun) == 20


def test_what_others_commit_is_seen_by_a_watcher_that_catches_up(log: CommitLog, store: MemoryStore) -> None:
    count = fill(log, [4])
    with manager_of(store) as manager, manager.open_watcher("t", 0) as watcher:
        write(log, "t", {0: [numbered(count, 5)]})
        assert watcher.log_end_offset == count
        watcher.catch_up()
        assert numbers(watcher) == list(range(count + 5))


def test_a_moved_log_start_is_seen_and_what_was_read_before_it_is_gone(log: CommitLog, store: MemoryStore) -> None:
    fill(log, [4, 4, 4])
    topic_id = find_topic(log.state, "t").topic_id
    with manager_of(store) as manager, manager.open_watcher("t", 0) as watcher:
        log.commit(lambda _: RetainChange(topic_id, 0, 6))
        watcher.catch_up()
        assert watcher.log_start_offset == 6
        assert numbers(watcher, 6) == list(range(6, 12))
        log.commit(lambda _: RetainChange(topic_id, 0, 12))
        watcher.catch_up()
        assert (watcher.log_start_offset, watcher.log_end_offset) == (12, 12)


def swap(log: CommitLog, store: MemoryStore, base: int, end: int) -> Segment:
    """Puts what is shown from one offset to another as a segment of its own, and commits it."""
    topic_id = find_topic(log.state, "t").topic_id
    state = log.catch_up()
    shown = files_of(state, topic_id, 0)
    filesystem = BucketFileSystem(open_root(ROOT, store=store))
    data = b""
    for first, segment in shown.segments.items():
        assert isinstance(segment, MadeSegment)
        with filesystem.open(f"{ROOT}/t-0/{first:020}.log", "read") as file:
            positions = [0, *segment.starts[1:].tolist()]
            bases = [*segment.slices[:, 0].tolist(), first + int(segment.slices[:, 4].sum())]
            inside = [position for position, each in zip(positions, bases, strict=True) if base <= each <= end]
            data += bytes(file.read(inside[0], inside[-1] - inside[0])) if inside else b""
    put = Segment(base, end, hex_id(77), len(data), end - base, NOW_MS + end - 1, "0" * 64)
    store.put_new(put.key(topic_id, 0) + ".log", data)
    log.commit(lambda _: SwapChange(topic_id, 0, put))
    return put


def test_a_segment_in_place_of_slices_is_read_as_it_was_put(log: CommitLog, store: MemoryStore) -> None:
    count = fill(log, [4, 4, 4])
    with manager_of(store) as manager, manager.open_watcher("t", 0) as watcher:
        assert numbers(watcher) == list(range(count))
        swap(log, store, 4, 8)
        watcher.catch_up()
        assert [each.base_offset for each in watcher.describe_segments()] == [0, 4, 8, 12]
        assert numbers(watcher) == list(range(count))


def test_verify_finds_a_bucket_sound(log: CommitLog, store: MemoryStore) -> None:
    fill(log, [4, 40, 1, 4])
    with manager_of(store) as manager:
        assert verify_all(manager) == []


def verify_all(manager: LogManager) -> list[str]:
    with manager.open_reader("t", 0) as reader:
        marks = reader.checkpoints.read()
        found = verify_log(reader.context, CheckpointedOffsets(marks.recovery_point, marks.log_start_offset))
    return [str(each) for each in found.findings]


def test_an_object_that_is_gone_is_damage_if_the_log_still_names_it(log: CommitLog, store: MemoryStore) -> None:
    fill(log, [4, 4])
    with manager_of(store) as manager, manager.open_reader("t", 0) as reader:
        gone = next(key for key in store.objects if key.startswith("staged/"))
        del store.objects[gone]
        with pytest.raises(CorruptionError, match=f"(?s)lacks an object.*{gone}"):
            numbers(reader)


def test_an_object_that_was_replaced_while_it_was_read_is_looked_for_again(log: CommitLog, store: MemoryStore) -> None:
    count = fill(log, [4, 4])
    with manager_of(store) as manager, manager.open_reader("t", 0) as reader:
        swap(log, store, 0, 8)
        for key in [key for key in store.objects if key.startswith("staged/")]:
            del store.objects[key]
        assert numbers(reader) == list(range(count))


def test_a_damaged_byte_is_damage_with_its_position(log: CommitLog, store: MemoryStore) -> None:
    fill(log, [4, 4])
    keys = sorted(key for key in store.objects if key.startswith("staged/"))
    data = bytearray(store.objects[keys[1]])
    data[100] ^= 1
    store.objects[keys[1]] = bytes(data)
    with manager_of(store) as manager, manager.open_reader("t", 0) as reader, pytest.raises(CorruptionError) as raised:
        numbers(reader)
    assert raised.value.path == f"{ROOT}/t-0/{0:020}.log"


def test_an_object_that_was_cut_is_damage(log: CommitLog, store: MemoryStore) -> None:
    fill(log, [4])
    key = next(key for key in store.objects if key.startswith("staged/"))
    store.objects[key] = store.objects[key][:100]
    with (
        manager_of(store) as manager,
        manager.open_reader("t", 0) as reader,
        pytest.raises(CorruptionError, match="the object has 100 bytes"),
    ):
        numbers(reader)


def test_offsets_of_groups_are_found_and_their_changes_too(log: CommitLog, store: MemoryStore) -> None:
    fill(log, [4])
    log.commit(lambda _: OffsetsChange({"g": {"t-0": GroupOffset(3, "here")}, "h": {"t-0": GroupOffset(1, "")}}))
    with manager_of(store) as manager:
        groups = GroupOffsets(manager)
        offset = groups.fetch("g")[TopicPartition("t", 0)]
        assert (offset.offset, offset.metadata) == (3, "here")
        log.commit(lambda _: OffsetsChange({"g": {"t-0": GroupOffset(4, "")}, "h": {"t-0": None}}))
        assert {group: [each.offset for each in found.values()] for group, found in groups.groups().items()} == {
            "g": [4]
        }


def test_topics_that_are_made_and_deleted_come_and_go(log: CommitLog, store: MemoryStore) -> None:
    fill(log, [4])
    with manager_of(store) as manager:
        make_topic(log, "u", 3, {"retention.ms": "77"})
        topic = find_topic(log.state, "t")
        log.commit(lambda _: TopicChange("delete", "t", topic.topic_id))
        manager.catch_up()
        assert list(manager.topics()) == ["u"]
        assert manager.config("u").retention_ms == 77
        assert manager.topic("u").partitions == (0, 1, 2)
        with manager.open_reader("u", 2) as reader:
            assert (reader.log_start_offset, reader.log_end_offset) == (0, 0)
            assert numbers(reader) == []


def test_no_thread_waits_for_the_files_while_others_wait_for_its_state(
    log: CommitLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, [4])
    log.commit(lambda _: OffsetsChange({"g": {"t-0": GroupOffset(3, "")}}))
    files = BucketFileSystem(open_root(ROOT, store=store))
    held: list[str] = []

    class Watched:
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> None:
            assert self.name == "state" or "state" not in held or "files" in held
            held.append(self.name)

        def __exit__(self, *_: object) -> None:
            held.remove(self.name)

    monkeypatch.setattr(files, "_lock", Watched("files"))
    monkeypatch.setattr(files.log, "_lock", Watched("state"))
    files.catch_up()
    paths = [f"{ROOT}/{name}" for name in files.list(ROOT)]
    directories = [path for path in paths if (status := files.status(path)) and status.is_directory]
    inside = [f"{path}/{name}" for path in directories for name in files.list(path)]
    assert len(inside) > 10
    for path in {*paths, *inside} - {*directories}:
        files.open(path, "read").read(0, 10)


def test_small_files_and_deleted_topics_take_a_bounded_memory(
    log: CommitLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, [4, 4])
    name = swap(log, store, 0, 4).key(find_topic(log.state, "t").topic_id, 0)
    for kind in (".index", ".timeindex", ".leader_epoch_checkpoint", ".snapshot"):
        store.put(f"{name}{kind}", b"0\n0\n" if kind.startswith(".leader") else b"x" * 100)
    monkeypatch.setattr(filesystem_module, "SMALL_FILES_KEPT_BYTES", 250)
    files = BucketFileSystem(open_root(ROOT, store=store))
    paths = [f"{ROOT}/t-0/{each}" for each in files.list(f"{ROOT}/t-0")]
    found = [bytes(files.open(path, "read").read(0, 10_000)) for path in paths]
    assert found == [bytes(files.open(path, "read").read(0, 10_000)) for path in paths]
    kept = files._put_files
    assert sum(len(key) + len(data or b"") for key, data in kept.items()) == files._put_files_bytes <= 250
    log.commit(lambda state: delete_topic(state, "t"))
    files.catch_up()
    assert files._known == {}


def test_a_footer_without_the_slice_is_damage(
    log: CommitLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_commitlog.storage.bucket.files.slices.PART_BYTES", 1000)
    fill(log, [150])
    monkeypatch.setattr(BucketFileSystem, "_footer", lambda *_: Footer(hex_id(2), [("t" * 22, 0, 5, 9)], [[9]], 0))
    file = BucketFileSystem(open_root(ROOT, store=store)).open(f"{ROOT}/t-0/{0:020}.log", "read")
    with pytest.raises(CorruptionError, match=r"staged/.*position 0: the footer does not have the slice"):
        file.read(0, 100)


def test_nothing_can_be_written(log: CommitLog, store: MemoryStore) -> None:
    fill(log, [4])
    filesystem = BucketFileSystem(open_root(ROOT, store=store))
    path = f"{ROOT}/t-0/{0:020}.log"
    for attempt in (
        lambda: filesystem.open(path, "write"),
        lambda: filesystem.open(path, "create"),
        lambda: filesystem.make_directory(f"{ROOT}/u-0"),
        lambda: filesystem.rename(path, f"{path}.deleted"),
        lambda: filesystem.link(path, f"{path}.copy"),
        lambda: filesystem.remove(path),
        lambda: filesystem.set_modified(path, 1),
        lambda: filesystem.sync_directory(ROOT),
        lambda: filesystem.lock(path),
        lambda: filesystem.byte_locks(path),
        lambda: filesystem.lock_shared_with_broker(path),
        lambda: filesystem.open(path, "read").write(0, b""),
        lambda: filesystem.open(path, "read").truncate(0),
        lambda: filesystem.open(path, "read").sync(),
    ):
        with pytest.raises(io.UnsupportedOperation):
            attempt()
    with LogManager.open(ROOT, filesystem=filesystem) as manager, pytest.raises(StorageError, match="read only"):
        manager.open_log("t", 0)
