"""HANDLERS: which function answers which kind of request."""

from __future__ import annotations

from collections.abc import Mapping

from ...protocol import ApiKey
from ..context import Handler
from .brokers import (
    alter_reassignments,
    alter_replica_log_dirs,
    create_acls,
    delete_acls,
    describe_acls,
    elect_leaders,
    list_reassignments,
)
from .cluster import api_versions, describe_cluster, describe_log_dirs, find_coordinator
from .configs import alter_configs, describe_configs, incremental_alter_configs
from .fetch import fetch
from .groups import (
    commit_offsets,
    consumer_group_heartbeat,
    delete_groups,
    delete_offsets,
    describe_groups,
    fetch_offsets,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    sync_group,
)
from .logins import sasl_authenticate, sasl_handshake
from .metadata import metadata
from .offsets import list_offsets, offset_for_leader_epoch
from .produce import produce
from .producers import describe_producers, init_producer_id
from .topics import create_partitions, create_topics, delete_records, delete_topics
from .transactions import (
    add_offsets,
    add_partitions,
    commit_transactional_offsets,
    describe_transactions,
    end_transaction,
    list_transactions,
    write_markers,
)

HANDLERS: Mapping[int, Handler] = {
    ApiKey.PRODUCE: produce,
    ApiKey.FETCH: fetch,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.METADATA: metadata,
    ApiKey.OFFSET_COMMIT: commit_offsets,
    ApiKey.OFFSET_FETCH: fetch_offsets,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.JOIN_GROUP: join_group,
    ApiKey.HEARTBEAT: heartbeat,
    ApiKey.LEAVE_GROUP: leave_group,
    ApiKey.SYNC_GROUP: sync_group,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.SASL_HANDSHAKE: sasl_handshake,
    ApiKey.API_VERSIONS: api_versions,
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.DELETE_RECORDS: delete_records,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: add_offsets,
    ApiKey.END_TXN: end_transaction,
    ApiKey.WRITE_TXN_MARKERS: write_markers,
    ApiKey.TXN_OFFSET_COMMIT: commit_transactional_offsets,
    ApiKey.DESCRIBE_ACLS: describe_acls,
    ApiKey.CREATE_ACLS: create_acls,
    ApiKey.DELETE_ACLS: delete_acls,
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.ALTER_CONFIGS: alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs,
    ApiKey.SASL_AUTHENTICATE: sasl_authenticate,
    ApiKey.CREATE_PARTITIONS: create_partitions,
    ApiKey.DELETE_GROUPS: delete_groups,
    ApiKey.ELECT_LEADERS: elect_leaders,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: list_reassignments,
    ApiKey.OFFSET_DELETE: delete_offsets,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions,
    ApiKey.LIST_TRANSACTIONS: list_transactions,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
}
