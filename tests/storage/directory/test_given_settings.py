"""Which settings somebody gave: records are deleted only by these."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pyspark_commitlog.storage.directory.broker_settings.found import FoundSettings, TopicSettings
from pyspark_commitlog.storage.directory.given_settings import completed, config_of, ungiven
from pyspark_commitlog.storage.directory.topics_file import Known, TopicDescription

ALL_THREE = {"cleanup.policy", "retention.ms", "retention.bytes"}


def a_topic(known: Known, name: str = "t", **configs: str) -> TopicDescription:
    return TopicDescription(name, (0,), {key.replace("_", "."): value for key, value in configs.items()}, known=known)


@pytest.mark.parametrize(
    ("topic", "run", "broker", "missing"),
    [
        pytest.param(a_topic(Known.ALL), {}, {}, set(), id="ours"),
        pytest.param(a_topic(Known.NOTHING), {}, {}, ALL_THREE, id="a broker's"),
        pytest.param(
            a_topic(Known.NOTHING, cleanup_policy="compact"), {}, {}, ALL_THREE, id="what files hint at is not given"
        ),
        pytest.param(
            a_topic(Known.SOME, retention_ms="5"), {}, {}, {"cleanup.policy", "retention.bytes"}, id="set here"
        ),
        pytest.param(
            a_topic(Known.NOTHING), {"retention.ms": "5"}, {}, {"cleanup.policy", "retention.bytes"}, id="by the run"
        ),
        pytest.param(a_topic(Known.NOTHING), {}, {"log.retention.ms": "5"}, ALL_THREE, id="a broker's default alone"),
        pytest.param(
            a_topic(Known.OWN),
            {},
            {"log.retention.hours": "5", "log.cleanup.policy": "delete"},
            {"retention.bytes"},
            id="a broker's default, and all of the topic's own",
        ),
    ],
)
def test_settings_that_nobody_gave_are_found(
    topic: TopicDescription, run: Mapping[str, str], broker: Mapping[str, str], missing: set[str]
) -> None:
    assert ungiven(topic, run, broker) == missing


def test_limits_that_nobody_gave_do_not_apply() -> None:
    config = config_of(a_topic(Known.SOME, retention_bytes="9"), {}, {"log.retention.ms": "5"})
    assert (config.retention_ms, config.retention_bytes, config.delete) == (-1, 9, True)
    assert config_of(a_topic(Known.OWN), {}, {"log.retention.ms": "5"}).retention_ms == 5
    assert config_of(a_topic(Known.ALL), {}, {}).retention_ms == 7 * 86_400_000


def test_an_internal_topic_stays_compacted() -> None:
    for name in ("__consumer_offsets", "__transaction_state"):
        config = config_of(a_topic(Known.ALL, name, cleanup_policy="delete"), {"cleanup.policy": "compact,delete"}, {})
        assert config.cleanup_policy == {"compact"}


def test_a_brokers_settings_rank_below_those_given_here() -> None:
    theirs = {"retention.ms": "1", "flush.ms": "2", "confluent.key": "3"}
    found = FoundSettings({"t": TopicSettings(theirs, Known.OWN)})
    assert completed(a_topic(Known.SOME, retention_ms="9"), found).configs == {"retention.ms": "9", "flush.ms": "2"}
    guessed = completed(a_topic(Known.NOTHING, cleanup_policy="compact"), found)
    assert (guessed.configs, guessed.known) == ({"retention.ms": "1", "flush.ms": "2"}, Known.OWN)
    ours = a_topic(Known.ALL)
    assert completed(ours, found) is ours
