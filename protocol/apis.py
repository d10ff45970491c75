"""The requests and versions that are served; the answer to ApiVersions is this table.

Versions are those that Kafka 3.9.1 advertises. ``old`` has the bodies that kio lacks; Produce and Fetch are read
without kio.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple


class ApiKey(IntEnum):
    """Kinds of requests, by Kafka's names."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69


class Api(NamedTuple):
    """The versions of one kind of request, both ends inclusive."""

    lowest: int
    highest: int
    flexible_from: int  # versions from here on have compact strings and tagged fields


APIS: Mapping[int, Api] = {
    ApiKey.PRODUCE: Api(0, 11, 9),
    ApiKey.FETCH: Api(0, 17, 12),
    ApiKey.LIST_OFFSETS: Api(0, 9, 6),
    ApiKey.METADATA: Api(0, 12, 9),
    ApiKey.OFFSET_COMMIT: Api(0, 9, 8),
    ApiKey.OFFSET_FETCH: Api(0, 9, 6),
    ApiKey.FIND_COORDINATOR: Api(0, 6, 3),
    ApiKey.JOIN_GROUP: Api(0, 9, 6),
    ApiKey.HEARTBEAT: Api(0, 4, 4),
    ApiKey.LEAVE_GROUP: Api(0, 5, 4),
    ApiKey.SYNC_GROUP: Api(0, 5, 4),
    ApiKey.DESCRIBE_GROUPS: Api(0, 5, 5),
    ApiKey.LIST_GROUPS: Api(0, 5, 3),
    ApiKey.SASL_HANDSHAKE: Api(0, 1, 2),
    ApiKey.API_VERSIONS: Api(0, 4, 3),
    ApiKey.CREATE_TOPICS: Api(0, 7, 5),
    ApiKey.DELETE_TOPICS: Api(0, 6, 4),
    ApiKey.DELETE_RECORDS: Api(0, 2, 2),
    ApiKey.INIT_PRODUCER_ID: Api(0, 5, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Api(0, 4, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: Api(0, 3, 3),  # the versions from 4 on are for brokers
    ApiKey.ADD_OFFSETS_TO_TXN: Api(0, 4, 3),
    ApiKey.END_TXN: Api(0, 4, 3),
    ApiKey.WRITE_TXN_MARKERS: Api(0, 1, 1),
    ApiKey.TXN_OFFSET_COMMIT: Api(0, 4, 3),
    ApiKey.DESCRIBE_ACLS: Api(0, 3, 2),
    ApiKey.CREATE_ACLS: Api(0, 3, 2),
    ApiKey.DELETE_ACLS: Api(0, 3, 2),
    ApiKey.DESCRIBE_CONFIGS: Api(0, 4, 4),
    ApiKey.ALTER_CONFIGS: Api(0, 2, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Api(0, 2, 2),
    ApiKey.DESCRIBE_LOG_DIRS: Api(0, 4, 2),
    ApiKey.SASL_AUTHENTICATE: Api(0, 2, 2),
    ApiKey.CREATE_PARTITIONS: Api(0, 3, 2),
    ApiKey.DELETE_GROUPS: Api(0, 2, 2),
    ApiKey.ELECT_LEADERS: Api(0, 2, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Api(0, 1, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Api(0, 0, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Api(0, 0, 0),
    ApiKey.OFFSET_DELETE: Api(0, 0, 1),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Api(0, 1, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: Api(0, 1, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Api(0, 0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Api(0, 0, 0),
    ApiKey.DESCRIBE_CLUSTER: Api(0, 1, 0),
    ApiKey.DESCRIBE_PRODUCERS: Api(0, 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: Api(0, 0, 0),
    ApiKey.LIST_TRANSACTIONS: Api(0, 1, 0),
    # Version 1 of both is that of Kafka 4: librdkafka 2.16 sends only that, and if it is missing sends nothing, and
    # polls for ever without an error.
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Api(0, 1, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Api(0, 1, 0),
}
