"""Requests at the edges of what ACLs, users, quotas, configs and fetch sessions may be: answers as Kafka's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from pyspark_commitlog.protocol.apis import ApiKey
from tests.support.gateway import create_topic, fetch_fields
from tests.support.kafka.kafka_jvm import KAFKA_4, KAFKA_VERSION
from tests.torture.gateway.beside_kafka.sides import EVERY_ACL, Pair, shared

pytestmark = [pytest.mark.slow, pytest.mark.only_all]

NAMES = ("ünï", "a b", " ", "\t", "*", "", "a*", "*a", "日本", "😀", "x" * 300, "a/b", "\0", "a\nb", ".")
TOPIC, CLUSTER, LITERAL, PREFIXED, READ, ALLOW = 2, 4, 3, 4, 3, 3
USERS_AND_CLIENTS = ({"user": "u"}, {"user": None}, {"client-id": "ü 😀"}, {"user": None, "client-id": "c*"})
ADDRESSES = (
    {"ip": "1.2.3.4"},
    {"ip": None},
    {"ip": "0:0:0:0:0:0:0:1"},
    {"ip": "999.1.1.1"},
    {"ip": "1.2.3.4", "user": "u"},
)
RATES = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
VALUES = (1000.0, 1000.5, 0.001, 0.0, -1.0, 2.0**31 - 1, 2.0**31, 2.0**62, 2.0**63)
CONNECTIONS, CLEANUP = "connection_creation_rate", "cleanup.policy"


@pytest.fixture(scope="module", params=[KAFKA_VERSION, KAFKA_4])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(tmp_path_factory.mktemp("pair"), request.param)
    yield pair
    pair.close()


def compared(pair: Pair, key: ApiKey, version: int, asked: Iterable[Mapping[str, Any]]) -> None:
    """Sends each request to both, and fails with those whose answers differ; then both must show the same."""
    different = []
    for fields in asked:
        ours, theirs = (shared(each.ask("root", key, version, **fields), "") for each in (pair.ours, pair.theirs))
        if ours != theirs:
            different.append(f"{fields}\nours:    {ours}\nKafka's: {theirs}")
    assert not different, "\n".join(different)
    pair.settle(key.name)


def acl(name: str, kind: int = TOPIC, how: int = LITERAL, **changes: Any) -> dict[str, Any]:
    whose = {"principal": "User:alice", "host": "*", "operation": READ, "permission_type": ALLOW}
    return {"resource_type": kind, "resource_name": name, "resource_pattern_type": how, **whose, **changes}


def test_acls_with_odd_names(pair: Pair) -> None:
    principals = ("User:", ":", "User:a:b", "user:alice", "User", "*", " User:a", "User:CN=a,OU=b", "User:ü")
    rules = [
        *(acl(name, kind, how) for kind in (TOPIC, 3, 5, 6, 7) for how in (LITERAL, PREFIXED) for name in NAMES),
        *(acl("p", principal=each) for each in principals),
        *(acl("h", host=each) for each in ("", " ", "10.0.0.0/8", "localhost", "ü", "127.0.0.1 ")),
        *(acl("kafka-cluster", CLUSTER, how) for how in (LITERAL, PREFIXED)),
    ]
    compared(pair, ApiKey.CREATE_ACLS, 3, [{"creations": []}, *({"creations": [each, each]} for each in rules)])
    filters = [
        {**EVERY_ACL, "pattern_type_filter": how, "resource_name_filter": name}
        for how in (1, 2, LITERAL, PREFIXED)
        for name in (*NAMES, "日", "nothing", None)
    ]
    compared(pair, ApiKey.DESCRIBE_ACLS, 3, filters)
    compared(pair, ApiKey.DELETE_ACLS, 3, [{"filters": filters[:2] * 2}, {"filters": []}, {"filters": [EVERY_ACL]}])


def user(name: str, mechanism: int = 1, iterations: int = 4096) -> dict[str, Any]:
    made = {"salt": b"salt", "salted_password": b"p" * 32, "iterations": iterations}
    return {"name": name, "mechanism": mechanism, **made}


def test_users_with_odd_names_and_iterations(pair: Pair) -> None:
    bounds = (-(2**31), -1, 0, 4095, 4096, 16384, 16385, 2**31 - 1)
    named = [user(each) for each in NAMES if each.isprintable()]
    first, second = user("d"), user("d", 2)
    asked: list[tuple[Sequence[Any], Sequence[Any]]] = [
        *(([], [user("u", iterations=each)]) for each in bounds),
        *(([user("u", each)], [user("v", each)]) for each in (-1, 0, 3, 127)),
        *(([], [each]) for each in named),
        *[([], [first, first]), ([], [first, second]), ([first], [first]), ([first], [second]), ([second, second], [])],
        *[([], [user("g"), user("h", iterations=1)]), ([], [user("i", 2, 1), user("i")]), ([], [])],
    ]
    requests = [{"deletions": gone, "upsertions": made} for gone, made in asked]
    compared(pair, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, requests)
    users = [{"users": [{"name": each}] * times} for each in (*NAMES, "u", "d", "g", "h", "i") for times in (1, 2)]
    compared(pair, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users)


def change(names: Mapping[str, str | None], *ops: tuple[str, float | None], is_dry: bool = False) -> dict[str, Any]:
    entity = [{"entity_type": kind, "entity_name": name} for kind, name in names.items()]
    changes = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in ops]
    return {"entries": [{"entity": entity, "ops": changes}], "validate_only": is_dry}


def test_quotas_at_their_bounds(pair: Pair) -> None:
    everything = [
        change(names, (key, value), is_dry=True)
        for names in (*USERS_AND_CLIENTS, *ADDRESSES)
        for key in (*RATES, CONNECTIONS, "x", "")
        for value in (*VALUES[: -1 if key in RATES else None], None)
    ]
    twice = change({"user": "u"}, ("x", None), ("producer_byte_rate", 1.0), ("producer_byte_rate", None))
    compared(pair, ApiKey.ALTER_CLIENT_QUOTAS, 1, [*everything, twice])
    kept = [change(each, ("consumer_byte_rate", 2.0**62), ("request_percentage", 999.5)) for each in USERS_AND_CLIENTS]
    kept += [change({"user": "u"}, (CONNECTIONS, None), ("x", None))]
    compared(pair, ApiKey.ALTER_CLIENT_QUOTAS, 1, kept)
    gone = [change(each, ("consumer_byte_rate", None), ("request_percentage", None)) for each in USERS_AND_CLIENTS]
    compared(pair, ApiKey.ALTER_CLIENT_QUOTAS, 1, gone)


def altered(kind: int, name: str, setting: str, operation: int, value: str | None) -> dict[str, Any]:
    config = {"name": setting, "config_operation": operation, "value": value}
    resource = {"resource_type": kind, "resource_name": name, "configs": [config]}
    return {"resources": [resource], "validate_only": False}


def test_lists_are_set_appended_to_and_subtracted_from(pair: Pair) -> None:
    for each in (pair.ours, pair.theirs):
        create_topic(each.clients["root"], "lists")
    steps = [
        (0, " compact , delete "),
        (3, " compact "),
        (2, ""),
        (2, " delete "),
        (2, "compact"),
        (3, "delete"),
        (2, "x"),
    ]
    shown = {"resource_type": TOPIC, "resource_name": "lists", "configuration_keys": [CLEANUP]}
    for step in steps:
        compared(pair, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, [altered(TOPIC, "lists", CLEANUP, *step)])
        compared(pair, ApiKey.DESCRIBE_CONFIGS, 4, [{"resources": [shown], "include_synonyms": True}])


def test_a_fetch_session_begins_without_partitions(pair: Pair) -> None:
    for each in (pair.ours, pair.theirs):
        create_topic(each.clients["root"], "fetched")
        begun = each.ask("root", ApiKey.FETCH, 12, **fetch_fields("", 0, topics=(), session_epoch=0))
        assert begun["session_id"]
        more = fetch_fields("fetched", 0, session_id=begun["session_id"], session_epoch=1)
        found = each.ask("root", ApiKey.FETCH, 12, **more)
        assert (found["session_id"], len(found["responses"])) == (begun["session_id"], 1)
