"""What the process that commits a query by format knows of its log. ``test_on_bucket`` runs such queries on Spark."""

from __future__ import annotations

from unittest import mock

import pytest

from pyspark_commitlog.pipeline.write import stream
from pyspark_commitlog.pipeline.write.exactly_once.progress import Run
from pyspark_commitlog.pipeline.write.publication import bucket
from pyspark_commitlog.storage.bucket.commits.commit import GroupOffset, OffsetsChange
from pyspark_commitlog.storage.errors import ProgressMismatchError
from tests.pipeline.inline_bucket import URL, BucketDriver, reader
from tests.pipeline.inline_spark import TOPIC
from tests.support.stores.memory_store import MemoryStore


def test_a_log_that_was_set_back_during_a_run_is_refused_by_the_run_and_taken_by_the_next_one() -> None:
    store = MemoryStore()
    driver = BucketDriver(store)
    driver.write(0)
    with driver.running(), mock.patch.object(stream, "_PUBLICATIONS", {}):
        kept = stream._publication_of(URL, Run("app", "query", "run"))
        older = dict(store.objects)
        reader(store).commit(lambda _: OffsetsChange({"app": {f"__sink.{TOPIC}-0": GroupOffset(3, "")}}))
        bucket.opened(URL)
        assert stream._publication_of(URL, Run("app", "query", "run")) is kept
        store.objects = older
        bucket.opened(URL)  # Spark makes a writer before it commits
        with pytest.raises(ProgressMismatchError, match=r"this process remembers that batch 2 .* up to 0"):
            stream._publication_of(URL, Run("app", "query", "run"))
        assert stream._publication_of(URL, Run("app", "query", "next run")) is not kept
