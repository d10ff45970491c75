"""What may be changed of topics on an object store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_commitlog.storage.bucket.commits.applying import apply
from pyspark_commitlog.storage.bucket.commits.commit import TopicChange
from pyspark_commitlog.storage.bucket.commits.state import State, Topic
from pyspark_commitlog.storage.bucket.staging import BATCH_BYTES_MAX
from pyspark_commitlog.storage.bucket.topics import (
    add_partitions,
    alter_configs,
    create_topic,
    delete_topic,
    ensure_topic,
    find_topic,
)
from pyspark_commitlog.storage.errors import (
    InvalidConfigError,
    InvalidTopicError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from tests.support.stores.commits import follow, state_of


def changed(state: State, change: TopicChange | None) -> Topic | None:
    if change is not None:
        apply(state, follow(state, change))
    return state.topics.get(state.topic_ids.get("t", ""))


@pytest.fixture
def state() -> State:
    state = state_of()
    changed(state, create_topic(state, "t", 2, {"retention.ms": "5"}))
    return state


def test_a_topic_is_created_altered_enlarged_and_deleted(state: State) -> None:
    topic = find_topic(state, "t")
    assert (topic.partitions, topic.configs) == (2, {"retention.ms": "5"})
    assert changed(state, alter_configs(state, "t", {"cleanup.policy": "compact"})) == topic._replace(
        configs={"retention.ms": "5", "cleanup.policy": "compact"}
    )
    altered = changed(state, alter_configs(state, "t", {"retention.ms": None}))
    assert altered is not None
    assert altered.configs == {"cleanup.policy": "compact"}
    assert changed(state, add_partitions(state, "t", 5)) == altered._replace(partitions=5)
    assert changed(state, delete_topic(state, "t")) is None


def test_topics_have_ids_of_their_own(state: State) -> None:
    first = find_topic(state, "t").topic_id
    changed(state, delete_topic(state, "t"))
    changed(state, create_topic(state, "t", 1))
    assert find_topic(state, "t").topic_id != first


def test_a_missing_topic_is_made_and_one_that_fits_is_used(state: State) -> None:
    made = ensure_topic(state, "other")
    assert made is not None
    assert made.partitions == 1
    for partitions, configs in ((None, None), (2, None), (None, {}), (None, {"retention.ms": "5"})):
        assert ensure_topic(state, "t", partitions, configs) is None


@pytest.mark.parametrize(
    ("propose", "error", "said"),
    [
        (lambda state: create_topic(state, "t", 1), TopicExistsError, "'t' exists"),
        (lambda state: create_topic(state, "a/b", 1), InvalidTopicError, "letters"),
        (lambda state: create_topic(state, "u", 0), InvalidConfigError, "from 1"),
        (lambda state: create_topic(state, "u", 10**6), InvalidConfigError, "from 1"),
        (lambda state: create_topic(state, "u", 1, {"retention": "5"}), InvalidConfigError, "did you mean"),
        (lambda state: ensure_topic(state, "t", 3), TopicExistsError, "2 partitions, but 3"),
        (lambda state: ensure_topic(state, "t", configs={"retention.ms": "6"}), TopicExistsError, "= 5, but 6"),
        (lambda state: alter_configs(state, "none", {}), UnknownTopicOrPartitionError, "'none'"),
        (lambda state: alter_configs(state, "t", {"cleanup.policy": None}), InvalidConfigError, "to reset"),
        (lambda state: alter_configs(state, "t", {"retention.ms": "x"}), InvalidConfigError, "retention.ms"),
        (lambda state: add_partitions(state, "t", 2), InvalidConfigError, "from 3"),
        (lambda state: add_partitions(state, "t", 10**6), InvalidConfigError, "from 3"),
        (lambda state: delete_topic(state, "none"), UnknownTopicOrPartitionError, "'none'"),
    ],
)
def test_what_a_topic_cannot_be_is_refused(
    state: State, propose: Callable[[State], TopicChange | None], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        propose(state)


def test_a_size_of_batches_that_no_put_takes_is_refused_as_a_setting(state: State) -> None:
    most, more = ({"max.message.bytes": str(BATCH_BYTES_MAX + each)} for each in (0, 1))
    changed(state, alter_configs(state, "t", most))
    assert create_topic(state, "u", 1, most).configs == most
    proposals: list[Callable[[], object]] = [
        lambda: create_topic(state, "u", 1, more),
        lambda: ensure_topic(state, "u", 1, more),
        lambda: alter_configs(state, "t", more),
    ]
    for propose in proposals:
        with pytest.raises(InvalidConfigError, match=f"at most {BATCH_BYTES_MAX} on an object store"):
            propose()


def test_a_copied_topic_with_such_a_setting_can_be_altered_otherwise(state: State) -> None:
    huge = {"max.message.bytes": str(2**31 - 1)}
    apply(state, follow(state, TopicChange("alter", "t", find_topic(state, "t").topic_id, configs=huge)))
    assert alter_configs(state, "t", {"retention.ms": "6"}).configs == {**huge, "retention.ms": "6"}
    assert alter_configs(state, "t", {"max.message.bytes": None}).configs == {}


def test_names_that_metrics_confuse_are_refused() -> None:
    state = state_of()
    changed(state, create_topic(state, "a.b", 1))
    with pytest.raises(TopicExistsError, match="metrics"):
        create_topic(state, "a_b", 1)
