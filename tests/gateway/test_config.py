"""GatewayConfig: Kafka's names, bounds, and the file of defaults."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from pyspark_commitlog.gateway import GatewayConfig
from pyspark_commitlog.gateway.config import Address, keys_of_gateway
from pyspark_commitlog.storage import InvalidConfigError

ROOT = Path(__file__).parents[2]


def test_the_file_of_defaults_has_every_setting_with_its_default() -> None:
    document = tomllib.loads((ROOT / "conf/gateway.toml").read_text())
    assert set(document) == {key.name for key in keys_of_gateway().values()}
    assert GatewayConfig.from_mapping(document) == GatewayConfig()


def test_settings_may_be_text() -> None:
    assert GatewayConfig.from_mapping({"node.id": "7", "auto.create.topics.enable": "false"}) == GatewayConfig(
        node_id=7, auto_create_topics_enable=False
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"num.network.thread": 1}, r"num\.network\.thread \(did you mean 'num\.network\.threads'"),
        ({"num.network.threads": 0}, r"num\.network\.threads = 0: must be a whole number of 32 bits, at least 1"),
        ({"listeners": "127.0.0.1:9092"}, "must be one listener like PLAINTEXT://127.0.0.1:9092"),
        ({"listeners": "SSL://127.0.0.1:9092"}, "must be one listener like PLAINTEXT"),
        ({"listeners": "PLAINTEXT://:70000"}, "must be HOST:PORT"),
        ({"advertised.listeners": "PLAINTEXT://here"}, r"advertised\.listeners = .* must be HOST:PORT"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_right(given: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidConfigError, match=said):
        GatewayConfig.from_mapping(given)


def test_an_address_may_be_of_ipv6() -> None:
    found = GatewayConfig(listeners="PLAINTEXT://[::1]:9092").listener
    assert found == Address("::1", 9092)
    assert str(found) == "[::1]:9092"
