"""ListOffsets of version 0: offsets of segments before a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.gateway import WireClient, produce_fields, set_config
from tests.support.logs.building import batch

NOW_MS = 2_000_000_000_000
OLD_S = 1_000_000_000


def before(client: WireClient, topic: str, time_ms: int, count: int = 100, partition: int = 0) -> tuple[int, ...]:
    asked = {"partition_index": partition, "timestamp": time_ms, "max_num_offsets": count}
    answer = client.ask(2, 0, replica_id=-1, topics=[{"name": topic, "partitions": [asked]}])
    found = answer.topics[0].partitions[0]
    assert not found.error_code
    offsets: tuple[int, ...] = found.old_style_offsets
    return offsets


@pytest.fixture
def segmented(client: WireClient, topic: str, log_dir: Path) -> str:
    """A topic whose partition 0 has three segments at offsets 0, 1 and 2, files of the years after 2001."""
    set_config(client, topic, "segment.bytes", "200")
    for _ in range(3):
        client.ask(0, 8, **produce_fields(topic, batch(b"x" * 100).tobytes()))
    for index, path in enumerate(sorted((log_dir / f"{topic}-0").glob("*.log"))):
        os.utime(path, (OLD_S + index, OLD_S + index))
    return topic


def test_offsets_before_a_time_are_those_of_segments_with_the_largest_first(client: WireClient, segmented: str) -> None:
    assert before(client, segmented, -1) == (3, 2, 1, 0)
    assert before(client, segmented, -2) == (0,)
    assert before(client, segmented, NOW_MS * 2) == (3, 2, 1, 0)
    assert before(client, segmented, (OLD_S + 1) * 1000) == (1, 0)
    assert before(client, segmented, OLD_S * 1000 - 1) == ()


@pytest.mark.parametrize("count", [-1, 0, 1, 2])
def test_at_most_as_many_as_were_asked_for_are_answered(client: WireClient, segmented: str, count: int) -> None:
    assert before(client, segmented, -1, count) == (3, 2, 1, 0)[: max(count, 0)]


def test_no_offset_is_below_the_start_of_the_log(client: WireClient, segmented: str) -> None:
    partitions = [{"partition_index": 0, "offset": 1}]
    client.ask(21, 1, topics=[{"name": segmented, "partitions": partitions}], timeout=1000)
    assert before(client, segmented, -1) == (3, 2, 1)
    assert before(client, segmented, -2) == (1,)


def test_an_empty_partition_has_one_offset(client: WireClient, topic: str) -> None:
    assert before(client, topic, -1) == before(client, topic, -2) == (0,)


def test_an_unknown_partition_is_an_error_without_offsets(client: WireClient, topic: str) -> None:
    asked = {"partition_index": 7, "timestamp": -1, "max_num_offsets": 1}
    answer = client.ask(2, 0, replica_id=-1, topics=[{"name": topic, "partitions": [asked]}])
    assert (answer.topics[0].partitions[0].error_code, answer.topics[0].partitions[0].old_style_offsets) == (3, ())
