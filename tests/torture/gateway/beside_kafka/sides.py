"""Sides: a gateway and a real broker whose users log in by PLAIN, with their names as passwords."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kio.serial.errors import OutOfBoundValue

from pyspark_commitlog.gateway.security.users import UsersFile
from pyspark_commitlog.protocol.apis import APIS, ApiKey
from pyspark_commitlog.protocol.bodies import ErrorCode
from tests.support.gateway import Listening, WireClient, create_topic, serving
from tests.support.kafka.broker import Broker
from tests.support.ports import free_port
from tests.support.recorded_wire import plain
from tests.torture.gateway.beside_kafka.questions import Names, Question

USERS = ("root", "alice", "bob")
PLAIN = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
# What one node has and another has not, or what is chance.
OWN = {"throttle_time", "host", "port", "cluster_id", "topic_id", "member_id", "leader_epoch", "client_host", "racks"}
OWN |= {"error_message", "producer_id", "committed_leader_epoch", "transaction_start_time", "last_timestamp", "rack"}
# A group of Kafka 4 gets its next epoch at a heartbeat, or when a broker has heard of a change of topics.
OWN |= {"member_epoch", "group_epoch", "assignment_epoch", "group_state"}
OWN |= {"is_default", "heartbeat_interval"}
OWN |= {"assignment", "target_assignment"}  # partitions go to members in the order of a hash
# What a broker answers for some ms: the last transaction still ends, or its next producer ids are on their way.
FOR_NOW = ("concurrent_transactions", "coordinator_load_in_progress", "coordinator_not_available")
# A KRaft broker refuses versions 0, whose offsets are in ZooKeeper, and hides a refusal in OffsetFetch 1.
LOWEST = {ApiKey.OFFSET_COMMIT: 1, ApiKey.OFFSET_FETCH: 2}
OF_GROUPS = {ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE}
OPERATIONS, GROUP_BITS = "authorized_operations", ~(1 << 10 | 1 << 11)  # without those on a group's settings
PATIENCE_S = 10.0
SILENCE_S = 15.0
EVERY_ACL = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


class Side:
    """One of the two."""

    def __init__(self, where: Listening) -> None:
        self.where = where
        self.clients = {user: self._logged_in(user) for user in USERS}
        self.producers: dict[str, tuple[int, int]] = {}  # producer ids and epochs by transactional id
        root = self.clients["root"]
        found = root.ask(ApiKey.API_VERSIONS, 3, client_software_name="a", client_software_version="1").api_keys
        self.versions = {each.api_key: range(each.min_version, each.max_version + 1) for each in found}

    def _logged_in(self, user: str) -> WireClient:
        client = WireClient(self.where, user)
        client.socket.settimeout(SILENCE_S)
        assert not client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code
        assert not client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=f"\0{user}\0{user}".encode()).error_code
        return client

    def ask(self, user: str, key: ApiKey, version: int, **fields: Any) -> Any:
        """Sends a request; a connection that is closed for it, or silence, counts as an answer."""
        try:
            return plain(self.clients[user].ask(key, version, **fields))
        except OutOfBoundValue:  # a transaction that began at -1
            return "a time that there is not"
        except (EOFError, OSError) as error:
            self.clients[user] = self._logged_in(user)
            return "silence" if isinstance(error, TimeoutError) else "closed"

    def answer(self, user: str, question: Question, version: int, names: Names) -> Any:
        """Asks a question, as the producer that it is of; returns what must be the same on both sides."""
        fields = dict(question.fields)
        if question.producer is not None and question.key is not ApiKey.INIT_PRODUCER_ID:
            producer_id, epoch = self.producers.get(question.producer, (12345, 0))
            prefix = "v3_and_below_" if question.key is ApiKey.ADD_PARTITIONS_TO_TXN else ""
            fields |= {f"{prefix}producer_id": producer_id, f"{prefix}producer_epoch": epoch}
        end_s = time.monotonic() + PATIENCE_S
        found = self.ask(user, question.key, version, **fields)
        while any(each in repr(found) for each in FOR_NOW) and time.monotonic() < end_s:
            time.sleep(0.02)
            found = self.ask(user, question.key, version, **fields)
        if question.key is ApiKey.INIT_PRODUCER_ID and question.producer and not found["error_code"]:
            self.producers[question.producer] = found["producer_id"], found["producer_epoch"]
        if question.key is ApiKey.OFFSET_COMMIT and not isinstance(found, str):  # 3.9.1 answers so, and the gateway
            found = replaced(found, ErrorCode.group_id_not_found, ErrorCode.illegal_generation)
        if question.key in OF_GROUPS and not isinstance(found, str):  # 4.3.1 has two more operations
            found = {"groups": [{**each, OPERATIONS: each.get(OPERATIONS, 0) & GROUP_BITS} for each in found["groups"]]}
        if question.key is ApiKey.CREATE_TOPICS and found != "closed":  # the log has more settings
            found = {**found, "topics": [{**each, "configs": None} for each in found["topics"]]}
        return shared(found, names.prefix)

    def settled(self) -> Any:
        """What root sees of all that requests change."""
        ask = self.clients["root"].ask
        asked: list[tuple[ApiKey, int, dict[str, Any]]] = [
            (ApiKey.DESCRIBE_ACLS, 2, EVERY_ACL),
            (ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": [], "strict": False}),
            (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": None}),
            (ApiKey.METADATA, 9, {"topics": None}),
        ]
        found = [shared(plain(ask(key, version, **fields)), "") for key, version, fields in asked]
        topics = [
            {
                "resource_type": 2,
                "resource_name": each["name"],
                "configuration_keys": ["retention.ms", "cleanup.policy", "max.message.bytes"],
            }
            for each in found[-1]["topics"]
            if each["name"][0] != "_"
        ]
        given = {"resources": topics, "include_synonyms": False, "include_documentation": False}
        return [*found, shared(plain(ask(ApiKey.DESCRIBE_CONFIGS, 4, **given)), "")]


def replaced(value: Any, one: object, other: object) -> Any:
    """An answer with another code in the place of one."""
    if isinstance(value, dict):
        return {name: replaced(each, one, other) for name, each in value.items()}
    if isinstance(value, list):
        return [replaced(each, one, other) for each in value]
    return other if value is one else value


def shared(value: Any, prefix: str) -> Any:
    """An answer without what must differ, and without topics, groups and transactions of other cases."""
    if isinstance(value, dict):
        return {name: shared(each, prefix) for name, each in value.items() if name not in OWN}
    if isinstance(value, list):
        return sorted((shared(each, prefix) for each in value if not _is_other(each, prefix)), key=repr)
    if value is ErrorCode.group_id_not_found:
        return ErrorCode.unknown_member_id  # which the gateway answers members of a group that is not there
    return value


def _is_other(value: Any, prefix: str) -> bool:
    """Whether an item of a list is of another case; that of an internal topic, too."""
    if not isinstance(value, dict):
        return False
    if value.get("user") in USERS:  # that the gateway has as its own, and the broker in its settings
        return True
    for field in ("name", "group_id", "transactional_id"):
        name = value.get(field)
        if isinstance(name, str) and (name.startswith("__") or (name[:1] == "w" and not name.startswith(prefix))):
            return True
    return False


class Pair:
    """Both sides, of which the broker is of one release."""

    def __init__(self, home: Path, release: str) -> None:
        self.release = release
        self._broker = Broker(home / "kafka", release)
        port = free_port()
        self._broker.start(props=_properties(self._broker, port, release))
        self._serving = serving(home / "ours", **_settings(home))
        self.ours = Side(self._serving.__enter__())
        self.theirs = Side(SimpleNamespace(address=("127.0.0.1", port)))
        self.keys = {
            key: [each for each in self.theirs.versions[key] if each in self.ours.versions[key] and each in known]
            for key, api in APIS.items()
            for known in [range(max(api.lowest, LOWEST.get(key, 0)), api.highest + 1)]
            if key in self.theirs.versions and key in self.ours.versions
        }

    def begin(self, names: Names) -> None:
        """Deletes all ACLs, and creates two topics."""
        for side in (self.ours, self.theirs):
            root = side.clients["root"]
            root.ask(ApiKey.DELETE_ACLS, 2, filters=[EVERY_ACL])
            for each in ("a", "ab"):
                create_topic(root, names.prefix + each, 2)
            await_coordinators(root, names)
        self.settle()

    def answers(self, user: str, question: Question, version: int, names: Names) -> tuple[Any, Any]:
        """What both answer."""
        ours, theirs = (side.answer(user, question, version, names) for side in (self.ours, self.theirs))
        return ours, theirs

    def settle(self, what: str = "") -> None:
        """Waits until both show the same after ``what``: a broker applies a change some ms after its answer."""
        both = until(lambda: [side.settled() for side in (self.ours, self.theirs)], lambda found: found[0] == found[1])
        assert both[0] == both[1], f"after this, they differ: {what}\n{differences(*both)}"

    def close(self) -> None:
        self._serving.__exit__(None, None, None)
        self._broker.stop()


def until(look: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    """What is seen as soon as it holds, or after some time."""
    end_s = time.monotonic() + PATIENCE_S
    found = look()
    while not holds(found) and time.monotonic() < end_s:
        time.sleep(0.02)
        found = look()
    return found


def differences(ours: Any, theirs: Any, path: str = "") -> str:
    """Where two answers differ, one a line."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        return "".join(differences(ours[each], theirs[each], f"{path}.{each}") for each in ours)
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return "".join(differences(*both, f"{path}[{at}]") for at, both in enumerate(zip(ours, theirs, strict=True)))
    return "" if ours == theirs else f"{path}: ours {ours}; Kafka's {theirs}\n"


def await_coordinators(root: WireClient, names: Names) -> None:
    """Waits until groups and transactions can be asked about."""

    def codes() -> set[str]:
        keys = [f"{names.prefix}{each}" for each in ("g", "gh", "h", "new")]
        ids = [f"{names.prefix}{each}" for each in ("x", "xy", "z")]
        found = [
            *(root.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=keys).coordinators),
            *(root.ask(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=ids).coordinators),
        ]
        if not any(each.error_code for each in found):
            found += root.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=keys).groups
            found += root.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=ids).transaction_states
        return {each.error_code.name for each in found} - {"none", "transactional_id_not_found"}

    end_s = time.monotonic() + 30
    while found := codes():
        assert time.monotonic() < end_s, found
        time.sleep(0.02)


def _properties(broker: Broker, port: int, release: str) -> Mapping[str, str]:
    users = " ".join(f'user_{each}="{each}"' for each in USERS)
    return {
        "listeners": f"{broker.own_listeners},SASL_PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        PLAIN: f"{MODULE} {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:root;User:ANONYMOUS",
        "group.coordinator.rebalance.protocols": "classic,consumer",
        **({"group.consumer.assignment.interval.ms": "0"} if release.startswith("4") else {}),
    }


def _settings(home: Path) -> dict[str, Any]:
    (home / "rules.toml").write_text("")
    users = UsersFile(str(home / "users.json"))
    for each in USERS:
        users.add(each, each)
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "commitlog_users_file": users.path,
        "commitlog_quotas_file": str(home / "quotas.json"),
        "commitlog_rules_file": str(home / "rules.toml"),
        "super_users": "User:root",
        "group_initial_rebalance_delay_ms": 0,
        "auto_create_topics_enable": False,
    }
