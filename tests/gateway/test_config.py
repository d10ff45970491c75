"""GatewayConfig: Kafka's names, bounds, and the file of defaults."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.config import GatewayConfig, keys_of_gateway
from pyspark_commitlog.storage import Address, InvalidConfigError

ROOT = Path(__file__).parents[2]


def test_the_file_of_defaults_has_every_setting_with_its_default() -> None:
    document = tomllib.loads((ROOT / "conf/gateway.toml").read_text())
    assert set(document) == {key.name for key in keys_of_gateway().values()}
    assert GatewayConfig.from_mapping(document) == GatewayConfig()


def test_settings_may_be_text() -> None:
    assert GatewayConfig.from_mapping({"node.id": "7", "auto.create.topics.enable": "false"}) == GatewayConfig(
        node_id=7, auto_create_topics_enable=False
    )


LOCAL = "PLAINTEXT://127.0.0.1:9092"
NAMED = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT, in:PLAINTEXT, OUT:SASL_SSL"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"num.network.thread": 1}, r"num\.network\.thread \(did you mean 'num\.network\.threads'"),
        ({"num.network.threads": 0}, r"num\.network\.threads = 0: must be a whole number of 32 bits, at least 1"),
        ({"listeners": "127.0.0.1:9092"}, "must be one listener like PLAINTEXT://127.0.0.1:9092"),
        ({"listeners": "TLS://127.0.0.1:9092"}, "protocols are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"listeners": "SSL://127.0.0.1:9092"}, r"needs a certificate: set ssl\.keystore\.location"),
        ({"listeners": "SASL_PLAINTEXT://127.0.0.1:9092"}, r"needs users: set commitlog\.users\.file"),
        ({"listeners": "PLAINTEXT://:9092"}, "other machines could connect and be listened to: use SASL_SSL"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "other machines could connect"),
        ({"listeners": "SSL://10.0.0.1:9092", "ssl.keystore.location": "k.pem"}, "could connect without a login"),
        ({"listeners": "SASL_PLAINTEXT://[::]:9092", "commitlog.users.file": "u"}, "and be listened to"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "of OAUTHBEARER, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"listeners": "PLAINTEXT://:70000"}, "must be HOST:PORT"),
        ({"advertised.listeners": "PLAINTEXT://here"}, r"advertised\.listeners = .* must be HOST:PORT"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect to 0.0.0.0:9092"),
        ({"advertised.listeners": "SSL://here:9092"}, "listeners has no SSL; it has PLAINTEXT"),
        ({"listeners": f"{LOCAL},{LOCAL}"}, "two listeners have the name PLAINTEXT"),
        ({"listeners": f"{LOCAL},IN://127.0.0.1:9092", **NAMED}, "two listeners have the port 9092"),
        ({"listeners": f"{LOCAL},IN://127.0.0.1:9093"}, "the listener IN has no protocol"),
        ({"listeners": f"{LOCAL},OUT://0.0.0.0:9093", **NAMED}, "'OUT://0.0.0.0:9093': needs a certificate"),
        ({"listener.security.protocol.map": "IN:TLS"}, "must have pairs like OUTSIDE:SASL_SSL"),
        ({"listener.security.protocol.map": "IN:SSL,in:SSL"}, "one per name"),
        (
            {"max.connections.per.ip.overrides": "127.0.0.1"},
            r"per\.ip\.overrides = '127\.0\.0\.1': must have pairs like",
        ),
        ({"max.connections.per.ip.overrides": "127.0.0.1:-1"}, "must have pairs like 127.0.0.1:200"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_right(given: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidConfigError, match=said):
        GatewayConfig.from_mapping(given)


TLS = {"ssl.keystore.location": "key.pem"}


@pytest.mark.parametrize(
    "given",
    [
        {"listeners": "SASL_SSL://0.0.0.0:9093", "commitlog.users.file": "users.json", **TLS},
        {"listeners": "SSL://:9093", "ssl.client.auth": "required", "ssl.truststore.location": "ca.pem", **TLS},
        {"listeners": "PLAINTEXT://0.0.0.0:9092", "commitlog.insecure.listeners": "true"},
        {"listeners": "PLAINTEXT://localhost:9092"},
        {"listeners": "PLAINTEXT://127.9.9.9:9092"},
        {"listeners": "PLAINTEXT://[::1]:9092"},
    ],
)
def test_a_listener_that_others_reach_is_encrypted_and_asks_who_they_are(given: dict[str, object]) -> None:
    GatewayConfig.from_mapping(given)


def test_the_password_of_the_key_is_not_shown() -> None:
    assert "hush" not in repr(GatewayConfig.from_mapping({"ssl.key.password": "hush"}))


def test_an_address_may_be_of_ipv6() -> None:
    found = GatewayConfig(listeners="PLAINTEXT://[::1]:9092").all_listeners[0].address
    assert found == Address("::1", 9092)
    assert str(found) == "[::1]:9092"
