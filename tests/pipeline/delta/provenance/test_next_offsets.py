"""What a commit records, and what a micro-batch's plan says."""

from __future__ import annotations

import pytest

from pyspark_commitlog.pipeline.delta.provenance.next_offsets import NextOffsets
from pyspark_commitlog.pipeline.rows.topic_ids import KnownOffsets
from pyspark_commitlog.storage import TopicPartition

KNOWN = KnownOffsets({TopicPartition("t", 0): 7, TopicPartition("t", 1): 0}, {"t": "5kvM"})


@pytest.mark.parametrize("tombstones", [None, 0, 3])
def test_what_is_recorded_is_read_back(tombstones: int | None) -> None:
    offsets = NextOffsets(KNOWN, tombstones)
    assert NextOffsets.from_json(offsets.to_json()) == offsets


@pytest.mark.parametrize("text", [None, "", "loaded where _offset > 7", "[]", '{"commitlog": {}}', '{"commitlog": 7}'])
def test_metadata_of_others_record_nothing(text: str | None) -> None:
    assert NextOffsets.from_json(text) is None


def test_micro_batch_ends_where_its_plan_says() -> None:
    plan = f'v1\n{{"batchTimestampMs": 7}}\n{KNOWN.to_json()}'
    assert NextOffsets.from_plan(plan) == NextOffsets(KNOWN)


@pytest.mark.parametrize(
    "plan",
    ["", "v1\n{}", 'v1\n{}\n{"t":{"0":7}}\n{"u":{"0":7}}', 'v1\n{}\n{"reservoirVersion":7}', "v1\n{}\n-"],
    ids=["not known", "no source", "two sources", "a Delta source", "a source without an offset"],
)
def test_plan_of_another_query_says_nothing(plan: str) -> None:
    assert NextOffsets.from_plan(plan) is None
