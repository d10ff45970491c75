"""Whether a committed offset shows that a batch was written: only a writer's, with the digest of its plan."""

from __future__ import annotations

import json

import pytest

from pyspark_commitlog.gateway.producer_ids import APP
from pyspark_commitlog.pipeline.write.exactly_once.checkpoint import NO_PLAN, Plan
from pyspark_commitlog.pipeline.write.exactly_once.progress import Progress, Run, check_app_id, progress_key
from pyspark_commitlog.storage import CommittedOffset, InvalidConfigError, ProgressMismatchError
from pyspark_commitlog.storage.bucket.commits.commit import APP_PREFIX

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
