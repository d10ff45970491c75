"""Kafka's own tools for ACLs, users and quotas, of 3.9.1 and 4.3.1, against a gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.security.scram import has_password
from pyspark_commitlog.gateway.security.users import UsersFile
from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import serving
from tests.support.kafka.kafka_jvm import KAFKA_4, KAFKA_VERSION, JavaError, run_main

pytestmark = [pytest.mark.only_all, pytest.mark.slow]

Tool = Callable[..., str]


@pytest.fixture
def users(tmp_path: Path) -> UsersFile:
    users = UsersFile(str(tmp_path / "users.json"))
    users.add("root", "secret")
    return users


@pytest.fixture
def gateway(tmp_path: Path, users: UsersFile) -> Iterator[Gateway]:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "commitlog_users_file": users.path,
        "commitlog_acls_file": str(tmp_path / "acls.json"),
        "commitlog_quotas_file": str(tmp_path / "quotas.json"),
        "super_users": "User:root",
    }
    with serving(tmp_path / "log", **settings) as gateway:
        yield gateway


@pytest.fixture
def tool(gateway: Gateway, tmp_path: Path) -> Tool:
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="root" password="secret";'
    config = tmp_path / "root.properties"
    config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={login}\n")

    def run(main: str, *arguments: str, release: str = KAFKA_VERSION) -> str:
        host, port = gateway.address
        return run_main(
            main, ["--bootstrap-server", f"{host}:{port}", "--command-config", str(config), *arguments], release=release
        )

    return run


@pytest.mark.parametrize(
    ("release", "main"), [(KAFKA_VERSION, "kafka.admin.AclCommand"), (KAFKA_4, "org.apache.kafka.tools.AclCommand")]
)
def test_kafka_acls(tool: Tool, release: str, main: str) -> None:
    acls = partial(tool, main, release=release)
    where = ("--topic", "shop-", "--resource-pattern-type", "prefixed")
    acls("--add", "--allow-principal", "User:bob", "--operation", "Read", "--allow-host", "10.0.0.1", *where)
    acls("--add", "--deny-principal", "User:*", "--operation", "All", "--cluster")
    listed = acls("--list")
    assert "resourceType=TOPIC, name=shop-, patternType=PREFIXED" in listed
    assert "principal=User:bob, host=10.0.0.1, operation=READ, permissionType=ALLOW" in listed
    assert "principal=User:*, host=*, operation=ALL, permissionType=DENY" in listed
    matching = acls("--list", "--topic", "shop-1", "--resource-pattern-type", "match")
    assert "name=shop-" in matching
    assert "CLUSTER" not in matching
    acls("--remove", "--force", *where)
    assert "shop-" not in acls("--list")


def test_kafka_configs_for_users(tool: Tool, users: UsersFile) -> None:
    configs = "kafka.admin.ConfigCommand"
    bob = ("--alter", "--entity-type", "users", "--entity-name", "bob")
    tool(configs, *bob, "--add-config", "SCRAM-SHA-512=[iterations=5000,password=her-own]")
    [(mechanism, credential)] = users.read()["bob"].items()
    assert (mechanism, credential.iterations) == ("SCRAM-SHA-512", 5000)
    assert has_password(mechanism, credential, "her-own")
    tool(configs, *bob, "--add-config", "producer_byte_rate=1048576")
    described = tool(configs, "--describe", "--entity-type", "users")
    assert "Quota configs for user-principal 'bob' are producer_byte_rate=1048576.0" in described
    assert "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-512=iterations=5000" in described
    tool(configs, *bob, "--delete-config", "SCRAM-SHA-512")
    assert list(users.read()) == ["root"]
    with pytest.raises(JavaError, match="does not exist"):
        tool(configs, *bob, "--delete-config", "SCRAM-SHA-512")


def test_kafka_configs_for_nodes_and_addresses(tool: Tool) -> None:
    configs = partial(tool, "kafka.admin.ConfigCommand")
    node, everybody = (
        ("--entity-type", "brokers", "--entity-name", "1"),
        ("--entity-type", "brokers", "--entity-default"),
    )
    configs("--alter", *everybody, "--add-config", "max.connections=900,log.retention.ms=86400000")
    configs("--alter", *node, "--add-config", "max.connections=800")
    described = configs("--describe", *node)
    assert "max.connections=800 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:max.connections=800, " in described
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:max.connections=900, DEFAULT_CONFIG:max.connections=2147483647}" in described
    assert "log.retention.ms=86400000" in configs("--describe", *everybody)
    with pytest.raises(JavaError, match="Cannot update these configs dynamically"):
        configs("--alter", *node, "--add-config", "num.partitions=3")
    configs("--alter", *node, "--delete-config", "max.connections")
    assert "DYNAMIC_BROKER_CONFIG" not in configs("--describe", *node)
    address = ("--entity-type", "ips", "--entity-name", "10.0.0.1")
    configs("--alter", *address, "--add-config", "connection_creation_rate=5")
    assert "connection_creation_rate=5.0" in configs("--describe", *address)
    anybody = ("--entity-type", "clients", "--entity-default")
    configs("--alter", *anybody, "--add-config", "request_percentage=50,controller_mutation_rate=10")
    described = configs("--describe", *anybody)
    assert "request_percentage=50.0" in described
    assert "controller_mutation_rate=10.0" in described


def test_kafka_configs_for_groups(tool: Tool) -> None:
    configs = partial(tool, "kafka.admin.ConfigCommand", release=KAFKA_4)
    group = ("--entity-type", "groups", "--entity-name", "g")
    configs("--alter", *group, "--add-config", "consumer.session.timeout.ms=50000")
    assert "consumer.session.timeout.ms=50000" in configs("--describe", *group)
    assert "consumer.session.timeout.ms=50000" in configs("--describe", "--entity-type", "groups")
    assert configs("--describe", "--entity-type", "client-metrics") == ""
    with pytest.raises(JavaError, match=r"must be greater than or equal to group\.consumer\.min\.session\.timeout\.ms"):
        configs("--alter", *group, "--add-config", "consumer.session.timeout.ms=5")
