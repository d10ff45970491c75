"""What is beside segments of older formats is rebuilt, and a commit says of the segment what it said before."""

from __future__ import annotations

from pathlib import Path

from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.commit import Segment
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.maintenance.bucket.rebuild import rebuild
from pyspark_commitlog.storage.transfer.to_bucket import copy_to_bucket
from tests.support.clock import ManualClock
from tests.support.kafka import broker_dirs
from tests.support.stores.commits import commit_log
from tests.support.stores.filled import place_of
from tests.support.stores.memory_store import MemoryStore


def test_what_a_segment_says_of_transactions_that_began_before_it_is_kept(tmp_path: Path) -> None:
    store = MemoryStore()
    log = commit_log(store)
    directory = broker_dirs.copy_to(tmp_path / "log", "transactions/final")
    with LogManager.open(str(directory), clock=ManualClock()) as source:
        copied = [(each.topic, each.partition) for each in copy_to_bucket(source, log, limit=1000) if each.segments]
    found = 0
    for topic, partition in copied:
        before = beside(log, store, topic, partition, drop=".index")
        place = place_of(log, topic, partition)
        rebuild(place, LogConfig.from_mapping(place.topic.configs), ManualClock())
        after = beside(log, store, topic, partition)
        assert {each: after[each] for each in before} == before
        found += len(before)
    assert found


def beside(
    log: CommitLog, store: MemoryStore, topic: str, partition: int, drop: str = ""
) -> dict[tuple[int, str], bytes]:
    """Indexes of aborted transactions, and snapshots, by base offset and suffix; deletes the objects ``drop``."""
    place, found = place_of(log, topic, partition), dict[tuple[int, str], bytes]()
    for part in place.parts:
        assert isinstance(part, Segment)
        name = part.key(place.topic.topic_id, partition)
        store.objects.pop(f"{name}{drop}", None)
        kinds = [kind for kind in (".txnindex", ".snapshot") if f"{name}{kind}" in store.objects]
        found |= {(part.base, kind): store.objects[f"{name}{kind}"] for kind in kinds}
    return found


def test_a_segment_of_an_older_format_that_is_put_again_has_the_same_records() -> None:
    store = MemoryStore()
    log = commit_log(store)
    with LogManager.open(str(broker_dirs.legacy() / "log"), clock=ManualClock()) as source:
        copied = [(each.topic, each.partition) for each in copy_to_bucket(source, log) if each.segments]
    assert copied
    for topic, partition in copied:
        place = place_of(log, topic, partition)
        before = [part for part in place.parts if isinstance(part, Segment)]
        for part in before:
            del store.objects[f"{part.key(place.topic.topic_id, partition)}.index"]
        rebuild(place, LogConfig.from_mapping(place.topic.configs), ManualClock())
        after = place_of(commit_log(store, 1), topic, partition).parts  # as another process reads it
        assert [part._replace(uuid="") for part in after if isinstance(part, Segment)] == [
            part._replace(uuid="") for part in before
        ]
