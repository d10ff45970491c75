"""The progress of a writer of Spark Connect, whose query is known, one of several, or not known."""

from __future__ import annotations

import pytest

from pyspark_commitlog.pipeline.write.exactly_once.progress import Progress, Run, progress_key
from pyspark_commitlog.storage import CommittedOffset, InvalidConfigError, ProgressMismatchError

WRITTEN = 3  # the newest version that the topic has


def remote(*queries: str, run_id: str = "run") -> Run:
    """A run with Spark Connect, of one of ``queries``."""
    return Run("app", queries[0] if len(queries) == 1 else "", run_id, frozenset(queries), is_remote=True)


CLASSIC, BATCH = Run("app", "a", "classic run"), Run("app", "", "")


def progress(run: Run, writer: Run, version: int) -> Progress:
    """The progress of ``run``, about to write ``version`` to a topic that has WRITTEN from ``writer``."""
    metadata = Progress(writer, WRITTEN, {}).offsets({"t": 1})["app"][progress_key("t")].metadata
    return Progress(run, version, {progress_key("t"): CommittedOffset(WRITTEN + 1, metadata)})


@pytest.mark.parametrize("writer", [remote("a", run_id="first"), CLASSIC])
@pytest.mark.parametrize("version", [WRITTEN - 1, WRITTEN])
def test_batch_of_the_same_query_is_skipped(writer: Run, version: int) -> None:
    assert progress(remote("a"), writer, version).is_done("t")


@pytest.mark.parametrize("run", [remote("b"), remote("b", "c")])
@pytest.mark.parametrize("writer", [remote("a"), CLASSIC, remote("a", "d")])
@pytest.mark.parametrize("version", [0, WRITTEN, WRITTEN + 1])
def test_batch_of_a_new_checkpoint_is_refused(run: Run, writer: Run, version: int) -> None:
    with pytest.raises(InvalidConfigError, match=r"as query a( or d)?, but this is query b( or c)?: .* another txnApp"):
        progress(run, writer, version).is_done("t")


@pytest.mark.parametrize(
    ("run", "writer"),
    [
        (remote("a"), remote("a", "b")),
        (remote("a", "b"), remote("a")),
        (remote("a", "b"), remote("a", "b")),
        (remote("a"), remote()),
        (remote(), remote("a")),
        (remote(), remote()),
        (remote("a"), BATCH),
    ],
)
def test_batch_of_perhaps_another_query_is_refused_with_the_ways_out(run: Run, writer: Run) -> None:
    run = run._replace(run_id="next run")
    with pytest.raises(ProgressMismatchError, match=r"cannot be told .* another txnAppId.* delete the .* --delete-off"):
        progress(run, writer, WRITTEN).is_done("t")
    assert not progress(run, writer, WRITTEN + 1).is_done("t")


def test_batch_of_one_of_several_queries_is_refused_in_a_classic_session_of_another() -> None:
    with pytest.raises(InvalidConfigError, match="as query b or c, but this is query a"):
        progress(CLASSIC, remote("b", "c"), WRITTEN).is_done("t")


def test_version_that_a_program_numbers_itself_is_skipped_when_it_is_written_again() -> None:
    assert progress(BATCH, BATCH, WRITTEN).is_done("t")
    assert progress(BATCH, remote("a", "b"), WRITTEN).is_done("t")
