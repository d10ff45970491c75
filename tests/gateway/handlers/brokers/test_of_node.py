"""The settings of a node: all names of a broker, with values that hold here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyspark_commitlog.gateway.config import keys_of_gateway
from pyspark_commitlog.gateway.handlers.brokers.kafka_settings import TYPES, kafka_settings
from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient, serving
from tests.support.kafka.broker import Broker

DYNAMIC_DEFAULT, STATIC, DEFAULT = 3, 4, 5
# Read by Debezium's history of schemas, health checks of Micronaut and Spring Boot, and tools for capacity.
READ_BY_TOOLS = {
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "min.insync.replicas": "1",
    "message.max.bytes": "1048588",
    "log.retention.hours": "168",
    "log.retention.minutes": None,
    "log.retention.ms": None,
    "log.retention.bytes": "-1",
    "log.segment.bytes": "1073741824",
    "log.roll.hours": "168",
    "log.cleanup.policy": "delete",
    "log.flush.interval.ms": None,
    "compression.type": "producer",
    "unclean.leader.election.enable": "false",
    "num.partitions": "1",
    "auto.create.topics.enable": "true",
    "broker.id": "1",
    "node.id": "1",
    "broker.rack": None,
    "process.roles": "",
    "max.incremental.fetch.session.cache.slots": "1000",
    "log.cleaner.io.max.bytes.per.second": "1.7976931348623157E308",
}


def settings_of(client: WireClient, name: str = "1", version: int = 4, keys: Any = None) -> dict[str, Any]:
    asked = {"resource_type": 4, "resource_name": name, "configuration_keys": keys}
    more = {"include_synonyms": True, "include_documentation": True}
    [result] = client.ask(32, version, resources=[asked], **more).results
    assert result.error_code == 0, result.error_message
    assert len({each.name for each in result.configs}) == len(result.configs)
    return {each.name: each for each in result.configs}


@pytest.mark.parametrize("version", range(5))
def test_every_name_of_a_broker_is_there_in_every_version(client: WireClient, version: int) -> None:
    found = settings_of(client, version=version)
    assert set(found) == {*kafka_settings(), *(key.name for key in keys_of_gateway().values())}


def test_the_values_are_those_that_hold_here(client: WireClient, log_dir: Path) -> None:
    found = settings_of(client)
    assert {name: found[name].value for name in READ_BY_TOOLS} == READ_BY_TOOLS
    assert found["log.dirs"].value == found["log.dir"].value == str(log_dir)
    assert all(each.documentation for each in found.values())


def test_only_what_a_broker_calls_dynamic_and_the_gateway_follows_can_be_changed(client: WireClient) -> None:
    found = settings_of(client)
    fixed = ("default.replication.factor", "log.dirs", "num.io.threads", "broker.id", "num.replica.fetchers")
    for name in (*fixed, "log.retention.hours", "log.cleaner.enable"):
        assert found[name].read_only, name
    limits = ("max.connections", "max.connections.per.ip", "max.connection.creation.rate")
    for name in (*limits, "log.retention.ms", "message.max.bytes", "log.cleaner.threads", "min.insync.replicas"):
        assert not found[name].read_only, name


def test_types_are_kafkas(client: WireClient) -> None:
    found = settings_of(client)
    assert {name: found[name].config_type for name in kafka_settings()} == {
        name: each.type for name, each in kafka_settings().items()
    }


def test_secrets_are_shown_to_nobody(client: WireClient) -> None:
    found = settings_of(client)
    secret = {name for name, each in found.items() if each.is_sensitive}
    assert secret >= {name for name, each in kafka_settings().items() if each.type == TYPES["password"]}
    assert {found[name].value for name in secret} == {None}
    assert [found[name].synonyms for name in secret if found[name].synonyms] == []


def test_only_the_names_asked_for_are_answered(client: WireClient) -> None:
    assert set(settings_of(client, keys=("log.dirs", "nope", "num.partitions"))) == {"log.dirs", "num.partitions"}


@pytest.mark.parametrize(
    ("name", "value", "default"), [("log.retention.bytes", "24", "-1"), ("log.cleaner.threads", "2", "1")]
)
def test_a_setting_for_all_topics_is_shown_as_it_was_set(
    client: WireClient, name: str, value: str, default: str
) -> None:
    change = {"name": name, "config_operation": 0, "value": value}

    def alter(changed: dict[str, Any]) -> None:
        resource = {"resource_type": 4, "resource_name": "", "configs": [changed]}
        assert not client.ask(44, 1, resources=[resource], validate_only=False).responses[0].error_code

    alter(change)
    try:
        found = settings_of(client)[name]
        assert (found.value, found.config_source) == (value, DYNAMIC_DEFAULT)
        assert [(each.value, each.source) for each in found.synonyms] == [(value, DYNAMIC_DEFAULT), (default, DEFAULT)]
        assert set(settings_of(client, "")) == {name}
    finally:
        alter({**change, "config_operation": 1, "value": None})


def test_a_setting_that_the_node_was_started_with_is_shown_with_its_default(tmp_path: Path) -> None:
    given = {"num_partitions": 7, "ssl_key_password": "secret"}
    with serving(tmp_path / "log", **given) as gateway, WireClient(gateway) as client:
        found = settings_of(client)
    partitions = found["num.partitions"]
    assert (partitions.value, partitions.config_source) == ("7", STATIC)
    assert [(each.value, each.source) for each in partitions.synonyms] == [("7", STATIC), ("1", DEFAULT)]
    assert found["ssl.key.password"].value is None


@pytest.mark.slow
@pytest.mark.only_all
def test_names_types_and_defaults_are_those_of_kafka(tmp_path: Path, gateway: Gateway) -> None:
    with Broker(tmp_path / "kafka").start() as broker:
        address = SimpleNamespace(address=("127.0.0.1", broker.port))
        with WireClient(address) as client:
            theirs = settings_of(client)
    assert set(kafka_settings()) == set(theirs)
    for name, known in kafka_settings().items():
        defaults = [each.value for each in theirs[name].synonyms if each.source == DEFAULT and each.name == name]
        is_given = theirs[name].config_source == STATIC
        assert (known.type, known.is_sensitive) == (theirs[name].config_type, theirs[name].is_sensitive)
        assert [known.default] == (defaults or [None if is_given else theirs[name].value]), name
