"""Questions: random requests about ACLs, users, quotas, settings, topics, groups and transactions, right and wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pyspark_commitlog.protocol.apis import ApiKey as Key

USERS = ("root", "root", "alice", "alice", "bob")  # root may do everything, and must set up what others meet
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
CLUSTER_NAME = "kafka-cluster"
UNKNOWN_ID = 10**9
TOPIC_SETTINGS = ("retention.ms", "cleanup.policy", "max.message.bytes", "nothing")
VALUES = ("-1", "1000", "compact", "delete", "x", "", "compact,delete", "-5")


class Question(NamedTuple):
    """A request. ``changes``: it may change what others are answered; else it can be asked again."""

    key: Key
    fields: Mapping[str, Any]
    changes: bool = False
    producer: str | None = None  # the transactional id whose producer asks


class Names(NamedTuple):
    """What a case talks about; other cases have other names."""

    prefix: str

    def some(self, chance: random.Random, *letters: str) -> str:
        """One of a few names; rarely none."""
        return chance.choice((*(f"{self.prefix}{each}" for each in letters), f"{self.prefix}{letters[0]}"))

    def topic(self, chance: random.Random) -> str:
        """Of a topic: a and ab are there at first."""
        return self.some(chance, "a", "ab", "b", "c")

    def group(self, chance: random.Random) -> str:
        """Of a group."""
        return self.some(chance, "g", "gh", "h")

    def transactional_id(self, chance: random.Random) -> str:
        """Of a transactional producer."""
        return self.some(chance, "x", "xy", "z")


def _often(chance: random.Random, usual: Sequence[Any], *rare: Any) -> Any:
    return chance.choice(rare) if rare and chance.random() < 0.15 else chance.choice(usual)


def _several(chance: random.Random, make: Callable[[], Any], most: int = 3) -> list[Any]:
    return [make() for _ in range(chance.randint(1, most))]


# --- ACLs


def _resource(chance: random.Random, names: Names) -> tuple[int, str]:
    kind = chance.choice((TOPIC, TOPIC, GROUP, TRANSACTIONAL_ID, CLUSTER))
    name = {
        TOPIC: names.topic,
        GROUP: names.group,
        TRANSACTIONAL_ID: names.transactional_id,
        CLUSTER: lambda _: CLUSTER_NAME,
    }[kind](chance)
    return kind, name


def create_acls(chance: random.Random, names: Names) -> Question:
    def one() -> dict[str, Any]:
        kind, name = _resource(chance, names)
        return {
            "resource_type": kind,
            "resource_name": _often(chance, [name, name, names.prefix, "*" if kind != CLUSTER else name], "", "other"),
            "resource_pattern_type": chance.choice([3] if kind == CLUSTER else [3, 3, 4]),
            "principal": _often(chance, ["User:alice", "User:bob", "User:*"], "alice", "", "Group:x"),
            "host": _often(chance, ["*", "*", "127.0.0.1"], "", "10.0.0.1"),
            "operation": chance.choice([2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
            "permission_type": chance.choice([3, 3, 2]),
        }

    return Question(Key.CREATE_ACLS, {"creations": _several(chance, one)}, changes=True)


def _filter(chance: random.Random, names: Names) -> dict[str, Any]:
    kind, name = _resource(chance, names)
    return {
        "resource_type_filter": chance.choice([1, kind]),
        "resource_name_filter": _often(chance, [name, None, names.prefix], "", "*"),
        "pattern_type_filter": chance.choice([1, 2, 3, 4]),
        "principal_filter": _often(chance, [None, "User:alice", "User:*"], "x"),
        "host_filter": _often(chance, [None, "*"], "x"),
        "operation": chance.choice([1, 1, 2, 3, 8]),
        "permission_type": chance.choice([1, 2, 3]),
    }


def describe_acls(chance: random.Random, names: Names) -> Question:
    return Question(Key.DESCRIBE_ACLS, _filter(chance, names))


def delete_acls(chance: random.Random, names: Names) -> Question:
    filters = _several(chance, lambda: _filter(chance, names), 2)
    return Question(Key.DELETE_ACLS, {"filters": filters}, changes=True)


# --- users and quotas


def alter_users(chance: random.Random, names: Names) -> Question:
    def name() -> str:
        return str(_often(chance, [f"{names.prefix}u", f"{names.prefix}v"], ""))

    def deleted() -> dict[str, Any]:
        return {"name": name(), "mechanism": _often(chance, [1, 2], 0, 3)}

    def made() -> dict[str, Any]:
        return {
            **deleted(),
            "iterations": _often(chance, [4096, 8192], 1, 4095, 16384, 16385),
            "salt": b"salt",
            "salted_password": b"p" * 32,
        }

    deletions = _several(chance, deleted, 2) if chance.random() < 0.5 else []
    fields = {"deletions": deletions, "upsertions": _several(chance, made, 2) if chance.random() < 0.8 else []}
    return Question(Key.ALTER_USER_SCRAM_CREDENTIALS, fields, changes=True)


def describe_users(chance: random.Random, names: Names) -> Question:
    named = [{"name": f"{names.prefix}{each}"} for each in chance.choice(("u", "uv", "uu", "w", ""))]
    return Question(Key.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": named})


def _entity(chance: random.Random, names: Names) -> dict[str, Any]:
    kind = _often(chance, ["user", "client-id"], "other", "")
    return {"entity_type": kind, "entity_name": _often(chance, [f"{names.prefix}u", f"{names.prefix}v"], "")}


def alter_quotas(chance: random.Random, names: Names) -> Question:
    def entry() -> dict[str, Any]:
        ops = [
            {
                "key": _often(chance, ["producer_byte_rate", "consumer_byte_rate"], "nothing", ""),
                "value": _often(chance, [1000.0, 2000.0], 0.0, -1.0, 0.5),
                "remove": chance.random() < 0.3,
            }
            for _ in range(chance.randint(0, 2))
        ]
        entity = {each["entity_type"]: each for each in _several(chance, lambda: _entity(chance, names), 2)}
        return {"entity": [*entity.values()], "ops": ops}

    entries = {str(sorted(each["entity"], key=str)): each for each in _several(chance, entry, 2)}
    fields = {"entries": [*entries.values()], "validate_only": chance.random() < 0.2}
    return Question(Key.ALTER_CLIENT_QUOTAS, fields, changes=True)


def describe_quotas(chance: random.Random, names: Names) -> Question:
    def component() -> dict[str, Any]:
        how = _often(chance, [0, 0, 2], 1, 3, -1)
        match = f"{names.prefix}{chance.choice('uv')}" if how == 0 else _often(chance, [None], "x")
        return {"entity_type": _often(chance, ["user", "client-id"], "other", ""), "match_type": how, "match": match}

    fields = {"components": _several(chance, component, 2), "strict": chance.random() < 0.5}
    return Question(Key.DESCRIBE_CLIENT_QUOTAS, fields)


# --- settings and topics


def describe_configs(chance: random.Random, names: Names) -> Question:
    def resource() -> dict[str, Any]:
        keys = chance.sample(TOPIC_SETTINGS, chance.randint(0, 3))
        return {
            "resource_type": _often(chance, [2], 0, 1, 3),
            "resource_name": _often(chance, [names.topic(chance)], "", "a b"),
            "configuration_keys": keys or ["retention.ms"],
        }

    resources = {(each["resource_type"], each["resource_name"]): each for each in _several(chance, resource, 2)}
    fields = {"include_synonyms": False, "include_documentation": False, "resources": [*resources.values()]}
    return Question(Key.DESCRIBE_CONFIGS, fields)


def incremental_alter(chance: random.Random, names: Names) -> Question:
    def config() -> dict[str, Any]:
        operation = chance.choice([0, 0, 1, 2, 3])
        value = _often(chance, VALUES, None)
        return {"name": chance.choice(TOPIC_SETTINGS), "config_operation": operation, "value": value}

    def resource() -> dict[str, Any]:
        name = _often(chance, [names.topic(chance)], "", "a b")
        return {"resource_type": _often(chance, [2], 1, 3), "resource_name": name, "configs": _several(chance, config)}

    fields = {"resources": _several(chance, resource, 2), "validate_only": chance.random() < 0.3}
    return Question(Key.INCREMENTAL_ALTER_CONFIGS, fields, changes=True)


def alter_configs(chance: random.Random, names: Names) -> Question:
    def resource() -> dict[str, Any]:
        configs = [{"name": chance.choice(TOPIC_SETTINGS), "value": _often(chance, VALUES, None)}]
        return {"resource_type": 2, "resource_name": names.topic(chance), "configs": configs}

    # 3.9.1 never answers if all resources are wrong before it asks its controller; so none is there twice
    resources = {each["resource_name"]: each for each in _several(chance, resource, 2)}
    fields = {"resources": [*resources.values()], "validate_only": chance.random() < 0.3}
    return Question(Key.ALTER_CONFIGS, fields, changes=True)


def metadata(chance: random.Random, names: Names) -> Question:
    topics = [{"name": each} for each in dict.fromkeys(_several(chance, lambda: names.topic(chance)))]
    flags = ("include_topic_authorized_operations", "include_cluster_authorized_operations")
    fields = {each: chance.random() < 0.5 for each in flags}
    asked = None if chance.random() < 0.3 else topics
    return Question(Key.METADATA, {"topics": asked, "allow_auto_topic_creation": False, **fields})


def create_topics(chance: random.Random, names: Names) -> Question:
    def topic() -> dict[str, Any]:
        configs = [{"name": chance.choice(TOPIC_SETTINGS), "value": chance.choice(VALUES)}]
        return {
            "name": _often(chance, [names.topic(chance)], "", "a b", ".", "x" * 250),
            "num_partitions": _often(chance, [1, 2], 0, -1, -2),
            "replication_factor": _often(chance, [1, -1], 2, 0),
            "assignments": [],
            "configs": configs if chance.random() < 0.3 else [],
        }

    fields = {"topics": _several(chance, topic, 2), "timeout": 10_000, "validate_only": chance.random() < 0.5}
    return Question(Key.CREATE_TOPICS, fields, changes=True)


def create_partitions(chance: random.Random, names: Names) -> Question:
    topics = [{"name": names.topic(chance), "count": chance.choice((0, 1, 2, 3)), "assignments": None}]
    fields = {"topics": topics, "timeout": 10_000, "validate_only": chance.random() < 0.5}
    return Question(Key.CREATE_PARTITIONS, fields, changes=True)


def describe_cluster(chance: random.Random, names: Names) -> Question:
    fields = {"include_cluster_authorized_operations": chance.random() < 0.7, "endpoint_type": _often(chance, [1], 3)}
    return Question(Key.DESCRIBE_CLUSTER, fields)


# --- groups


def list_groups(chance: random.Random, names: Names) -> Question:
    states = _often(chance, [[], ["Empty"], ["stable", "Dead"]], ["x"])
    return Question(Key.LIST_GROUPS, {"states_filter": states, "types_filter": _often(chance, [[]], ["classic"])})


def describe_groups(chance: random.Random, names: Names) -> Question:
    groups = list(dict.fromkeys(_several(chance, lambda: names.group(chance))))
    return Question(Key.DESCRIBE_GROUPS, {"groups": groups, "include_authorized_operations": chance.random() < 0.5})


def delete_groups(chance: random.Random, names: Names) -> Question:
    groups = list(dict.fromkeys(_several(chance, lambda: names.group(chance), 2)))
    return Question(Key.DELETE_GROUPS, {"groups_names": groups}, changes=True)


def commit_offsets(chance: random.Random, names: Names) -> Question:
    def part() -> dict[str, Any]:
        number = _often(chance, [0, 1], 7, -1)
        return {"partition_index": number, "committed_offset": chance.choice((0, 5)), "committed_metadata": "m"}

    parts = list({each["partition_index"]: each for each in _several(chance, part, 2)}.values())
    topics = [{"name": each, "partitions": parts} for each in {names.topic(chance), names.topic(chance)}]
    member, generation = _often(chance, [("", -1)], ("m", 1), ("m", -1), ("", 1))
    fields = {"group_id": names.group(chance), "member_id": member, "generation_id_or_member_epoch": generation}
    return Question(Key.OFFSET_COMMIT, {**fields, "topics": sorted(topics, key=str)}, changes=True)


def fetch_offsets(chance: random.Random, names: Names) -> Question:
    topics = [{"name": names.topic(chance), "partition_indexes": _often(chance, [[0], [0, 1]], [], [7])}]
    asked = None if chance.random() < 0.3 else topics
    group = names.group(chance)
    fields = {"group_id": group, "topics": asked, "groups": [{"group_id": group, "topics": asked}]}
    return Question(Key.OFFSET_FETCH, {**fields, "require_stable": False})


def delete_offsets(chance: random.Random, names: Names) -> Question:
    partitions = [{"partition_index": _often(chance, [0, 1], 7)}]
    topics = [{"name": names.topic(chance), "partitions": partitions}]
    return Question(Key.OFFSET_DELETE, {"group_id": names.group(chance), "topics": topics}, changes=True)


def beat(chance: random.Random, names: Names) -> Question:
    is_joining = chance.random() < 0.6
    fields = {
        "group_id": _often(chance, [f"{names.prefix}new", f"{names.prefix}gh"], ""),
        "member_id": _often(chance, ["m1", "m2"], ""),
        "member_epoch": 0 if is_joining else _often(chance, [1, 2, 3, 4, -1], -2, -3),
        "instance_id": _often(chance, [None], "", "i"),
        "rebalance_timeout": _often(chance, [60_000], -1) if is_joining else -1,
        "subscribed_topic_names": [names.topic(chance)]
        if is_joining
        else _often(chance, [None], [names.topic(chance)]),
        "server_assignor": _often(chance, [None, "range", "uniform"], "x"),
        "topic_partitions": [] if is_joining else _often(chance, [None], []),
    }
    return Question(Key.CONSUMER_GROUP_HEARTBEAT, fields, changes=True)


def describe_newer_groups(chance: random.Random, names: Names) -> Question:
    groups = [f"{names.prefix}{each}" for each in chance.sample(("new", "g", "nothing"), chance.randint(1, 3))]
    fields = {"group_ids": groups, "include_authorized_operations": chance.random() < 0.5}
    return Question(Key.CONSUMER_GROUP_DESCRIBE, fields)


# --- transactions


def init_producer(chance: random.Random, names: Names) -> Question:
    name = None if chance.random() < 0.2 else _often(chance, [names.transactional_id(chance)], "")
    timeout = _often(chance, [60_000], 0, 10**9)
    fields = {"transactional_id": name, "transaction_timeout": timeout, "producer_id": -1, "producer_epoch": -1}
    return Question(Key.INIT_PRODUCER_ID, fields, changes=True, producer=name)


def add_partitions(chance: random.Random, names: Names) -> Question:
    name = names.transactional_id(chance)
    parts = _often(chance, [[0], [0, 1]], [7])
    topics = [{"name": each, "partitions": parts} for each in sorted({names.topic(chance), names.topic(chance)})]
    fields = {"v3_and_below_transactional_id": name, "v3_and_below_topics": topics}
    return Question(Key.ADD_PARTITIONS_TO_TXN, fields, changes=True, producer=name)


def add_offsets(chance: random.Random, names: Names) -> Question:
    name = names.transactional_id(chance)
    fields = {"transactional_id": name, "group_id": names.group(chance)}
    return Question(Key.ADD_OFFSETS_TO_TXN, fields, changes=True, producer=name)


def end_transaction(chance: random.Random, names: Names) -> Question:
    name = names.transactional_id(chance)
    fields = {"transactional_id": name, "committed": chance.random() < 0.5}
    return Question(Key.END_TXN, fields, changes=True, producer=name)


def describe_transactions(chance: random.Random, names: Names) -> Question:
    ids = list(dict.fromkeys(_several(chance, lambda: names.transactional_id(chance))))
    return Question(Key.DESCRIBE_TRANSACTIONS, {"transactional_ids": ids})


def list_transactions(chance: random.Random, names: Names) -> Question:
    states = _often(chance, [[], ["Ongoing"], ["Empty", "CompleteCommit"]], ["x"])
    return Question(Key.LIST_TRANSACTIONS, {"state_filters": states, "producer_id_filters": [], "duration_filter": -1})


def describe_producers(chance: random.Random, names: Names) -> Question:
    topics = [{"name": names.topic(chance), "partition_indexes": _often(chance, [[0], [0, 1]], [7])}]
    return Question(Key.DESCRIBE_PRODUCERS, {"topics": topics})


Ask = Callable[[random.Random, Names], Question]
NEWER: Sequence[Ask] = (beat, beat, beat, describe_newer_groups)  # what 3.9.1 has as a preview only
ALL: Sequence[Ask] = (
    *(create_acls, create_acls, create_acls, describe_acls, delete_acls),
    *(alter_users, describe_users, alter_quotas, describe_quotas),
    *(describe_configs, incremental_alter, alter_configs),
    *(metadata, create_topics, create_partitions, describe_cluster),
    *(list_groups, describe_groups, delete_groups, commit_offsets, fetch_offsets, delete_offsets),
    *(init_producer, add_partitions, add_offsets, end_transaction),
    *(describe_transactions, list_transactions, describe_producers),
)
