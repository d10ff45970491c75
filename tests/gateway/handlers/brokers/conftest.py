"""A gateway with logins, rules and ACLs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.security.users import UsersFile
from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient, serving

RULES = """
[[allow]]
users = ["alice"]
operations = ["read"]
topics = ["orders"]
"""

LogsIn = Callable[[str], WireClient]


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Gateway]:
    """A gateway whose users log in by PLAIN with their names as passwords; root may do everything."""
    (tmp_path / "rules.toml").write_text(RULES)
    users = UsersFile(str(tmp_path / "users.json"))
    for user in ("alice", "root"):
        users.add(user, user)
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "commitlog_users_file": users.path,
        "commitlog_rules_file": str(tmp_path / "rules.toml"),
        "super_users": "User:root",
        "connection_failed_authentication_delay_ms": 10,
    }
    with serving(tmp_path / "log", **settings) as gateway:
        yield gateway


@pytest.fixture
def logs_in(secured: Gateway) -> Iterator[LogsIn]:
    """Returns a client that has logged in as a user; all are closed at the end."""
    clients: list[WireClient] = []

    def log_in(user: str) -> WireClient:
        client = WireClient(secured)
        clients.append(client)
        client.ask(17, 1, mechanism="PLAIN")
        assert not client.ask(36, 2, auth_bytes=f"\0{user}\0{user}".encode()).error_code
        return client

    yield log_in
    for each in clients:
        each.socket.close()
