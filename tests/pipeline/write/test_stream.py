"""What the process that commits a query by format knows of its log. ``test_on_bucket`` runs such queries on Spark."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from pyspark_commitlog.pipeline.write import stream
from pyspark_commitlog.pipeline.write.exactly_once.checkpoint import LocalCheckpoint, Note, Target
from pyspark_commitlog.pipeline.write.exactly_once.progress import Run
from pyspark_commitlog.pipeline.write.publication import bucket
from pyspark_commitlog.storage.bucket.commits.commit import GroupOffset, OffsetsChange
from pyspark_commitlog.storage.errors import ProgressMismatchError, StoreAccessError
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


def checkpoint_after(directory: Path, url: str, app_id: str) -> dict[str, str]:
    """Makes the checkpoint of a query that committed batch 0 to ``url`` and planned batch 1; returns its options."""
    (directory / "offsets").mkdir(parents=True)
    (directory / "metadata").write_text(json.dumps({"id": "query"}))
    for batch in ("0", "1", ".1.crc"):
        (directory / "offsets" / batch).write_text("v1")
    with LocalCheckpoint(str(directory)).secured(Target(app_id, url, {TOPIC: None}), {TOPIC: Note(0, 0, None)}) as done:
        done.result()
    return {"path": URL, "topic": TOPIC, "checkpointLocation": str(directory)}


SCHEMA = StructType([StructField("value", StringType())])


@pytest.mark.parametrize("named", [{"txnAppId": "app"}, {}], ids=["by its name", "by its query"])
def test_no_log_is_made_in_the_place_of_one_that_had_batches(tmp_path: Path, named: dict[str, str]) -> None:
    store = MemoryStore()
    options = checkpoint_after(tmp_path, URL, named.get("txnAppId", "query")) | named
    with BucketDriver(store).running(), pytest.raises(ProgressMismatchError, match=r"batch 0 of .* has no batch of it"):
        stream.StreamWrite(SCHEMA, options)
    assert store.objects == {}


def test_no_log_is_made_for_a_checkpoint_on_a_store_that_has_committed_batches() -> None:
    store, checkpoints = MemoryStore(), MemoryStore()
    options = {"path": URL, "topic": TOPIC, "checkpointLocation": "s3a://bucket/checkpoints/q"}
    checkpoints.put("commits/9", b"v1")
    checkpoints.put("commits/.10.tmp", b"v1")
    with BucketDriver(store).running(), mock.patch.object(stream, "open_store", return_value=checkpoints):
        with pytest.raises(ProgressMismatchError, match=f"committed batches up to 9, but there is no log at {URL}"):
            stream.StreamWrite(SCHEMA, options)
        assert store.objects == {}
        checkpoints.delete(["commits/9"])
        stream.StreamWrite(SCHEMA, options)
    assert set(reader(store).state.topic_ids) == {TOPIC}


def test_a_checkpoint_on_a_store_that_refuses_access_says_nothing() -> None:
    store = MemoryStore()
    options = {"path": URL, "topic": TOPIC, "checkpointLocation": "s3a://others/checkpoints/q"}
    refusing = mock.Mock(list=mock.Mock(side_effect=StoreAccessError("no")))
    with BucketDriver(store).running(), mock.patch.object(stream, "open_store", return_value=refusing):
        stream.StreamWrite(SCHEMA, options)
    assert set(reader(store).state.topic_ids) == {TOPIC}


@pytest.mark.parametrize(("url", "app_id"), [("s3://bucket/elsewhere", "app"), (URL, "another")])
def test_a_log_is_made_for_a_query_that_had_no_batch_in_it(tmp_path: Path, url: str, app_id: str) -> None:
    store = MemoryStore()
    with BucketDriver(store).running():
        stream.StreamWrite(SCHEMA, {**checkpoint_after(tmp_path, url, app_id), "txnAppId": "app"})
    assert set(reader(store).state.topic_ids) == {TOPIC}
