"""What is beside segments of older formats is rebuilt, and a commit says of the segment what it said before."""

from __future__ import annotations

from pyspark_commitlog.storage.bucket import Segment
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.directory import LogManager
from pyspark_commitlog.storage.maintenance.bucket.rebuild import rebuild
from pyspark_commitlog.storage.transfer import copy_to_bucket
from tests.support.clock import ManualClock
from tests.support.kafka import broker_dirs
from tests.support.stores.commits import commit_log
from tests.support.stores.filled import place_of
from tests.support.stores.memory_store import MemoryStore


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
