"""ListConfigResources: what has configs, by kinds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.apis import ApiKey
from tests.gateway.handlers.configs.test_altering import GROUP, altered
from tests.support.gateway import WireClient, create_topic, serving

TOPIC, BROKER, LOGGER, CLIENT_METRICS = 2, 4, 8, 16
UNSUPPORTED_VERSION = 35


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with serving(tmp_path, node_id=7) as started:
        yield started


def listed(client: WireClient, *kinds: int) -> list[tuple[int, str]]:
    answer = client.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=kinds)
    assert answer.error_code == 0
    return sorted((each.resource_type, each.resource_name) for each in answer.config_resources)


def test_topics_nodes_and_groups_with_configs_are_listed(gateway: Gateway) -> None:
    with WireClient(gateway) as client:
        create_topic(client, "t", 1)
        assert altered(client, "g", GROUP, consumer_session_timeout_ms=50_000).error_code == 0
        assert listed(client) == [(TOPIC, "t"), (BROKER, "7"), (LOGGER, "7"), (GROUP, "g")]
        assert listed(client, GROUP, TOPIC) == [(TOPIC, "t"), (GROUP, "g")]
        assert listed(client, CLIENT_METRICS) == []


def test_a_kind_that_there_is_not_is_refused(gateway: Gateway) -> None:
    with WireClient(gateway) as client:
        answer = client.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=(TOPIC, 3))
        assert (answer.error_code, answer.config_resources) == (UNSUPPORTED_VERSION, ())


def test_version_0_lists_the_metrics_of_clients_alone(gateway: Gateway) -> None:
    with WireClient(gateway) as client:
        create_topic(client, "t", 1)
        answer = client.ask(ApiKey.LIST_CONFIG_RESOURCES, 0)
        assert (answer.error_code, answer.config_resources) == (0, ())
