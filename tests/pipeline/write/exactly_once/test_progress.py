"""Whether a committed offset shows that a batch was written: only a writer's, with the digest of its plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.producer_ids import APP
from pyspark_commitlog.pipeline.write.answers import Written
from pyspark_commitlog.pipeline.write.exactly_once.checkpoint import NO_PLAN, Plan
from pyspark_commitlog.pipeline.write.exactly_once.progress import Progress, Run, check_app_id, progress_key
from pyspark_commitlog.storage import (
    CommittedOffset,
    GroupOffsets,
    InvalidConfigError,
    LogManager,
    ProgressMismatchError,
    TopicDescription,
)
from pyspark_commitlog.storage.bucket.commits.commit import APP_PREFIX
from tests.support.logs.directories import directory_with_internal_topics

KNOWN = Plan("/checkpoint/offsets/1", "digest")
WRITTEN = {"queryId": "query", "runId": "other run", "records": 5}


def progress(metadata: str, plan: Plan, *, offset: int = 1000) -> Progress:
    """Of batch 1, in a log whose committed offset says that the topic has the batches below ``offset``."""
    return Progress(Run("app", "query", "run"), 1, {progress_key("t"): CommittedOffset(offset, metadata)}, plan)


@pytest.mark.parametrize("plan", [KNOWN, NO_PLAN], ids=["a query", "df.write, Spark Connect"])
@pytest.mark.parametrize("metadata", ["", "{}", "[]", "null", "not JSON", '{"plan": "digest"}'])
def test_an_offset_that_no_writer_committed_skips_no_batch(metadata: str, plan: Plan) -> None:
    with pytest.raises(ProgressMismatchError, match=r"up to 999 .* not that of a writer, .* batch 1 might lose"):
        progress(metadata, plan).is_done("t")
    assert not progress(metadata, plan, offset=1).is_done("t")


def test_an_offset_without_a_digest_skips_no_batch_of_a_query_that_knows_its_plan() -> None:
    with pytest.raises(ProgressMismatchError, match=r"no digest of the plan.*commitlog groups --delete-offsets"):
        progress(json.dumps(WRITTEN), KNOWN).is_done("t")
    assert progress(json.dumps(WRITTEN), NO_PLAN).is_done("t")
    assert progress(json.dumps({**WRITTEN, "plan": KNOWN.digest}), KNOWN).is_done("t")


@pytest.mark.parametrize("name", [APP, f"{APP_PREFIX}client"])
def test_a_writer_has_no_name_under_which_a_gateway_writes(name: str) -> None:
    with pytest.raises(InvalidConfigError, match="reserved: a gateway over an object store"):
        check_app_id(name)
    check_app_id(name.removeprefix("__"))


def test_progress_in_topics_of_many_partitions_is_stored_and_found(tmp_path: Path) -> None:
    """A committed offset has room for 32,767 bytes of metadata, as in Kafka; the ends of 5,000 partitions need more."""
    numbers = range(5000)
    topics = {name: TopicDescription(name, tuple(numbers), {}, f"id of {name}") for name in ("t", "bad")}
    ends = {(name, number): 10**12 + number for name in topics for number in numbers}
    written = [Written(*each, end - 2, end - 2, 1, 70, -1) for each, end in ends.items()]
    directory = directory_with_internal_topics(tmp_path / "log")
    with LogManager.open(directory) as manager:
        groups = GroupOffsets(manager)
        for version in range(2):  # the second batch writes to the first partition only
            before = Progress(Run("app", "query", f"run {version}"), version, groups.fetch("app"))
            some = written if version == 0 else [Written("t", 0, 10**12, 10**12, 1, 70, -1)]
            _, offsets = before.to_commit(["t"], some, topics)
            groups.commit("app", offsets["app"])
        after = Progress(Run("app", "query", "run"), 1, groups.fetch("app"))
    assert after.is_done("t")
    assert after.counted(topics) == {**ends, ("t", 0): 10**12 + 2}
