"""Records of a tier are deleted by clients and by other processes while a gateway serves them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import Isolation, LogManager
from tests.gateway.tiers.test_serving import (
    EARLIEST,
    EARLIEST_LOCAL,
    OFFSET_OUT_OF_RANGE,
    PATIENT_MS,
    consumed,
    first_local,
    list_offset,
    only,
)
from tests.support.gateway import WireClient, fetch_fields, serving
from tests.support.tiers import Broker, broker
from tests.support.waiting import soon

TOPIC = "t-plain"


@pytest.fixture
def of_broker(tmp_path: Path) -> Broker:
    return broker("kafka", tmp_path)


@pytest.fixture
def gateway(of_broker: Broker) -> Iterator[Gateway]:
    with serving(of_broker.log, commitlog_tier_url=str(of_broker.tier), remote_fetch_max_wait_ms=PATIENT_MS) as started:
        yield started


@pytest.fixture
def client(gateway: Gateway) -> Iterator[WireClient]:
    with WireClient(gateway) as connected:
        yield connected


def deleted_before(client: WireClient, offset: int) -> tuple[int, int]:
    """Error and new log start of a DeleteRecords request."""
    partitions = [{"partition_index": 0, "offset": offset}]
    answer = client.ask(21, 2, topics=[{"name": TOPIC, "partitions": partitions}], timeout=1000)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.low_watermark


@pytest.mark.parametrize("offset", [100, 153])
def test_records_of_the_tier_are_deleted_up_to_the_offset_and_no_further(
    client: WireClient, of_broker: Broker, offset: int
) -> None:
    local = first_local(of_broker, TOPIC)
    assert deleted_before(client, offset) == (0, offset)
    assert list_offset(client, TOPIC, EARLIEST) == (0, offset)
    assert list_offset(client, TOPIC, EARLIEST_LOCAL) == (0, local)
    assert only(client.ask(1, 11, **fetch_fields(TOPIC, offset - 1))).error_code == OFFSET_OUT_OF_RANGE
    rows = of_broker.rows(TOPIC, Isolation.READ_UNCOMMITTED)
    assert consumed(client, TOPIC, offset, Isolation.READ_UNCOMMITTED) == [row for row in rows if row[0] >= offset]
    assert deleted_before(client, 50) == (0, offset)


@pytest.mark.parametrize("above", [0, 3])
def test_a_log_start_in_the_directory_leaves_nothing_in_the_tier(
    client: WireClient, of_broker: Broker, above: int
) -> None:
    local = first_local(of_broker, TOPIC)
    assert deleted_before(client, local + above) == (0, local + above)
    assert list_offset(client, TOPIC, EARLIEST) == list_offset(client, TOPIC, EARLIEST_LOCAL) == (0, local + above)
    assert only(client.ask(1, 11, **fetch_fields(TOPIC, local - 1))).error_code == OFFSET_OUT_OF_RANGE


def test_a_deleted_start_stays_deleted_after_a_restart(of_broker: Broker, gateway: Gateway) -> None:
    with WireClient(gateway) as client:
        assert deleted_before(client, 100) == (0, 100)
    gateway.stop()
    with serving(of_broker.log, commitlog_tier_url=str(of_broker.tier)) as again, WireClient(again) as client:
        assert list_offset(client, TOPIC, EARLIEST) == (0, 100)


def test_a_log_start_that_another_process_raised_in_the_tier_is_followed(
    client: WireClient, of_broker: Broker, gateway: Gateway
) -> None:
    assert list_offset(client, TOPIC, EARLIEST) == (0, 0)
    with LogManager.open(str(of_broker.log)) as manager:
        manager.open_log(TOPIC, 0).delete_records(100)
    soon(lambda: list_offset(client, TOPIC, EARLIEST) == (0, 100))
    assert only(client.ask(1, 11, **fetch_fields(TOPIC, 99))).error_code == OFFSET_OUT_OF_RANGE
