"""Requests of every kind and version, damaged at random: each is answered or costs its connection, and no more."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from typing import Any

import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.apis import APIS, ApiKey
from tests.support.gateway import WireClient, fetch_fields, produce_fields, request_body, request_head
from tests.support.logs.building import batch

ROUNDS = 1500
PLACE = {"name": "t", "topic": "t", "partitions": [{"partition_index": 0, "partition": 0, "timestamp": -1}]}
COMMITTED = {"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}]}
INDEXES = {"name": "t", "partition_indexes": (0,)}
TOPIC = {"resource_type": 2, "resource_name": "t", "configs": [{"name": "retention.ms", "value": "1"}]}
FIELDS: dict[int, dict[str, Any]] = {
    ApiKey.FETCH: fetch_fields("t", 0),
    ApiKey.LIST_OFFSETS: {"replica_id": -1, "topics": [PLACE]},
    ApiKey.METADATA: {"topics": [{"name": "t"}]},
    ApiKey.FIND_COORDINATOR: {"key": "g", "coordinator_keys": ("g",)},
    ApiKey.DELETE_RECORDS: {"topics": [PLACE]},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {"topics": [PLACE]},
    ApiKey.DESCRIBE_CONFIGS: {"resources": [{"resource_type": 2, "resource_name": "t"}]},
    ApiKey.DESCRIBE_LOG_DIRS: {"topics": [{"topic": "t", "partitions": (0,)}]},
    ApiKey.DESCRIBE_PRODUCERS: {"topics": [{"name": "t", "partition_indexes": (0,)}]},
    ApiKey.CREATE_TOPICS: {"validate_only": True, "topics": [{"name": "n", "configs": [{"name": "x", "value": "1"}]}]},
    ApiKey.OFFSET_COMMIT: {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": [COMMITTED]},
    ApiKey.OFFSET_FETCH: {"group_id": "g", "topics": [INDEXES], "groups": [{"group_id": "g", "topics": [INDEXES]}]},
    ApiKey.JOIN_GROUP: {"group_id": "g", "member_id": "unknown", "protocols": [{"name": "range", "metadata": b"m"}]},
    ApiKey.HEARTBEAT: {"group_id": "g", "member_id": "unknown"},
    ApiKey.LEAVE_GROUP: {"group_id": "g", "member_id": "unknown", "members": [{"member_id": "unknown"}]},
    ApiKey.SYNC_GROUP: {"group_id": "g", "assignments": [{"member_id": "m", "assignment": b"a"}]},
    ApiKey.DESCRIBE_GROUPS: {"groups": ("g",)},
    ApiKey.LIST_GROUPS: {"states_filter": ("Stable",)},
    ApiKey.DELETE_GROUPS: {"groups_names": ("unknown",)},
    ApiKey.OFFSET_DELETE: {"group_id": "unknown", "topics": [PLACE]},
    ApiKey.ADD_PARTITIONS_TO_TXN: {"transactional_id": "x", "topics": [{"name": "t", "partitions": (0,)}]},
    ApiKey.ADD_OFFSETS_TO_TXN: {"transactional_id": "x", "producer_id": 1, "group_id": "g"},
    ApiKey.END_TXN: {"transactional_id": "x", "producer_id": 1, "committed": True},
    ApiKey.TXN_OFFSET_COMMIT: {"transactional_id": "x", "group_id": "g", "producer_id": 1, "topics": [COMMITTED]},
    ApiKey.WRITE_TXN_MARKERS: {"markers": [{"producer_id": 1, "topics": [{"name": "t", "partition_indexes": (0,)}]}]},
    ApiKey.DESCRIBE_TRANSACTIONS: {"transactional_ids": ("x",)},
    ApiKey.LIST_TRANSACTIONS: {"state_filters": ("Ongoing",)},
    ApiKey.INIT_PRODUCER_ID: {"transactional_id": None, "transaction_timeout": 1000},
    ApiKey.DESCRIBE_CLUSTER: {"endpoint_type": 1},
    ApiKey.ALTER_CONFIGS: {"validate_only": True, "resources": [TOPIC]},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {"validate_only": True, "resources": [TOPIC]},
    ApiKey.SASL_HANDSHAKE: {"mechanism": "PLAIN"},
    ApiKey.SASL_AUTHENTICATE: {"auth_bytes": b"x"},
    ApiKey.CREATE_PARTITIONS: {"validate_only": True, "topics": [{"name": "t", "count": 2}]},
}


def requests() -> Iterator[bytes]:
    for key, fields in FIELDS.items():
        for version in range(APIS[key].lowest, APIS[key].highest + 1):
            yield request_head(key, version, 1) + request_body(key, version, fields)
    for version in range(3, 12):
        body = request_body(0, version, produce_fields("t", batch(b"value").tobytes()))
        yield request_head(0, version, 1) + body


def damaged(frame: bytes, chance: random.Random) -> bytes:
    data = bytearray(frame)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(4, max(len(data), 5))
        match chance.randrange(5):
            case 0:
                data[at : at + 1] = chance.randbytes(1)
            case 1:
                data[at : at + 4] = chance.choice(
                    [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x80\0\0\0"]
                )
            case 2:
                del data[at : at + chance.randint(1, 8)]
            case 3:
                data[at:at] = chance.randbytes(chance.randint(1, 8))
            case 4:
                del data[at:]
    return bytes(data)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_damaged_request_is_answered_or_costs_its_connection(
    gateway: Gateway, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    chance, all_of_them = random.Random(seed), list(requests())
    answered, client = 0, WireClient(gateway)
    client.ask(3, 4, topics=[{"name": "t"}], allow_auto_topic_creation=True)
    client.socket.settimeout(1)
    for _ in range(ROUNDS):
        try:
            client.send_frame(damaged(chance.choice(all_of_them), chance))
            client.receive()
            answered += 1
        except (EOFError, ConnectionError, TimeoutError):  # a time-out: it asks for no answer, or for one much later
            client.socket.close()
            client = WireClient(gateway)
            client.socket.settimeout(1)
    assert ROUNDS // 20 < answered < ROUNDS
    client.socket.settimeout(30)
    assert (
        client.ask(0, 8, **produce_fields("t", batch(b"v").tobytes())).responses[0].partition_responses[0].error_code
        == 0
    )
    client.socket.close()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
