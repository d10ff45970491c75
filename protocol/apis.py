"""The requests and versions that are served; the answer to ApiVersions is this table.

Versions are those that Kafka 3.9.1 advertises. ``old`` has the bodies that kio lacks; Produce and Fetch are read
without kio.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple, Self


class Versions(NamedTuple):
    """The versions of one kind of request, both ends inclusive."""

    highest: int
    flexible_from: int  # versions from here on have compact strings and tagged fields
    lowest: int = 0


class ApiKey(IntEnum):
    """Kinds of requests, by Kafka's names and numbers, with their versions."""

    highest: int
    flexible_from: int
    lowest: int

    def __new__(cls, number: int, versions: Versions) -> Self:
        key = int.__new__(cls, number)
        key._value_ = number
        key.highest, key.flexible_from, key.lowest = versions
        return key

    PRODUCE = 0, Versions(highest=11, flexible_from=9)
    FETCH = 1, Versions(highest=17, flexible_from=12)
    LIST_OFFSETS = 2, Versions(highest=9, flexible_from=6)
    METADATA = 3, Versions(highest=12, flexible_from=9)
    OFFSET_COMMIT = 8, Versions(highest=9, flexible_from=8)
    OFFSET_FETCH = 9, Versions(highest=9, flexible_from=6)
    FIND_COORDINATOR = 10, Versions(highest=6, flexible_from=3)
    JOIN_GROUP = 11, Versions(highest=9, flexible_from=6)
    HEARTBEAT = 12, Versions(highest=4, flexible_from=4)
    LEAVE_GROUP = 13, Versions(highest=5, flexible_from=4)
    SYNC_GROUP = 14, Versions(highest=5, flexible_from=4)
    DESCRIBE_GROUPS = 15, Versions(highest=5, flexible_from=5)
    LIST_GROUPS = 16, Versions(highest=5, flexible_from=3)
    SASL_HANDSHAKE = 17, Versions(highest=1, flexible_from=2)
    API_VERSIONS = 18, Versions(highest=4, flexible_from=3)
    CREATE_TOPICS = 19, Versions(highest=7, flexible_from=5)
    DELETE_TOPICS = 20, Versions(highest=6, flexible_from=4)
    DELETE_RECORDS = 21, Versions(highest=2, flexible_from=2)
    INIT_PRODUCER_ID = 22, Versions(highest=5, flexible_from=2)
    OFFSET_FOR_LEADER_EPOCH = 23, Versions(highest=4, flexible_from=4)
    ADD_PARTITIONS_TO_TXN = 24, Versions(highest=3, flexible_from=3)  # the versions from 4 on are for brokers
    ADD_OFFSETS_TO_TXN = 25, Versions(highest=4, flexible_from=3)
    END_TXN = 26, Versions(highest=4, flexible_from=3)
    WRITE_TXN_MARKERS = 27, Versions(highest=1, flexible_from=1)
    TXN_OFFSET_COMMIT = 28, Versions(highest=4, flexible_from=3)
    DESCRIBE_ACLS = 29, Versions(highest=3, flexible_from=2)
    CREATE_ACLS = 30, Versions(highest=3, flexible_from=2)
    DELETE_ACLS = 31, Versions(highest=3, flexible_from=2)
    DESCRIBE_CONFIGS = 32, Versions(highest=4, flexible_from=4)
    ALTER_CONFIGS = 33, Versions(highest=2, flexible_from=2)
    ALTER_REPLICA_LOG_DIRS = 34, Versions(highest=2, flexible_from=2)
    DESCRIBE_LOG_DIRS = 35, Versions(highest=4, flexible_from=2)
    SASL_AUTHENTICATE = 36, Versions(highest=2, flexible_from=2)
    CREATE_PARTITIONS = 37, Versions(highest=3, flexible_from=2)
    DELETE_GROUPS = 42, Versions(highest=2, flexible_from=2)
    ELECT_LEADERS = 43, Versions(highest=2, flexible_from=2)
    INCREMENTAL_ALTER_CONFIGS = 44, Versions(highest=1, flexible_from=1)
    ALTER_PARTITION_REASSIGNMENTS = 45, Versions(highest=0, flexible_from=0)
    LIST_PARTITION_REASSIGNMENTS = 46, Versions(highest=0, flexible_from=0)
    OFFSET_DELETE = 47, Versions(highest=0, flexible_from=1)
    DESCRIBE_CLIENT_QUOTAS = 48, Versions(highest=1, flexible_from=1)
    ALTER_CLIENT_QUOTAS = 49, Versions(highest=1, flexible_from=1)
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, Versions(highest=0, flexible_from=0)
    ALTER_USER_SCRAM_CREDENTIALS = 51, Versions(highest=0, flexible_from=0)
    DESCRIBE_CLUSTER = 60, Versions(highest=1, flexible_from=0)
    DESCRIBE_PRODUCERS = 61, Versions(highest=0, flexible_from=0)
    DESCRIBE_TRANSACTIONS = 65, Versions(highest=0, flexible_from=0)
    LIST_TRANSACTIONS = 66, Versions(highest=1, flexible_from=0)
    # Version 1 of both is that of Kafka 4: librdkafka 2.16 sends only that version; if it is missing, it sends nothing
    # and polls forever without an error.
    CONSUMER_GROUP_HEARTBEAT = 68, Versions(highest=1, flexible_from=0)
    CONSUMER_GROUP_DESCRIBE = 69, Versions(highest=1, flexible_from=0)
    # Version 1 comes from Kafka 4, whose tools use it to list groups with configs.
    LIST_CONFIG_RESOURCES = 74, Versions(highest=1, flexible_from=0)


APIS: Mapping[int, ApiKey] = {int(key): key for key in ApiKey}  # by number
