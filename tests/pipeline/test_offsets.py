from __future__ import annotations

import pytest

from pyspark_commitlog.pipeline.offsets import (
    EARLIEST,
    LATEST,
    Bound,
    Ends,
    TopicPartition,
    offsets_from_json,
    offsets_to_json,
)
from pyspark_commitlog.storage import InvalidConfigError, OffsetOutOfRangeError

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
ENDS = {A0: Ends(10, 20), A1: Ends(0, 0)}


def start(text: str) -> Bound:
    return Bound.parse("startingOffsets", text, forbidden=LATEST)


def end(text: str) -> Bound:
    return Bound.parse("endingOffsets", text, forbidden=EARLIEST)


def test_json_is_that_of_sparks_kafka_source_and_comes_back() -> None:
    offsets = {TopicPartition("b", 0): 7, A1: -2, A0: 23}
    text = offsets_to_json(offsets)
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
    ],
)
def test_bound_gives_an_offset_for_each_partition(bound: Bound, resolved: dict[TopicPartition, int]) -> None:
    assert bound.resolve(ENDS) == resolved


@pytest.mark.parametrize("offset", [9, 21])
def test_offset_outside_the_log_names_partition_offset_and_log(offset: int) -> None:
    with pytest.raises(OffsetOutOfRangeError, match=rf"startingOffsets: offset {offset} of a-0 .* 10 .* 20"):
        start(f'{{"a": {{"0": {offset}, "1": 0}}}}').resolve(ENDS)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param('{"a": {"0": 15}}', "has no offset for a-1", id="a partition left out"),
        pytest.param('{"a": {"0": 15, "1": 0, "2": 0}}', "not read: a-2", id="a partition too many"),
    ],
)
def test_json_must_name_exactly_the_partitions_read(text: str, told: str) -> None:
    with pytest.raises(InvalidConfigError, match=told):
        start(text).resolve(ENDS)


@pytest.mark.parametrize(
    "text",
    ["newest", "[1]", '{"a": 1}', '{"a": {"x": 1}}', '{"a": {"0": "1"}}', '{"a": {"0": -3}}', '{"a": {"0": true}}'],
)
def test_text_that_is_no_offset_is_refused_with_the_options_name(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="option startingOffsets"):
        start(text)


@pytest.mark.parametrize("text", ["latest", '{"a": {"0": -1}}'])
def test_batch_read_cannot_start_at_the_latest(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="startingOffsets of a batch read cannot be latest"):
        start(text)


@pytest.mark.parametrize("text", ["earliest", '{"a": {"0": -2}}'])
def test_batch_read_cannot_end_at_the_earliest(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="endingOffsets of a batch read cannot be earliest"):
        end(text)
