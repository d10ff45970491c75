"""Topic and cleaner settings, compared with Kafka's own description of its keys (golden/kafka-3.9.1-configs.json)."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage.config import (
    BOOLEAN,
    DAY_MS,
    DOUBLE,
    HOUR_MS,
    INT,
    INT64_MAX,
    LIST,
    LONG,
    STRING,
    CleanerConfig,
    Key,
    Kind,
    LogConfig,
    keys_of,
)
from pyspark_commitlog.storage.errors import InvalidConfigError

ROOT = Path(__file__).parents[2]
KAFKA = json.loads((ROOT / "tests/golden/kafka-3.9.1-configs.json").read_text())
KAFKA_TOPIC = {row["name"]: row for row in KAFKA["topic"]}
KAFKA_CLEANER = {row["name"]: row for row in KAFKA["cleaner"]}
OURS_TOPIC = {key.name: key for key in keys_of(LogConfig).values()}
OURS_CLEANER = {key.name: key for key in keys_of(CleanerConfig).values()}
OURS = OURS_TOPIC | OURS_CLEANER
KINDS = {"INT": INT, "LONG": LONG, "DOUBLE": DOUBLE, "BOOLEAN": BOOLEAN, "STRING": STRING, "LIST": LIST}


def by_name(keys: dict[str, Any]) -> list[Any]:
    return [pytest.param(row, id=name) for name, row in keys.items()]


# --- the same keys as Kafka


def test_a_topic_has_all_of_kafkas_keys_and_two_unknown_to_kafka() -> None:
    assert set(OURS_TOPIC) == {*KAFKA_TOPIC, "max.decompressed.bytes", "keyfilter.enable"}
    assert set(LogConfig.of_kafka(LogConfig().to_mapping())) == set(KAFKA_TOPIC)


def test_the_cleaner_has_kafkas_keys_save_those_that_are_defaults_of_a_topic() -> None:
    of_topics = {synonym.name for key in OURS_TOPIC.values() for synonym in key.synonyms}
    assert set(OURS_CLEANER) == set(KAFKA_CLEANER) - of_topics


@pytest.mark.parametrize("row", by_name(KAFKA_TOPIC | {name: KAFKA_CLEANER[name] for name in OURS_CLEANER}))
def test_type_and_default_are_kafkas(row: dict[str, str]) -> None:
    key = OURS[row["name"]]
    assert key.kind == KINDS[row["type"]]
    default = row["default"].strip("[]") if key.kind is LIST else row["default"]
    assert key.default == key.check(default)


@pytest.mark.parametrize("row", by_name({name: row for name, row in KAFKA_TOPIC.items() if "..." in row["valid"]}))
def test_bounds_are_kafkas(row: dict[str, str]) -> None:
    key = OURS[row["name"]]
    if key.kind is LIST:  # partition:broker
        assert key.check("0:1,2:3") == {"0:1", "2:3"}
        assert_refused(key, "0:a")
        return
    matched = re.fullmatch(r"\[(-?\d+),\.\.\.(?:,(\d+))?\](?: or (-1))?", row["valid"])
    assert matched is not None
    low, high, also = (None if text is None else int(text) for text in matched.groups())
    assert key.check(low) == low
    assert low is not None
    if also != low - 1:
        assert_refused(key, low - 1)
    if also is not None:
        assert key.check(also) == also
    if high is not None:
        assert key.check(high) == high
        assert_refused(key, high + 1)


@pytest.mark.parametrize(
    "row",
    by_name({name: row for name, row in KAFKA_TOPIC.items() if re.fullmatch(r"\[[A-Za-z].*[a-z]\]", row["valid"])}),
)
def test_choices_are_kafkas(row: dict[str, str]) -> None:
    key, choices = OURS[row["name"]], row["valid"].strip("[]").split(", ")
    for choice in choices:
        assert key.check(choice) in (choice, {choice})
    assert_refused(key, "none of them")


@pytest.mark.parametrize("row", by_name(KAFKA_TOPIC))
def test_synonyms_their_order_and_units_are_kafkas(row: dict[str, dict[str, str]]) -> None:
    key = OURS[str(row["name"])]
    assert [synonym.name for synonym in key.synonyms] == list(row["synonyms"])
    if key.kind in (INT, LONG):
        assert {synonym.name: str(synonym.convert(synonym.kind.parse("3"))) for synonym in key.synonyms} == row[
            "synonyms"
        ]


@pytest.mark.parametrize("release", ["0.8.2", "0.9.0.1", "0.10.0.0", "0.11.0-IV2", "2.0.1", "3.0-IV1", "3.9"])
def test_a_message_format_is_that_of_a_release_of_kafka(release: str) -> None:
    key = OURS["message.format.version"]
    assert key.check(release) == release
    for other in ("0.12.0", "0.10", "2.9", "next", f"v{release}"):
        assert_refused(key, other)


def assert_refused(key: Key, value: object) -> None:
    with pytest.raises(InvalidConfigError, match=re.escape(f"{key.name} = {value!r}: must be ")):
        key.check(value)


# --- values


@pytest.mark.parametrize(
    ("kind", "value", "parsed"),
    [
        pytest.param(INT, " 12 ", 12, id="a number as text, with blanks"),
        pytest.param(INT, "+12", 12, id="a sign"),
        pytest.param(INT, -(2**31), -(2**31), id="the smallest of 32 bits"),
        pytest.param(LONG, str(-(2**63)), -(2**63), id="the smallest of 64 bits"),
        pytest.param(LONG, 2**63 - 1, INT64_MAX, id="the largest of 64 bits"),
        pytest.param(DOUBLE, 1, 1.0, id="a whole number for a fraction"),
        pytest.param(DOUBLE, "1e-1", 0.1, id="an exponent"),
        pytest.param(BOOLEAN, "TRUE", True, id="a boolean in capitals"),
        pytest.param(LIST, "", frozenset(), id="an empty list"),
        pytest.param(LIST, " a , b,a", frozenset("ab"), id="a list with blanks and doubles"),
        pytest.param(LIST, ["a", "b"], frozenset("ab"), id="a list that is one"),
    ],
)
def test_values_are_read_as_kafka_reads_them(kind: Kind, value: object, parsed: object) -> None:
    assert kind.parse(value) == parsed


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        pytest.param(INT, 2**31, id="beyond 32 bits"),
        pytest.param(LONG, 2**63, id="beyond 64 bits"),
        pytest.param(INT, True, id="a boolean for a number"),
        pytest.param(INT, 1.0, id="a fraction for a whole number"),
        pytest.param(INT, "1_000", id="Python's way to write a thousand"),
        pytest.param(INT, "٣", id="a digit of another script"),
        pytest.param(INT, "", id="nothing for a number"),
        pytest.param(INT, None, id="null for a number"),
        pytest.param(DOUBLE, "half", id="a word for a fraction"),
        pytest.param(DOUBLE, True, id="a boolean for a fraction"),
        pytest.param(BOOLEAN, "yes", id="yes"),
        pytest.param(BOOLEAN, 1, id="a number for a boolean"),
        pytest.param(STRING, 1, id="a number for a text"),
        pytest.param(LIST, 1, id="a number for a list"),
        pytest.param(LIST, [1], id="a number in a list"),
    ],
)
def test_a_value_of_another_type_is_refused(kind: Kind, value: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (without a message: callers know the key and the bounds)
        kind.parse(value)


@pytest.mark.parametrize("value", ["NaN", "inf", "-0.1", "1.1", 10**400])
def test_a_ratio_is_between_0_and_1(value: object) -> None:
    with pytest.raises(InvalidConfigError, match=r"min\.cleanable\.dirty\.ratio = .*: must be a number, from 0 to 1"):
        LogConfig.from_mapping({"min.cleanable.dirty.ratio": value})


def test_an_error_names_key_value_and_bounds() -> None:
    with pytest.raises(InvalidConfigError) as raised:
        LogConfig.from_mapping({"segment.bytes": "13"})
    assert str(raised.value) == "segment.bytes = '13': must be a whole number of 32 bits, at least 14"


def test_the_constructor_checks_as_well() -> None:
    with pytest.raises(InvalidConfigError, match=r"retention\.ms = -2"):
        LogConfig(retention_ms=-2)
    with pytest.raises(InvalidConfigError, match=r"log\.cleaner\.threads = 0"):
        CleanerConfig(threads=0)


def test_a_config_does_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        LogConfig().retention_ms = 1  # type: ignore[misc]


def test_the_smallest_lag_of_compaction_is_at_most_the_largest() -> None:
    LogConfig.from_mapping({"min.compaction.lag.ms": 5, "max.compaction.lag.ms": 5})
    with pytest.raises(
        InvalidConfigError, match=r"min\.compaction\.lag\.ms = 6: .* max\.compaction\.lag\.ms, which is 5"
    ):
        LogConfig.from_mapping({"min.compaction.lag.ms": 6, "max.compaction.lag.ms": 5})


# --- names


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        pytest.param("retention.msec", " (did you mean 'retention.ms'?)", id="misspelled"),
        pytest.param("retention_ms", " (did you mean 'retention.ms'?)", id="our name of the field"),
        pytest.param("log.roll.hours", ": that is a broker's key; for a topic it is segment.ms", id="a broker's key"),
        pytest.param("message.max.byte", " (did you mean 'max.message.bytes'?)", id="a broker's key, misspelled"),
        pytest.param("colour", ": no topic key has a name like it", id="something else"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(given: str, hint: str) -> None:
    with pytest.raises(InvalidConfigError) as raised:
        LogConfig.from_mapping({given: 1})
    assert str(raised.value) == f"unknown topic config {given}{hint}"


def test_a_config_survives_conversion_to_a_mapping() -> None:
    config = LogConfig.from_mapping({"cleanup.policy": "delete,compact", "retention.ms": "5", "preallocate": "TRUE"})
    mapping = config.to_mapping()
    assert mapping["cleanup.policy"] == "delete,compact"
    assert mapping["preallocate"] == "true"
    assert mapping["min.cleanable.dirty.ratio"] == "0.5"
    assert set(mapping) == set(OURS_TOPIC)
    assert LogConfig.from_mapping(mapping) == config


# --- a broker's settings


def test_a_topics_value_overrides_the_brokers_and_that_the_default() -> None:
    broker = {"log.segment.bytes": 1000, "log.retention.bytes": 2000}
    config = LogConfig.from_mapping({"segment.bytes": 500}, broker=broker)
    assert (config.segment_bytes, config.retention_bytes, config.index_interval_bytes) == (500, 2000, 4096)


@pytest.mark.parametrize(
    ("broker", "retention_ms"),
    [
        ({}, 7 * DAY_MS),
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.ms": "-7"}, -1),
        ({"log.retention.hours": -1}, -1),
    ],
)
def test_the_finest_unit_that_a_broker_sets_wins(broker: dict[str, object], retention_ms: int) -> None:
    assert LogConfig.from_mapping({}, broker=broker).retention_ms == retention_ms


@pytest.mark.parametrize("key", ["log.retention.ms", "log.retention.minutes", "log.retention.hours"])
def test_a_broker_does_not_keep_records_for_no_time_at_all(key: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"{key} = 0: must be .*, at least 1, or negative for no limit"):
        LogConfig.from_mapping({}, broker={key: 0})
    assert LogConfig.from_mapping({"retention.ms": 0}).retention_ms == 0  # a topic may


def test_an_error_in_a_brokers_key_names_that_key() -> None:
    with pytest.raises(
        InvalidConfigError, match=r"log\.roll\.hours = 0: must be a whole number of 32 bits, at least 1"
    ):
        LogConfig.from_mapping({}, broker={"log.roll.hours": 0})


def test_a_brokers_other_keys_are_accepted_and_reported_as_unused() -> None:
    broker = {
        "log.dirs": "/data",
        "log.roll.hours": 3,
        "min.insync.replicas": 2,
        "log.cleaner.threads": 2,
        "num.partitions": 1,
    }
    assert LogConfig.from_mapping({}, broker=broker).segment_ms == 3 * HOUR_MS
    assert CleanerConfig.from_mapping(broker).threads == 2
    assert LogConfig.without_effect(broker) == ["log.dirs", "min.insync.replicas", "num.partitions"]


def test_topic_keys_for_brokers_only_are_reported_as_unused() -> None:
    topic = {"remote.log.delete.on.disable": True, "retention.ms": 1, "unclean.leader.election.enable": False}
    LogConfig.from_mapping(topic)
    assert LogConfig.without_effect(topic) == ["remote.log.delete.on.disable", "unclean.leader.election.enable"]


# --- consequences of the values


@pytest.mark.parametrize(
    ("policy", "compact", "delete"),
    [("delete", False, True), ("compact", True, False), ("compact, delete", True, True), ("", False, False)],
)
def test_a_cleanup_policy_decides_between_deletion_and_compaction(policy: str, compact: bool, delete: bool) -> None:
    config = LogConfig.from_mapping({"cleanup.policy": policy})
    assert (config.compact, config.delete) == (compact, delete)


@pytest.mark.parametrize(
    ("given", "before", "after"),
    [
        pytest.param({}, INT64_MAX, INT64_MAX, id="nothing is limited"),
        pytest.param({"difference": 5}, 5, 5, id="the old key sets both"),
        pytest.param({"difference": 5, "before": 7}, 7, 5, id="the new key wins where it limits"),
        pytest.param({"difference": 5, "after": INT64_MAX}, 5, 5, id="no limit does not count as set"),
        pytest.param({"before": 7, "after": 8}, 7, 8, id="the new keys alone"),
    ],
)
def test_the_old_limit_of_timestamps_holds_where_the_new_ones_do_not(
    given: dict[str, int], before: int, after: int
) -> None:
    config = LogConfig.from_mapping({f"message.timestamp.{part}.max.ms": value for part, value in given.items()})
    assert (config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms) == (before, after)


def test_a_compacted_log_rolls_in_time_for_its_largest_lag() -> None:
    lag = {"segment.ms": 100, "max.compaction.lag.ms": 60}
    assert LogConfig.from_mapping(lag).max_segment_ms == 100
    assert LogConfig.from_mapping(lag | {"cleanup.policy": "compact"}).max_segment_ms == 60


# --- conf/log.toml


def test_the_file_of_defaults_has_every_default_with_an_effect() -> None:
    document = tomllib.loads((ROOT / "conf/log.toml").read_text())
    assert set(document) == {"topic", "broker"}
    assert set(document["topic"]) == {name for name, key in OURS_TOPIC.items() if key.has_effect}
    assert set(document["broker"]) == set(OURS_CLEANER)
    assert LogConfig.from_mapping(document["topic"], broker=document["broker"]) == LogConfig()
    assert CleanerConfig.from_mapping(document["broker"]) == CleanerConfig()


@pytest.mark.parametrize("given", ["delete,compact", "compact,delete", "delete", ""])
def test_a_list_keeps_its_order(given: str) -> None:
    config = LogConfig.from_mapping({"cleanup.policy": given})
    assert config.to_mapping()["cleanup.policy"] == given
    assert (config.compact, config.delete) == ("compact" in given, "delete" in given)
