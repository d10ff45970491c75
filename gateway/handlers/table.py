"""KINDS: what the gateway does with each kind of request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from ...protocol.apis import ApiKey
from ..context import Handler
from ..places import Sort
from ..security.rules import Operation
from .access import groups, repeated, topics, transactions
from .access.guards import Guard, everyone, of_cluster
from .brokers.acls import create_acls, created_acls, delete_acls, deleted_acls, describe_acls, described_acls
from .brokers.client_quotas import alter_quotas, altered_quotas, describe_quotas, described_quotas
from .brokers.replicas import (
    alter_reassignments,
    alter_replica_log_dirs,
    elect_leaders,
    list_reassignments,
    refused_elections,
    refused_list,
    refused_moves,
    refused_reassignments,
)
from .brokers.scram_users import alter_scram_users, altered_scram_users, describe_scram_users, described_scram_users
from .cluster import api_versions, describe_cluster, describe_log_dirs, find_coordinator
from .configs.altering import alter_configs, incremental_alter_configs
from .configs.describing import describe_configs
from .configs.listing import list_config_resources, listed_resources
from .fetch import fetch
from .groups.admin import delete_groups, delete_offsets, describe_groups, list_groups
from .groups.committed import commit_offsets, fetch_offsets
from .groups.consumers import consumer_group_heartbeat, describe_consumer_groups
from .groups.members import heartbeat, join_group, leave_group, sync_group
from .logins import sasl_authenticate, sasl_handshake
from .metadata import metadata
from .offsets import list_offsets, offset_for_leader_epoch
from .produce import produce
from .producers import describe_producers, init_producer_id
from .topics import create_partitions, create_topics, delete_records, delete_topics
from .transactions.admin import describe_transactions, list_transactions, write_markers
from .transactions.producers import add_offsets, add_partitions, end_transaction
from .transactions.txn_offsets import commit_transactional_offsets


class Kind(NamedTuple):
    """How one kind of request is handled. Its number and versions are in ``protocol/apis``."""

    handler: Handler
    guard: Guard  # asked first, while there are rules
    sort: Sort = Sort.OTHERS  # the requests that it shares places with
    once: Callable[[Any, int], Any] | None = None  # removes what a body names again
    names_topics: bool = False  # names topics to change, so its guard refuses reserved names even without rules
    is_read_by_hand: bool = False  # its handler reads the bytes itself, without kio


KINDS: Mapping[int, Kind] = {
    ApiKey.PRODUCE: Kind(produce, everyone, Sort.PRODUCE, is_read_by_hand=True),
    ApiKey.FETCH: Kind(fetch, everyone, Sort.FETCH, is_read_by_hand=True),
    ApiKey.LIST_OFFSETS: Kind(
        list_offsets,
        partial(topics.partitions, operation=Operation.DESCRIBE),
        Sort.OFFSETS,
        once=repeated.oldest_offsets,
    ),
    ApiKey.METADATA: Kind(metadata, topics.metadata, Sort.METADATA),
    ApiKey.OFFSET_COMMIT: Kind(commit_offsets, groups.commit_offsets, Sort.GROUPS, names_topics=True),
    ApiKey.OFFSET_FETCH: Kind(fetch_offsets, groups.fetch_offsets, Sort.GROUPS, once=repeated.groups_with_topics),
    ApiKey.FIND_COORDINATOR: Kind(
        find_coordinator, groups.find_coordinator, once=partial(repeated.texts, field="coordinator_keys")
    ),
    ApiKey.JOIN_GROUP: Kind(join_group, partial(groups.group, operation=Operation.READ), Sort.GROUPS),
    ApiKey.HEARTBEAT: Kind(heartbeat, partial(groups.group, operation=Operation.READ), Sort.GROUPS),
    ApiKey.LEAVE_GROUP: Kind(leave_group, partial(groups.group, operation=Operation.READ), Sort.GROUPS),
    ApiKey.SYNC_GROUP: Kind(sync_group, partial(groups.group, operation=Operation.READ), Sort.GROUPS),
    ApiKey.DESCRIBE_GROUPS: Kind(
        describe_groups,
        partial(groups.several, operation=Operation.DESCRIBE, asked="groups", answer="groups"),
        Sort.GROUPS,
        once=partial(repeated.texts, field="groups"),
    ),
    ApiKey.LIST_GROUPS: Kind(list_groups, groups.list_groups, Sort.GROUPS),
    ApiKey.SASL_HANDSHAKE: Kind(sasl_handshake, everyone, Sort.LOGIN),
    ApiKey.API_VERSIONS: Kind(api_versions, everyone),
    ApiKey.CREATE_TOPICS: Kind(create_topics, topics.create_topics, Sort.ADMIN, names_topics=True),
    ApiKey.DELETE_TOPICS: Kind(delete_topics, topics.delete_topics, Sort.ADMIN, names_topics=True),
    ApiKey.DELETE_RECORDS: Kind(
        delete_records,
        partial(topics.changed_partitions, operation=Operation.DELETE),
        Sort.ADMIN,
        once=repeated.numbered_topics,
        names_topics=True,
    ),
    ApiKey.INIT_PRODUCER_ID: Kind(init_producer_id, transactions.init_producer_id, Sort.PRODUCER_IDS),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Kind(
        offset_for_leader_epoch,
        partial(topics.partitions, operation=Operation.DESCRIBE, topic="topic", part="partition"),
        Sort.OFFSETS,
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Kind(
        add_partitions, transactions.add_partitions, Sort.TRANSACTIONS, names_topics=True
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: Kind(add_offsets, transactions.add_offsets, Sort.TRANSACTIONS),
    ApiKey.END_TXN: Kind(end_transaction, transactions.end_transaction, Sort.TRANSACTIONS),
    ApiKey.WRITE_TXN_MARKERS: Kind(write_markers, transactions.write_markers, Sort.TRANSACTIONS),
    ApiKey.TXN_OFFSET_COMMIT: Kind(
        commit_transactional_offsets, transactions.commit_offsets, Sort.TRANSACTIONS, names_topics=True
    ),
    ApiKey.DESCRIBE_ACLS: Kind(
        describe_acls, partial(of_cluster, operation=Operation.DESCRIBE, refused=described_acls)
    ),
    ApiKey.CREATE_ACLS: Kind(create_acls, partial(of_cluster, operation=Operation.ALTER, refused=created_acls)),
    ApiKey.DELETE_ACLS: Kind(delete_acls, partial(of_cluster, operation=Operation.ALTER, refused=deleted_acls)),
    ApiKey.DESCRIBE_CONFIGS: Kind(
        describe_configs,
        partial(topics.configs, operation=Operation.DESCRIBE_CONFIGS, field="results"),
        Sort.ADMIN,
        once=repeated.resources,
    ),
    ApiKey.ALTER_CONFIGS: Kind(
        alter_configs,
        partial(topics.configs, operation=Operation.ALTER_CONFIGS, field="responses"),
        Sort.ADMIN,
        names_topics=True,
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Kind(
        alter_replica_log_dirs, partial(of_cluster, operation=Operation.ALTER, refused=refused_moves)
    ),
    ApiKey.DESCRIBE_LOG_DIRS: Kind(
        describe_log_dirs,
        topics.log_dirs,
        Sort.ADMIN,
        once=partial(repeated.topics, name="topic", partitions="partitions"),
    ),
    ApiKey.SASL_AUTHENTICATE: Kind(sasl_authenticate, everyone, Sort.LOGIN),
    ApiKey.CREATE_PARTITIONS: Kind(create_partitions, topics.create_partitions, Sort.ADMIN, names_topics=True),
    ApiKey.DELETE_GROUPS: Kind(
        delete_groups,
        partial(groups.several, operation=Operation.DELETE, asked="groups_names", answer="results"),
        Sort.GROUPS,
        once=partial(repeated.texts, field="groups_names"),
    ),
    ApiKey.ELECT_LEADERS: Kind(
        elect_leaders, partial(of_cluster, operation=Operation.ALTER, refused=refused_elections)
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Kind(
        incremental_alter_configs,
        partial(topics.configs, operation=Operation.ALTER_CONFIGS, field="responses"),
        Sort.ADMIN,
        names_topics=True,
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Kind(
        alter_reassignments, partial(of_cluster, operation=Operation.ALTER, refused=refused_reassignments)
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Kind(
        list_reassignments, partial(of_cluster, operation=Operation.DESCRIBE, refused=refused_list)
    ),
    ApiKey.OFFSET_DELETE: Kind(delete_offsets, groups.delete_offsets, Sort.GROUPS),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Kind(
        describe_quotas, partial(of_cluster, operation=Operation.DESCRIBE_CONFIGS, refused=described_quotas)
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: Kind(
        alter_quotas, partial(of_cluster, operation=Operation.ALTER_CONFIGS, refused=altered_quotas)
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Kind(
        describe_scram_users, partial(of_cluster, operation=Operation.DESCRIBE, refused=described_scram_users)
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Kind(
        alter_scram_users, partial(of_cluster, operation=Operation.ALTER, refused=altered_scram_users)
    ),
    ApiKey.DESCRIBE_CLUSTER: Kind(describe_cluster, everyone),
    ApiKey.DESCRIBE_PRODUCERS: Kind(describe_producers, topics.described_producers, once=repeated.topics),
    ApiKey.DESCRIBE_TRANSACTIONS: Kind(
        describe_transactions,
        transactions.describe_transactions,
        Sort.TRANSACTIONS,
        once=partial(repeated.texts, field="transactional_ids"),
    ),
    ApiKey.LIST_TRANSACTIONS: Kind(list_transactions, transactions.list_transactions, Sort.TRANSACTIONS),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Kind(consumer_group_heartbeat, groups.consumer_heartbeat),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Kind(
        describe_consumer_groups,
        groups.describe_consumers,
        once=partial(repeated.texts, field="group_ids"),
    ),
    ApiKey.LIST_CONFIG_RESOURCES: Kind(
        list_config_resources,
        partial(of_cluster, operation=Operation.DESCRIBE_CONFIGS, refused=listed_resources),
        Sort.ADMIN,
    ),
}
