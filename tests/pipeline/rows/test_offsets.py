from __future__ import annotations

import json
import logging

import pytest

from pyspark_commitlog.pipeline.rows.offsets import (
    EARLIEST,
    LATEST,
    AtTimestamp,
    AtTimestamps,
    Bound,
    DataLoss,
    Ends,
    Logs,
    bound_at_offsets,
    check_order,
    check_start_before_end,
    offsets_from_json,
    offsets_to_nested,
    timestamps_from_json,
)
from pyspark_commitlog.storage import InvalidConfigError, OffsetOutOfRangeError, TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
ENDS = {A0: Ends(10, 20), A1: Ends(0, 0)}


def offset_at(partition: TopicPartition, timestamp_ms: int) -> int | None:
    """One record per millisecond: offset 10 of a-0 has time 10; a-1 is empty."""
    return max(timestamp_ms, 10) if partition == A0 and timestamp_ms < 20 else None


LOGS = Logs(ENDS, offset_at)


def start(text: str) -> Bound:
    return bound_at_offsets("startingOffsets", text, refused=LATEST)


def end(text: str) -> Bound:
    return bound_at_offsets("endingOffsets", text, refused=EARLIEST)


def test_json_is_that_of_sparks_kafka_source_in_both_directions() -> None:
    offsets = {TopicPartition("b", 0): 7, A1: -2, A0: 23}
    text = json.dumps(offsets_to_nested(offsets), separators=(",", ":"))
    assert text == '{"a":{"0":23,"1":-2},"b":{"0":7}}'
    assert offsets_from_json(text, "startingOffsets") == offsets


@pytest.mark.parametrize(
    ("bound", "resolved"),
    [
        pytest.param(start("earliest"), {A0: 10, A1: 0}, id="earliest is the log start"),
        pytest.param(end("Latest"), {A0: 20, A1: 0}, id="latest is the log end, in any case of letters"),
        pytest.param(start('{"a": {"0": 15, "1": -2}}'), {A0: 15, A1: 0}, id="a number and the earliest"),
        pytest.param(end('{"a": {"0": 10, "1": -1}}'), {A0: 10, A1: 0}, id="the log start as an end: nothing"),
        pytest.param(start('{"a": {"0": 20, "1": 0}}'), {A0: 20, A1: 0}, id="the log end as a start: nothing"),
        pytest.param(
            bound_at_offsets("startingOffsets", '{"a": {"0": -1, "1": -1}}'), {A0: 20, A1: 0}, id="a stream's latest"
        ),
        pytest.param(AtTimestamp("endingTimestamp", 15, True), {A0: 15, A1: 0}, id="a time, or the end"),
        pytest.param(AtTimestamp("startingTimestamp", 3, True), {A0: 10, A1: 0}, id="a time before the log"),
        pytest.param(
            AtTimestamps("endingOffsetsByTimestamp", {A0: 99, A1: 1}, True), {A0: 20, A1: 0}, id="a late time"
        ),
    ],
)
def test_bound_gives_an_offset_for_each_partition(bound: Bound, resolved: dict[TopicPartition, int]) -> None:
    assert bound.resolve(LOGS) == resolved


@pytest.mark.parametrize("offset", [9, 21])
def test_offset_outside_the_log_names_partition_offset_and_log(offset: int) -> None:
    with pytest.raises(OffsetOutOfRangeError, match=rf"startingOffsets: offset {offset} of a-0 .* 10 .* 20"):
        start(f'{{"a": {{"0": {offset}, "1": 0}}}}').resolve(LOGS)


@pytest.mark.parametrize(("offset", "taken"), [(9, 10), (21, 20)])
def test_offset_outside_the_log_is_the_nearest_one_if_data_loss_is_allowed(
    offset: int, taken: int, caplog: pytest.LogCaptureFixture
) -> None:
    bound = start(f'{{"a": {{"0": {offset}, "1": 0}}}}')
    with caplog.at_level(logging.WARNING):
        assert bound.resolve(LOGS._replace(loss=DataLoss(fails=False))) == {A0: taken, A1: 0}
    assert f"offset {offset} of a-0 is outside the log" in caplog.text


def test_start_at_a_time_without_a_record_is_refused_unless_the_strategy_is_latest() -> None:
    with pytest.raises(InvalidConfigError, match=r"startingTimestamp: no record of a-0 has timestamp 20"):
        AtTimestamp("startingTimestamp", 20, latest_without_match=False).resolve(LOGS)
    assert AtTimestamp("startingTimestamp", 20, latest_without_match=True).resolve(LOGS) == {A0: 20, A1: 0}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param('{"a": {"0": 15}}', "has no value for a-1", id="a partition left out"),
        pytest.param('{"a": {"0": 15, "1": 0, "2": 0}}', "not read: a-2", id="a partition too many"),
    ],
)
def test_json_must_name_exactly_the_partitions_read(text: str, told: str) -> None:
    with pytest.raises(InvalidConfigError, match=told):
        start(text).resolve(LOGS)
    by_time = timestamps_from_json(text, "endingOffsetsByTimestamp")
    with pytest.raises(InvalidConfigError, match=told):
        AtTimestamps("endingOffsetsByTimestamp", by_time, latest_without_match=True).resolve(LOGS)


@pytest.mark.parametrize(
    "text",
    [
        "newest",
        "[1]",
        '{"a": 1}',
        '{"a": {"x": 1}}',
        '{"a": {"0": "1"}}',
        '{"a": {"0": -3}}',
        '{"a": {"0": true}}',
        '{"a": {"0": 9223372036854775808}}',
        pytest.param('{"a":' * 100_000, id="nested too deep"),
    ],
)
def test_text_that_is_not_an_offset_is_refused_with_the_options_name(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="option startingOffsets"):
        start(text)


def test_times_before_1970_are_refused() -> None:
    with pytest.raises(
        InvalidConfigError, match=r"topic 'a' has '0': -1; it must be a partition, and a time: ISO 8601, such as"
    ):
        timestamps_from_json('{"a": {"0": -1}}', "startingOffsetsByTimestamp")


@pytest.mark.parametrize("text", ["latest", '{"a": {"0": -1}}'])
def test_batch_read_cannot_start_at_the_latest(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="startingOffsets of a batch read cannot be latest"):
        start(text)


@pytest.mark.parametrize("text", ["earliest", '{"a": {"0": -2}}'])
def test_batch_read_cannot_end_at_the_earliest(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="endingOffsets of a batch read cannot be earliest"):
        end(text)


@pytest.mark.parametrize(
    ("starting", "ending", "told"),
    [
        pytest.param(start('{"a": {"0": 5}}'), end('{"a": {"0": 4}}'), "a-0: 5 and 4", id="offsets"),
        pytest.param(
            AtTimestamps("startingOffsetsByTimestamp", {A0: 5}, False),
            AtTimestamps("endingOffsetsByTimestamp", {A0: 4}, True),
            "a-0: 5 and 4",
            id="times",
        ),
        pytest.param(
            start('{"a": {"0": 5}}'), end('{"a": {"1": 6}}'), "different partitions: a-0 and a-1", id="partitions"
        ),
    ],
)
def test_start_after_its_end_is_refused_before_a_log_is_opened(starting: Bound, ending: Bound, told: str) -> None:
    with pytest.raises(InvalidConfigError, match=told):
        check_order(starting, ending)


def test_ends_and_times_are_compared_with_offsets_once_they_are_resolved() -> None:
    starting, ending = start('{"a": {"0": 5, "1": -2}}'), end('{"a": {"0": -1, "1": 0}}')
    check_order(starting, ending)
    check_order(starting, AtTimestamp("endingTimestamp", 1, True))
    with pytest.raises(InvalidConfigError, match="startingOffsets is after endingOffsets in a-0: 5 and 4"):
        check_start_before_end(starting, ending, {A0: 5, A1: 0}, {A0: 4, A1: 0})
