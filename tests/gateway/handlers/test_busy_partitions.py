"""Requests for a partition that another thread works on for long, as while a slow disk syncs or a lock is held."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pyspark_commitlog.gateway.partitions.file_partition import FilePartition
from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient, fetch_fields, produce_fields
from tests.support.logs.building import batch

PRODUCE, FETCH, LIST_OFFSETS, METADATA, EPOCH_END, PRODUCERS = 0, 1, 2, 3, 23, 61
LATEST, EARLIEST = -1, -2


def list_offsets(topic: str, time: int) -> dict[str, Any]:
    asked = {"partition_index": 0, "timestamp": time, "current_leader_epoch": -1}
    return {"replica_id": -1, "isolation_level": 1, "topics": [{"name": topic, "partitions": [asked]}]}


def epoch_end(topic: str) -> dict[str, Any]:
    asked = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    return {"replica_id": -2, "topics": [{"topic": topic, "partitions": [asked]}]}


ASKED: dict[str, tuple[int, int, Callable[[str], Mapping[str, Any]]]] = {
    "a fetch": (FETCH, 11, lambda topic: fetch_fields(topic, 0)),
    "a fetch of an old version": (FETCH, 3, lambda topic: fetch_fields(topic, 0)),
    "the end": (LIST_OFFSETS, 5, lambda topic: list_offsets(topic, LATEST)),
    "the start": (LIST_OFFSETS, 5, lambda topic: list_offsets(topic, EARLIEST)),
    "offsets of the oldest version": (LIST_OFFSETS, 0, lambda topic: list_offsets(topic, LATEST)),
    "the end of an epoch": (EPOCH_END, 3, epoch_end),
    "its producers": (PRODUCERS, 0, lambda topic: {"topics": [{"name": topic, "partition_indexes": [0]}]}),
    "a batch": (PRODUCE, 8, lambda topic: produce_fields(topic, batch(b"two").tobytes())),
}


@pytest.mark.parametrize("asked", ASKED)
def test_what_waits_for_a_busy_partition_stops_no_other_connection(gateway: Gateway, topic: str, asked: str) -> None:
    key, version, fields = ASKED[asked]
    with WireClient(gateway) as waiting, WireClient(gateway) as other:
        written = other.ask(PRODUCE, 8, **produce_fields(topic, batch(b"one").tobytes()))
        assert written.responses[0].partition_responses[0].error_code == 0
        led = gateway.context.partitions.one(topic, 0)
        assert isinstance(led, FilePartition)
        with led._lock:  # as a thread has it that rolls a segment
            sent = waiting.send(key, version, **fields(topic))
            for _ in range(3):
                assert other.ask(METADATA, 8, topics=[{"name": topic}]).topics[0].error_code == 0
        assert "error_code=<ErrorCode.none" in str(waiting.answer(key, version, sent))
