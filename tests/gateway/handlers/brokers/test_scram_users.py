"""Users over the protocol: their mechanisms, new and deleted passwords, and what is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient

SECURITY_DISABLED, STORAGE, UNSUPPORTED, NOT_FOUND, DUPLICATE, UNACCEPTABLE = 54, 56, 33, 91, 92, 93
DESCRIBE, ALTER = 50, 51
SHA_256, SHA_512 = 1, 2
HASHES = {SHA_256: "sha256", SHA_512: "sha512"}

LogsIn = Callable[[str], WireClient]


def upsertion(name: str, password: str = "new", mechanism: int = SHA_256, iterations: int = 4096) -> dict[str, Any]:
    salt = b"a salt by a client, of 33 bytes.."
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
    hashed = {"iterations": iterations, "salt": salt, "salted_password": salted}
    return {"name": name, "mechanism": mechanism, **hashed}


def codes(answer: Any) -> dict[str, int]:
    return {each.user: int(each.error_code) for each in answer.results}


def described(root: WireClient, *users: str) -> dict[str, list[tuple[int, int]]]:
    results = root.ask(DESCRIBE, 0, users=[{"name": each} for each in users]).results
    return {each.user: [(info.mechanism, info.iterations) for info in each.credential_infos] for each in results}


def can_log_in(gateway: Gateway, mechanism: str, user: str, password: str) -> bool:
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.username": user}
    admin = AdminClient(
        {
            "bootstrap.servers": "{}:{}".format(*gateway.address),
            **login,
            "sasl.password": password,
            "error_cb": lambda _: None,
            "log_level": 0,
        }
    )
    try:
        admin.list_topics(timeout=10)
    except KafkaException:
        return False
    return True


def test_without_logins_there_are_no_users(client: WireClient) -> None:
    answer = client.ask(DESCRIBE, 0, users=None)
    assert (answer.error_code, answer.results) == (SECURITY_DISABLED, ())
    assert "commitlog.users.file" in answer.error_message
    altered = client.ask(ALTER, 0, deletions=[{"name": "a", "mechanism": SHA_256}], upsertions=[upsertion("b")] * 2)
    assert codes(altered) == {"a": SECURITY_DISABLED, "b": SECURITY_DISABLED}


def test_a_new_password_can_be_used_at_once(logs_in: LogsIn, secured: Gateway) -> None:
    root = logs_in("root")
    answer = root.ask(ALTER, 0, upsertions=[upsertion("bob"), upsertion("alice", mechanism=SHA_512)])
    assert codes(answer) == {"bob": 0, "alice": 0}
    assert can_log_in(secured, "SCRAM-SHA-256", "bob", "new")
    assert can_log_in(secured, "PLAIN", "bob", "new")
    assert can_log_in(secured, "SCRAM-SHA-512", "alice", "new")
    assert can_log_in(secured, "SCRAM-SHA-256", "alice", "alice")  # which was not named


def test_users_are_described(logs_in: LogsIn) -> None:
    root = logs_in("root")
    root.ask(ALTER, 0, upsertions=[upsertion("bob", iterations=8192)])
    both = [(SHA_256, 4096), (SHA_512, 4096)]
    assert described(root) == {"alice": both, "bob": [(SHA_256, 8192)], "root": both}
    assert described(root, "bob") == {"bob": [(SHA_256, 8192)]}
    asked = [{"name": each} for each in ("nobody", "alice", "bob", "alice")]
    answer = root.ask(DESCRIBE, 0, users=asked)
    assert codes(answer) == {"nobody": NOT_FOUND, "alice": DUPLICATE, "bob": 0}


def test_a_user_without_credentials_is_gone(logs_in: LogsIn, secured: Gateway, tmp_path: Path) -> None:
    root = logs_in("root")
    deletions = [{"name": "alice", "mechanism": SHA_256}]
    assert codes(root.ask(ALTER, 0, deletions=deletions)) == {"alice": 0}
    assert described(root, "alice") == {"alice": [(SHA_512, 4096)]}
    assert codes(root.ask(ALTER, 0, deletions=deletions)) == {"alice": NOT_FOUND}
    assert codes(root.ask(ALTER, 0, deletions=[{"name": "alice", "mechanism": SHA_512}])) == {"alice": 0}
    assert set(described(root)) == {"root"}
    with WireClient(secured) as client:
        client.ask(17, 1, mechanism="PLAIN")
        assert client.ask(36, 2, auth_bytes=b"\0alice\0alice").error_code
    assert '"alice"' not in (tmp_path / "users.json").read_text()


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        pytest.param({"mechanism": 0}, UNSUPPORTED, id="mechanism"),
        pytest.param({"mechanism": 3}, UNSUPPORTED, id="later mechanism"),
        pytest.param({"iterations": 4095}, UNACCEPTABLE, id="too few iterations"),
        pytest.param({"iterations": 16_385}, UNACCEPTABLE, id="too many iterations"),
        pytest.param({"name": ""}, UNACCEPTABLE, id="no name"),
        pytest.param({"name": "a\nb"}, UNACCEPTABLE, id="a line break in the name"),
        pytest.param({"salt": b""}, UNACCEPTABLE, id="no salt"),
        pytest.param({"salt": bytes(1025)}, UNACCEPTABLE, id="long salt"),
        pytest.param({"salted_password": b""}, UNACCEPTABLE, id="no password"),
    ],
)
def test_what_is_wrong_changes_nothing_and_the_others_are_changed(
    logs_in: LogsIn, fields: dict[str, Any], code: int
) -> None:
    root = logs_in("root")
    wrong = {**upsertion("carol"), **fields}
    answer = root.ask(ALTER, 0, upsertions=[wrong, upsertion("bob")])
    assert codes(answer) == {wrong["name"]: code, "bob": 0}
    assert set(described(root)) == {"alice", "bob", "root"}


def test_a_user_is_changed_once_in_a_request_or_not_at_all(logs_in: LogsIn) -> None:
    root = logs_in("root")
    before = described(root)
    twice = root.ask(ALTER, 0, upsertions=[upsertion("alice", iterations=9000), upsertion("alice", mechanism=SHA_512)])
    assert codes(twice) == {"alice": DUPLICATE}
    deletions = [{"name": "alice", "mechanism": SHA_256}]
    both = root.ask(ALTER, 0, deletions=deletions, upsertions=[upsertion("alice", iterations=9000)])
    assert codes(both) == {"alice": DUPLICATE}
    first = root.ask(ALTER, 0, deletions=[{"name": "nobody", "mechanism": 9}] * 2)
    assert codes(first) == {"nobody": UNSUPPORTED}  # the first error, as in Kafka
    assert described(root) == before


def test_a_damaged_file_is_reported_without_its_path(logs_in: LogsIn, tmp_path: Path) -> None:
    root = logs_in("root")
    (tmp_path / "users.json").write_text("{")
    assert codes(root.ask(ALTER, 0, upsertions=[upsertion("bob")])) == {"bob": STORAGE}
    answer = root.ask(DESCRIBE, 0, users=None)
    assert answer.error_code == STORAGE
    assert "json" not in answer.error_message
    assert (tmp_path / "users.json").read_text() == "{"


def test_confluents_admin_client(secured: Gateway) -> None:
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    host, port = secured.address
    admin = AdminClient(
        {"bootstrap.servers": f"{host}:{port}", **login, "sasl.username": "root", "sasl.password": "root"}
    )
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 5000)
    alterations = [
        UserScramCredentialUpsertion("dora", info, b"her password"),
        UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_256),
        UserScramCredentialDeletion("nobody", ScramMechanism.SCRAM_SHA_256),
    ]
    futures = admin.alter_user_scram_credentials(alterations, request_timeout=30)
    futures["dora"].result()
    futures["alice"].result()
    with pytest.raises(KafkaException, match="RESOURCE_NOT_FOUND"):
        futures["nobody"].result()
    found = admin.describe_user_scram_credentials(["dora"], request_timeout=30)["dora"].result()
    assert [(each.mechanism, each.iterations) for each in found.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_512, 5000)
    ]
    assert can_log_in(secured, "SCRAM-SHA-512", "dora", "her password")
