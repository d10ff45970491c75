"""Changes of configs by clients: what is refused, in force, kept, and seen by other nodes."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.apis import ApiKey
from pyspark_commitlog.storage import InvalidConfigError, LogManager
from tests.support.gateway import WireClient, create_topic, produce_fields, serving
from tests.support.logs.building import batch
from tests.support.waiting import soon

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND = 0, 1, 2
INVALID_CONFIG, INVALID_REQUEST, TOO_LARGE = 40, 42, 10
OF_NODE, OF_ALL, STARTED_WITH, DEFAULT, OF_GROUP = 2, 3, 4, 5, 8


def altered(
    client: WireClient, name: str, kind: int = BROKER, operation: int = SET, *, is_dry: bool = False, **given: Any
) -> Any:
    """Changes configs, by names with ``_`` for dots; returns the answer for the resource."""
    changes = [
        {"name": each.replace("_", "."), "config_operation": operation, "value": None if value is None else str(value)}
        for each, value in given.items()
    ]
    asked = {"resource_type": kind, "resource_name": name, "configs": changes}
    (found,) = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[asked], validate_only=is_dry).responses
    return found


def described(client: WireClient, name: str, setting: str, kind: int = BROKER) -> tuple[Any, int, list[Any]]:
    """Returns a config's value and source, and all values with their sources."""
    asked = {"resource_type": kind, "resource_name": name, "configuration_keys": (setting,)}
    (found,) = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=[asked], include_synonyms=True).results
    assert found.error_code == 0, found.error_message
    (config,) = found.configs
    return config.value, config.config_source, [(each.name, each.value, each.source) for each in config.synonyms]


def test_a_contradiction_to_a_topic_does_not_name_it(gateway: Gateway, client: WireClient) -> None:
    with LogManager.open(gateway.log_dir) as manager:
        manager.create_topic("hidden", partitions=1, configs={"min.compaction.lag.ms": "10"})
    found = altered(client, "", is_dry=True, log_cleaner_max_compaction_lag_ms=5)
    assert found.error_code == INVALID_REQUEST
    assert found.error_message.startswith("beside the settings of a topic: min.compaction.lag.ms")
    assert "hidden" not in found.error_message


@pytest.mark.parametrize("name", ["", "a b"])
def test_wrong_changes_of_no_topic_get_their_own_code_first(client: WireClient, name: str) -> None:
    assert altered(client, name, TOPIC, APPEND, max_message_bytes=1).error_code == INVALID_CONFIG


def test_wrong_changes_of_no_resource_get_their_own_code_first(client: WireClient) -> None:
    assert altered(client, "", GROUP, APPEND, consumer_session_timeout_ms=50_000).error_code == INVALID_CONFIG
    assert altered(client, "", TOPIC, max_message_bytes=1).error_code == INVALID_REQUEST


@pytest.mark.parametrize(
    ("name", "setting", "value", "why"),
    [
        ("1", "num.partitions", "3", "Cannot update these configs dynamically: Set(num.partitions)"),
        ("", "log.retention.hours", "3", "Cannot update these configs dynamically: Set(log.retention.hours)"),
        ("1", "ssl.client.auth", "none", "These security configs can be dynamically updated only per-listener"),
        ("", "listener.name.plaintext.ssl.client.auth", "none", "Cannot update these configs at default cluster level"),
        ("1", "listener.name.tls.ssl.client.auth", "none", "the node has no listener tls with TLS"),
        ("1", "max.connections", "-1", "max.connections = '-1': must be a whole number of 32 bits, at least 0"),
        ("1", "max.connections.per.ip.overrides", "a", "must have pairs like"),
        ("1", "max.conections", "1", "did you mean 'max.connections'"),
    ],
)
def test_what_clients_may_not_set_is_refused(client: WireClient, name: str, setting: str, value: str, why: str) -> None:
    found = altered(client, name, **{setting: value})
    assert found.error_code == INVALID_REQUEST
    assert why in found.error_message


def test_limits_of_one_node_rank_above_those_of_all_and_outlive_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path / "log", max_connections=9) as gateway, WireClient(gateway) as client:
        assert not altered(client, "", max_connections=7).error_code
        assert not altered(client, "1", max_connections=1, log_retention_ms=86_400_000).error_code
        expected = [("1", OF_NODE), ("7", OF_ALL), ("9", STARTED_WITH), ("2147483647", DEFAULT)]
        value, source, synonyms = described(client, "1", "max.connections")
        assert (value, source) == ("1", OF_NODE)
        assert synonyms == [("max.connections", *each) for each in expected]
        assert described(client, "", "max.connections")[:2] == ("7", OF_ALL)
        with WireClient(gateway) as second:
            assert second.is_closed()  # at once
        hours = ("log.retention.hours", "168", DEFAULT)
        assert described(client, "1", "log.retention.ms")[2] == [("log.retention.ms", "86400000", OF_ALL), hours]
    with serving(tmp_path / "log", max_connections=9) as gateway, WireClient(gateway) as client:
        with WireClient(gateway) as second:
            assert second.is_closed()
        assert not altered(client, "1", operation=DELETE, max_connections=None).error_code
        assert described(client, "1", "max.connections")[:2] == ("7", OF_ALL)
        with WireClient(gateway) as second:
            assert described(second, "1", "max.connections")[0] == "7"


def test_the_older_request_replaces_what_a_node_has_alone(client: WireClient) -> None:
    """As ``kafka-configs`` of 3.9.1 sends it: with what DescribeConfigs shows as the node's own."""
    assert not altered(client, "", max_connections=900, log_retention_ms=1_000_000).error_code
    assert not altered(client, "1", max_connections=800, max_connections_per_ip=700).error_code
    config = {"name": "max.connections", "value": "600"}
    asked = {"resource_type": BROKER, "resource_name": "1", "configs": [config]}
    assert not client.ask(ApiKey.ALTER_CONFIGS, 1, resources=[asked], validate_only=False).responses[0].error_code
    assert described(client, "1", "max.connections")[:2] == ("600", OF_NODE)
    assert described(client, "1", "max.connections.per.ip")[1] == DEFAULT
    assert described(client, "1", "log.retention.ms")[:2] == ("1000000", OF_ALL)
    for name, given in (("1", {"max_connections": None}), ("", {"max_connections": None, "log_retention_ms": None})):
        assert not altered(client, name, operation=DELETE, **given).error_code


def test_a_list_may_be_added_to(client: WireClient) -> None:
    assert not altered(client, "", operation=APPEND, log_cleanup_policy="compact").error_code
    assert described(client, "1", "log.cleanup.policy")[0] == "delete,compact"
    assert altered(client, "", operation=APPEND, log_cleanup_policy="").error_code == INVALID_REQUEST
    assert not altered(client, "", operation=DELETE, log_cleanup_policy=None).error_code


def test_a_list_is_shown_without_the_spaces_that_it_was_given_with(client: WireClient) -> None:
    create_topic(client, "spaced")
    assert not altered(client, "spaced", TOPIC, cleanup_policy=" compact , delete ").error_code
    value, _, synonyms = described(client, "spaced", "cleanup.policy", TOPIC)
    assert (value, synonyms[0]) == ("compact,delete", ("cleanup.policy", "compact,delete", 1))


def produced(client: WireClient, topic: str) -> int:
    data = batch(bytes(3000)).tobytes()
    (answer,) = client.ask(0, 8, **produce_fields(topic, data)).responses
    return int(answer.partition_responses[0].error_code)


def test_another_node_follows_a_change_for_all_topics_and_for_one(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "log") as first,
        serving(tmp_path / "log", node_id=2) as second,
        WireClient(first) as one,
        WireClient(second) as two,
    ):
        names = [f"t{number}" for number in range(8)]
        for each in names:
            create_topic(one, each)

        def refused() -> set[str]:
            """Returns the topics for which a large batch is refused, by the node that leads each."""
            return {each for each in names if TOO_LARGE in (produced(one, each), produced(two, each))}

        assert refused() == set()
        assert not altered(one, "", message_max_bytes=1000).error_code
        soon(lambda: refused() == set(names))
        assert not altered(two, "t3", TOPIC, max_message_bytes=10_000).error_code
        soon(lambda: refused() == set(names) - {"t3"})


@contextmanager
def handshake(gateway: Gateway, authority: trustme.CA) -> Iterator[ssl.SSLSocket]:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with socket.create_connection(gateway.address, timeout=30) as plain:
        yield context.wrap_socket(plain, server_hostname="127.0.0.1")


def test_a_listener_gets_another_certificate_without_a_restart(tmp_path: Path) -> None:
    old, new = trustme.CA(), trustme.CA()
    for name, authority in (("old", old), ("new", new)):
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / f"{name}.pem"))
    settings = {
        "listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "ssl_keystore_location": str(tmp_path / "old.pem"),
    }
    with serving(tmp_path / "log", **settings) as gateway:
        plain = type("Address", (), {"address": gateway.addresses["PLAINTEXT"]})
        with WireClient(plain) as client, handshake(gateway, old):
            key = "listener.name.ssl.ssl.keystore.location"
            found = altered(client, "1", **{key: tmp_path / "none.pem"})
            assert found.error_code == INVALID_REQUEST
            assert "No such file" in found.error_message
            assert not altered(client, "1", **{key: tmp_path / "new.pem"}).error_code
            assert described(client, "1", key)[:2] == (str(tmp_path / "new.pem"), OF_NODE)
            with handshake(gateway, new):
                pass
            with pytest.raises(ssl.SSLCertVerificationError), handshake(gateway, old):
                pass
    (tmp_path / "new.pem").unlink()  # with the node's certificate, it might let in whom its own settings refuse
    with pytest.raises(InvalidConfigError, match=r"new\.pem.*No such file"), serving(tmp_path / "log", **settings):
        pass


def has_joined(client: WireClient, beat: dict[str, Any]) -> bool:
    return not client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, **beat).error_code


def test_a_group_has_times_of_its_own(tmp_path: Path) -> None:
    with serving(tmp_path / "log", offsets_topic_num_partitions=1) as gateway, WireClient(gateway) as client:
        create_topic(client, "t")
        session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
        assert described(client, "g", session, GROUP) == ("45000", DEFAULT, [(f"group.{session}", "45000", DEFAULT)])
        for wrong in ({session: "1000"}, {session: "70000"}, {heartbeat: "x"}, {"consumer.nothing": "1"}):
            assert altered(client, "g", GROUP, **wrong).error_code == INVALID_CONFIG
        assert altered(client, "", GROUP, **{session: "50000"}).error_code == INVALID_REQUEST
        assert not altered(client, "g", GROUP, **{session: "50000", heartbeat: "7000"}).error_code
        assert described(client, "g", session, GROUP) == (
            "50000",
            OF_GROUP,
            [(session, "50000", OF_GROUP), (f"group.{session}", "45000", DEFAULT)],
        )
        joining = {"member_id": "m", "member_epoch": 0, "rebalance_timeout": 60_000, "topic_partitions": ()}
        intervals = {}
        for group in ("g", "other"):
            beat = {"group_id": group, "subscribed_topic_names": ("t",), **joining}
            soon(partial(has_joined, client, beat))
            intervals[group] = client.ask(68, 0, **beat).heartbeat_interval
        assert {group: each.total_seconds() for group, each in intervals.items()} == {"g": 7, "other": 5}
