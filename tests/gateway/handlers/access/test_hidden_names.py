"""No answer to a client has a name that it may not describe: every kind of request, in bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from kio.serial import entity_writer

from pyspark_commitlog.gateway.security.users import UsersFile
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.apis import APIS, ApiKey
from tests.support.gateway import WireClient, produce_fields, request_head, serving
from tests.support.logs.building import batch
from tests.support.recorded_wire import layouts
from tests.support.waiting import soon
from tests.torture.gateway import recording

MARK, NEAR = "secret-mark", "secret-mar"  # the second is a name for which an error could suggest the first
DRAWS = 3  # of each kind and version
WAIT_S = 1.0  # for an answer: some requests wait for others
RULES = f"""
[[allow]]
users = ["narrow"]
operations = ["all"]
topics = ["{NEAR}"]
groups = ["{NEAR}"]
transactional_ids = ["{NEAR}"]

[[allow]]
users = ["{MARK}-user"]
operations = ["read"]
topics = ["{MARK}-rule"]
"""
ANY_ACL = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
ABOUT_ALL: list[tuple[ApiKey, dict[str, Any]]] = [
    (ApiKey.METADATA, {"topics": None}),
    (ApiKey.LIST_GROUPS, {}),
    (ApiKey.DESCRIBE_ACLS, ANY_ACL),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": (), "strict": False}),
    (ApiKey.LIST_TRANSACTIONS, {}),
    (ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None}),
    (ApiKey.DESCRIBE_CONFIGS, {"resources": [{"resource_type": 4, "resource_name": "1"}]}),
]
OTHERS_ABOUT_ALL: list[tuple[ApiKey, dict[str, Any]]] = [
    (ApiKey.DESCRIBE_CLUSTER, {}),
    (ApiKey.ELECT_LEADERS, {"election_type": 0, "topic_partitions": None, "timeout": 1000}),
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, {"topics": None, "timeout": 1000}),
    (ApiKey.OFFSET_FETCH, {"group_id": NEAR, "topics": None, "groups": [{"group_id": NEAR, "topics": None}]}),
    (ApiKey.DELETE_ACLS, {"filters": [ANY_ACL]}),
]


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with a marked topic, group, group of Kafka 4, transaction, ACL, rule, user, quota and directory."""
    home = tmp_path_factory.mktemp("hidden")
    (home / "rules.toml").write_text(RULES)
    users = UsersFile(str(home / "users.json"))
    for user in ("narrow", "nobody", "root", f"{MARK}-user"):
        users.add(user, user)
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256",
        "commitlog_users_file": users.path,
        "commitlog_rules_file": str(home / "rules.toml"),
        "commitlog_quotas_file": str(home / "quotas.json"),
        "super_users": "User:root",
        "connection_failed_authentication_delay_ms": 0,
        "group_initial_rebalance_delay_ms": 0,
        "offsets_topic_num_partitions": 1,
        "transaction_state_log_num_partitions": 1,
    }
    with serving(home / f"{MARK}-log", **settings) as gateway, logged_in(gateway, "root") as root:
        fill(root)
        yield gateway


def logged_in(gateway: Gateway, user: str) -> WireClient:
    client = WireClient(gateway)
    client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    assert not client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=f"\0{user}\0{user}".encode()).error_code
    client.socket.settimeout(WAIT_S)
    return client


def fill(root: WireClient) -> None:
    root.socket.settimeout(30)
    topic, group = f"{MARK}-topic", f"{MARK}-group"
    new = {"name": topic, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    assert not root.ask(ApiKey.CREATE_TOPICS, 4, topics=[new], timeout=1000).topics[0].error_code
    root.ask(ApiKey.PRODUCE, 8, **produce_fields(topic, batch(b"x").tobytes()))
    offset = {"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}
    committed = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": [offset]}

    def has_committed() -> bool:
        answer = root.ask(ApiKey.OFFSET_COMMIT, 8, **committed)
        return not answer.topics[0].partitions[0].error_code

    soon(has_committed)
    beat = {"member_id": f"{MARK}-member", "member_epoch": 0, "rebalance_timeout": 60_000, "topic_partitions": ()}
    joining = {"group_id": f"{MARK}-group-4", "subscribed_topic_names": (topic,), **beat}
    assert not root.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **joining).error_code
    beginning = {"transactional_id": f"{MARK}-transaction", "transaction_timeout": 60_000}
    soon(lambda: not root.ask(ApiKey.INIT_PRODUCER_ID, 1, **beginning).error_code)
    subject = {"resource_type": 2, "resource_name": f"{MARK}-acl", "resource_pattern_type": 3}
    acl = {**subject, "principal": f"User:{MARK}-user", "host": "*", "operation": 3, "permission_type": 3}
    assert not root.ask(ApiKey.CREATE_ACLS, 1, creations=[acl]).results[0].error_code
    quota = {"key": "producer_byte_rate", "value": 1.0, "remove": False}
    entry = {"entity": [{"entity_type": "user", "entity_name": f"{MARK}-user"}], "ops": [quota]}
    assert not root.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[entry], validate_only=False).entries[0].error_code


def answered(client: WireClient, frame: bytes) -> bytes | None:
    """Sends a frame; returns the answer, "" if the connection is closed, and None if there is none in time."""
    try:
        client.send_frame(frame)
        return client.receive()
    except TimeoutError:
        return None
    except (EOFError, OSError):
        return b""


def test_who_may_describe_everything_sees_the_marks(marked: Gateway) -> None:
    with logged_in(marked, "root") as root:
        for key, fields in ABOUT_ALL:
            root.send(key, APIS[key].highest, **fields)
            assert MARK.encode() in root.receive(), key.name


@pytest.mark.parametrize("user", ["nobody", "narrow"])
def test_a_request_about_everything_shows_nothing_hidden(marked: Gateway, user: str) -> None:
    for key, fields in (*ABOUT_ALL, *OTHERS_ABOUT_ALL):
        for version in range(APIS[key].lowest, APIS[key].highest + 1):
            with logged_in(marked, user) as client:
                client.send(key, version, **fields)
                try:
                    answer = client.receive()
                except EOFError:
                    answer = b""
            assert MARK.encode() not in answer, (key.name, version)


@pytest.mark.parametrize("user", ["nobody", "narrow"])
def test_no_kind_of_request_tells_a_hidden_name(marked: Gateway, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "NAMES", (NEAR, NEAR, f"{NEAR}-topic", f"{NEAR}-group", "1", ""))
    chance, answers = Random(7), 0
    client = logged_in(marked, user)
    for key in ApiKey:
        if key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            continue
        for version in sorted({APIS[key].lowest, APIS[key].highest}):
            for _ in range(DRAWS):
                entity = layouts(key, version)[0]
                body = io.BytesIO()
                entity_writer(entity)(body, recording._entity(entity, chance))
                answer = answered(client, request_head(key, version, 1) + body.getvalue())
                assert MARK.encode() not in (answer or b""), (key.name, version)
                answers += bool(answer)
                if not answer:
                    client.socket.close()
                    client = logged_in(marked, user)
    client.socket.close()
    assert answers > 200
