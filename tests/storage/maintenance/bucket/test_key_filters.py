"""Key filters on an object store: objects beside consolidated segments, which go with them."""

from __future__ import annotations

from pyspark_commitlog.storage import Condition, filter_partitions, retain_partitions
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.maintenance.partitions import compact_partitions, verify_partitions
from pyspark_commitlog.storage.maintenance.run import MaintenanceRun
from tests.storage.finding.scanning import found
from tests.storage.maintenance.bucket.test_operations import DAY_MS, NOW_MS, carry_out, made, run_on
from tests.support.stores.filled import write_pairs
from tests.support.stores.memory_store import MemoryStore


def filled(store: MemoryStore) -> CommitLog:
    """Three consolidated segments, of which the second has the key b, and a slice."""
    log = made(store, segment_bytes="300", segment_ms="1000", keyfilter_enable="true", retention_ms="-1")
    for key in (b"a", b"b", b"c"):
        write_pairs(log, *((key, b"v" * 20) for _ in range(5)), time_ms=NOW_MS - DAY_MS)
        carry_out(compact_partitions, run_on(log, "segment.ms=1"))
    write_pairs(log, (b"d", b"v"), time_ms=NOW_MS)
    return log


def filters(store: MemoryStore) -> list[str]:
    return sorted(facts.key for facts in store.list("segments") if facts.key.endswith(".keyfilter"))


def offsets(run: MaintenanceRun, key: bytes) -> list[int]:
    with run.manager() as manager:
        return [row.offset for row in found(manager, "t", Condition(key=key))]


def test_segments_of_an_object_store_get_filters_and_are_passed_over() -> None:
    store = MemoryStore()
    run = run_on(filled(store))
    [outcome] = carry_out(filter_partitions, run)
    assert (outcome.facts["made"], len(filters(store))) == (3, 3)
    assert [each.facts["kept"] for each in carry_out(filter_partitions, run)] == [3]
    assert offsets(run, b"b") == list(range(5, 10))
    assert offsets(run, b"d") == [15]
    for facts in list(store.list("segments")):
        if facts.key.endswith(".log") and facts.key.split("/")[-1] < f"{5:020}":
            store.put(facts.key, bytes(facts.size))  # what is passed over is not read
    assert offsets(run, b"b") == list(range(5, 10))


def test_a_damaged_filter_and_one_of_another_segment_are_not_believed() -> None:
    store = MemoryStore()
    run = run_on(filled(store))
    carry_out(filter_partitions, run)
    first, second, third = filters(store)
    store.put(first, store.get(second, limit=1 << 20))
    store.put(second, store.get(third, limit=1 << 20))
    store.put(third, b"damaged")
    assert offsets(run, b"a") == list(range(5))
    assert offsets(run, b"b") == list(range(5, 10))
    assert offsets(run, b"c") == list(range(10, 15))
    kinds = [each["kind"] for each in carry_out(verify_partitions, run)[0].facts["findings"]]
    assert kinds == ["bad-key-filter"]
    assert [each.facts["made"] for each in carry_out(filter_partitions, run)] == [3]
    assert carry_out(verify_partitions, run)[0].facts["findings"] == []


def test_a_filter_is_deleted_with_its_segment() -> None:
    store = MemoryStore()
    log = filled(store)
    carry_out(filter_partitions, run_on(log))
    settings = ("retention.ms=1", "delete.grace.ms=0", "staged.retention.ms=0")
    for _ in range(2):  # the first run drops segments, the second collects their objects
        carry_out(retain_partitions, run_on(log, *settings))
    assert filters(store) == []
    assert [facts.key for facts in store.list("segments")] == []
