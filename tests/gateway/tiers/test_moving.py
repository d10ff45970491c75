"""Segments move to a tier, and leave it, while a gateway serves their topic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import LogManager
from tests.cli.in_process import commitlog
from tests.gateway.test_bucket import values_of
from tests.gateway.tiers.test_serving import EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, PATIENT_MS, list_offset, only
from tests.support.gateway import WireClient, create_topic, fetch_fields, produce_fields, serving, set_config
from tests.support.logs.building import batch
from tests.support.waiting import soon

SEGMENTS = 4


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with serving(
        tmp_path / "log",
        commitlog_tier_url=str(tmp_path / "tier"),
        commitlog_maintenance_enable=False,
        remote_fetch_max_wait_ms=PATIENT_MS,
    ) as started:
        yield started


@pytest.fixture
def client(gateway: Gateway) -> Iterator[WireClient]:
    with WireClient(gateway) as connected:
        configs = {"remote_storage_enable": "true", "local_retention_ms": "1", "retention_ms": "-1"}
        create_topic(connected, "t", **configs)
        for number in range(SEGMENTS):
            produce(connected, number)
            roll(gateway)
        produce(connected, SEGMENTS)
        yield connected


def produce(client: WireClient, number: int) -> None:
    answer = client.ask(0, 8, **produce_fields("t", batch(b"%d" % number).tobytes()))
    assert answer.responses[0].partition_responses[0].error_code == 0


def roll(gateway: Gateway) -> None:
    with LogManager.open(gateway.context.log_dir) as manager:
        manager.open_log("t", 0).roll()


def run(gateway: Gateway, *command: str) -> None:
    tier = ["--tier", Path(gateway.context.log_dir).parent / "tier"] if command[0] == "tier" else []
    done = commitlog(*command, "--log-dir", gateway.context.log_dir, *tier)
    assert done.code == 0, done.stderr


def move(gateway: Gateway, client: WireClient, until: int) -> None:
    """Moves closed segments to the tier, and waits until the gateway has seen that the local ones begin there."""
    run(gateway, "tier", "copy")
    run(gateway, "retain")
    soon(lambda: list_offset(client, "t", EARLIEST_LOCAL) == (0, until))


def values(client: WireClient) -> list[bytes | None]:
    """All values of the topic, from its first offset on."""
    found, (error, offset) = list[Any](), list_offset(client, "t", EARLIEST)
    assert error == 0
    while True:
        answer = only(client.ask(1, 11, **fetch_fields("t", offset, isolation_level=1)))
        assert answer.error_code == 0
        if offset == answer.high_watermark:
            return [value for _, value in found]
        found += values_of(answer.records)
        offset = found[-1][0] + 1


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


def test_before_the_first_copy_nothing_is_in_the_tier(client: WireClient) -> None:
    assert list_offset(client, "t", LATEST_TIERED) == (0, -1)
    assert values(client) == numbers(0, SEGMENTS)


def test_every_record_is_read_while_segments_are_copied_deleted_here_and_deleted_there(
    gateway: Gateway, client: WireClient
) -> None:
    run(gateway, "tier", "copy")
    assert list_offset(client, "t", LATEST_TIERED) == (0, SEGMENTS - 1)
    assert list_offset(client, "t", EARLIEST_LOCAL) == (0, 0)
    assert values(client) == numbers(0, SEGMENTS)
    run(gateway, "retain")
    assert values(client) == numbers(0, SEGMENTS)  # before the gateway has seen that segments are gone, and after it
    soon(lambda: list_offset(client, "t", EARLIEST_LOCAL) == (0, SEGMENTS))
    assert list_offset(client, "t", EARLIEST) == (0, 0)
    assert values(client) == numbers(0, SEGMENTS)
    produce(client, SEGMENTS + 1)
    assert values(client) == numbers(0, SEGMENTS + 1)


def test_segments_that_move_after_the_tier_was_read_are_found_there(gateway: Gateway, client: WireClient) -> None:
    move(gateway, client, SEGMENTS)
    assert values(client) == numbers(0, SEGMENTS)
    roll(gateway)
    produce(client, SEGMENTS + 1)
    move(gateway, client, SEGMENTS + 1)
    assert values(client) == numbers(0, SEGMENTS + 1)


def test_what_retention_deletes_in_the_tier_is_not_served(gateway: Gateway, client: WireClient) -> None:
    move(gateway, client, SEGMENTS)
    assert values(client) == numbers(0, SEGMENTS)
    set_config(client, "t", "retention.bytes", "140")
    run(gateway, "tier", "copy")
    soon(lambda: list_offset(client, "t", EARLIEST)[1] > 0)
    start = list_offset(client, "t", EARLIEST)[1]
    assert values(client) == numbers(start, SEGMENTS)
    assert only(client.ask(1, 11, **fetch_fields("t", start - 1))).error_code == 1  # OFFSET_OUT_OF_RANGE
