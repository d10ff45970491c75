"""A search on an object store finds what a search in the directory finds that was copied there."""

from __future__ import annotations

from random import Random

import pytest

from pyspark_commitlog.storage import Isolation, LogManager
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.transfer.to_bucket import copy_to_bucket
from tests.storage.finding.scanning import conditions_from, found
from tests.storage.finding.test_search import of_stage, scan
from tests.support.clock import ManualClock
from tests.support.stores.memory_store import MemoryStore

ROOT = "memory://bucket"


@pytest.mark.parametrize(
    "stage", ["transactions/final", *(pytest.param(each, marks=pytest.mark.only_all) for each in ("codecs/final",))]
)
def test_a_search_on_an_object_store_finds_the_same(stage: str) -> None:
    store, chance = MemoryStore(), Random(stage)
    log = open_root(ROOT, create=True, store=store, check=lambda _: [])
    with LogManager.open(str(of_stage(stage)), clock=ManualClock()) as source:
        list(copy_to_bucket(source, log, limit=10_000))
        files = BucketFileSystem(open_root(ROOT, store=store))
        with LogManager.open(ROOT, filesystem=files, clock=ManualClock()) as bucket:
            topics = [topic for topic in bucket.topics().values() if not topic.name.startswith("__")]
            assert topics
            for topic in topics[:4]:
                for isolation in Isolation:
                    rows = scan(source, topic.name, topic.partitions, isolation)
                    for condition in conditions_from(rows, chance):
                        how = {"isolation": isolation, "newest_first": chance.random() < 0.5, "all_partitions": True}
                        expected = found(source, topic.name, condition, **how)
                        assert found(bucket, topic.name, condition, **how) == expected
