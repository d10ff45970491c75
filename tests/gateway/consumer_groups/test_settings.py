"""Settings of groups of Kafka 4: within the node's bounds, whatever the log's file says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.gateway.consumer_groups.settings import (
    HEARTBEAT,
    SESSION,
    GroupTimes,
    check_group_settings,
    no_settings,
)
from pyspark_commitlog.storage import InvalidConfigError

NODE = GatewayConfig.from_mapping(
    {
        "group.consumer.heartbeat.interval.ms": "7000",
        "group.consumer.min.heartbeat.interval.ms": "6000",
        "group.consumer.max.heartbeat.interval.ms": "9000",
    }
)


def heartbeat_ms(settings: Mapping[str, str]) -> int:
    return GroupTimes(NODE, lambda group: settings if group == "own" else {}).heartbeat_interval_ms("own")


def test_a_group_without_settings_has_the_times_of_the_node() -> None:
    times = GroupTimes(NODE, no_settings)
    assert (times.heartbeat_interval_ms("any"), times.session_timeout_ms("any")) == (7_000, 45_000)


@pytest.mark.parametrize(("given", "used"), [("8000", 8_000), ("1000", 6_000), ("60000", 9_000), ("7000", 7_000)])
def test_a_value_stays_within_bounds_that_were_changed_after_it_was_set(given: str, used: int) -> None:
    assert heartbeat_ms({HEARTBEAT: given}) == used


def test_a_value_that_someone_edited_into_nonsense_is_that_of_the_node() -> None:
    assert heartbeat_ms({HEARTBEAT: "soon"}) == 7_000


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"consumer.heartbeat": "1"}, "Unknown group config name: consumer.heartbeat"),
        ({HEARTBEAT: "5999"}, f"{HEARTBEAT} must be greater than or equal to group.consumer.min.heartbeat"),
        ({HEARTBEAT: "9001"}, f"{HEARTBEAT} must be less than or equal to group.consumer.max.heartbeat"),
    ],
)
def test_settings_that_no_group_can_have_are_refused(settings: Mapping[str, str], error: str) -> None:
    with pytest.raises(InvalidConfigError, match=error):
        check_group_settings(settings, NODE)


def test_a_session_outlasts_a_heartbeat() -> None:
    config = GatewayConfig.from_mapping({"group.consumer.max.heartbeat.interval.ms": "45000"})
    with pytest.raises(InvalidConfigError, match=f"{SESSION} must be greater than {HEARTBEAT}"):
        check_group_settings({HEARTBEAT: "45000"}, config)
