"""What ``commitlog gateway --check`` says of a gateway that works, and of one that does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from pyspark_commitlog.gateway.check import CheckError, check_gateway
from pyspark_commitlog.gateway.security.users import UsersFile
from pyspark_commitlog.gateway.server import Gateway
from tests.cli.in_process import commitlog
from tests.gateway.test_clients import produced
from tests.support.gateway import serving
from tests.support.ports import free_port


def test_a_gateway_on_this_machine(gateway: Gateway, topic: str, tmp_path: Path) -> None:
    produced(gateway, topic, [b"one", b"two"])
    done = commitlog("gateway", "--log-dir", tmp_path, "--check", "--listen", gateway.address)
    assert done.code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"connected to {gateway.address}"
    assert f"clients are told to connect to {gateway.address}, which works" in lines
    assert [line for line in lines if line.startswith(f"{topic}-0 has offsets 0 to 2")]
    assert lines[-1] == f"groups are coordinated by {gateway.address}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_tls_and_logins(tmp_path: Path, mechanism: str) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    users = UsersFile(str(tmp_path / "users.json"))
    users.add("a=b,c", "secret")
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "ssl_keystore_location": str(tmp_path / "server.pem"),
        "commitlog_users_file": users.path,
        "sasl_enabled_mechanisms": mechanism,
    }
    with serving(tmp_path / "log", **settings) as gateway:
        config = replace(gateway.config, listeners=f"SASL_SSL://{gateway.address}")
        with pytest.raises(
            CheckError,
            match=r"TLS with .*(self.signed|local issuer).*; give .* ssl\.truststore\.location",
        ):
            list(check_gateway(config))
        config = replace(config, ssl_truststore_location=str(tmp_path / "ca.pem"))
        said = list(check_gateway(config, "a=b,c", "secret"))
        assert f"connected to {gateway.address} by TLS" in said
        assert f"logged in as a=b,c by {mechanism}" in said
        with pytest.raises(CheckError, match="Authentication failed"):
            list(check_gateway(config, "a=b,c", "wrong"))
        with pytest.raises(CheckError, match="give --user"):
            list(check_gateway(config))


def test_a_user_whose_rules_name_other_groups(tmp_path: Path) -> None:
    users = UsersFile(str(tmp_path / "users.json"))
    users.add("alice", "secret")
    rules = tmp_path / "rules.toml"
    rules.write_text('[[allow]]\nusers = ["alice"]\noperations = ["read"]\ngroups = ["shop*"]\n')
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "commitlog_users_file": users.path,
        "commitlog_rules_file": str(rules),
    }
    with serving(tmp_path / "log", **settings) as gateway:
        config = replace(gateway.config, listeners=f"SASL_PLAINTEXT://{gateway.address}")
        *_, last = check_gateway(config, "alice", "secret")
    assert last == "groups were not tried: this user has no right to describe the group commitlog-check"


def test_an_address_that_clients_cannot_reach(tmp_path: Path) -> None:
    with serving(tmp_path, advertised_listeners="PLAINTEXT://127.0.0.1:1") as gateway:
        done = commitlog("gateway", "--log-dir", tmp_path, "--check", "--listen", gateway.address)
        assert done.code == 1
        assert "clients are told to connect to 127.0.0.1:1, which fails: Connection refused" in done.stderr
    done = commitlog("gateway", "--log-dir", tmp_path, "--check", "--listen", "127.0.0.1:1")
    assert (done.code, done.stderr) == (1, "commitlog: cannot connect to 127.0.0.1:1: Connection refused\n")


@pytest.fixture
def everywhere(tmp_path: Path) -> Iterator[int]:
    """The port of a gateway that listens on all addresses with a certificate for localhost; it leaves its files."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    UsersFile(str(tmp_path / "users.json")).add("alice", "secret")
    port = free_port()
    settings = {
        "listeners": f"SASL_SSL://0.0.0.0:{port}",
        "advertised_listeners": f"SASL_SSL://localhost:{port}",
        "ssl_keystore_location": str(tmp_path / "server.pem"),
        "commitlog_users_file": str(tmp_path / "users.json"),
    }
    with serving(tmp_path / "log", **settings):
        yield port


def test_a_listener_on_all_addresses_is_checked_where_clients_connect(everywhere: int, tmp_path: Path) -> None:
    conf = tmp_path / "gateway.toml"
    conf.write_text(
        f'"listeners" = "SASL_SSL://0.0.0.0:{everywhere}"\n'
        f'"advertised.listeners" = "SASL_SSL://localhost:{everywhere}"\n'
        f'"ssl.keystore.location" = "{tmp_path}/server.pem"\n'
        f'"ssl.truststore.location" = "{tmp_path}/ca.pem"\n'
        f'"commitlog.users.file" = "{tmp_path}/users.json"\n'
    )
    done = commitlog("gateway", "--log-dir", tmp_path, "--check", "--conf", conf, "--user", "alice", stdin=b"secret\n")
    assert done.code == 0, done.stderr
    assert done.stdout.startswith(f"connected to localhost:{everywhere} by TLS\n")


def test_a_client_needs_only_the_authorities_that_it_trusts(everywhere: int, tmp_path: Path) -> None:
    done = commitlog(
        *("gateway", "--log-dir", tmp_path, "--check", "--listen", f"SASL_SSL://localhost:{everywhere}"),
        *("--config", f"ssl.truststore.location={tmp_path}/ca.pem", "--user", "alice"),
        stdin=b"secret\n",
    )
    assert done.code == 0, done.stderr
    assert "logged in as alice by SCRAM-SHA-512" in done.stdout


def test_a_client_that_forgot_tls_is_told_so(tmp_path: Path) -> None:
    trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    settings = {"listeners": "SSL://127.0.0.1:0", "ssl_keystore_location": str(tmp_path / "server.pem")}
    with serving(tmp_path / "log", **settings) as gateway:
        config = replace(gateway.config, listeners=f"PLAINTEXT://{gateway.address}")
        with pytest.raises(CheckError, match=r"expect TLS there: .* SSL://"):
            list(check_gateway(config))
