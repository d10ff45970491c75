"""GUARDS: for each kind of request, the check of permissions and reserved names before its handler (``KafkaApis``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ....protocol import ApiKey, ErrorCode, RequestError
from ....storage import check_not_reserved
from ...context import Context
from ...request import Request
from ...security import CLUSTER_NAME, Operation, Resource
from ..brokers import (
    created_acls,
    deleted_acls,
    described_acls,
    refused_elections,
    refused_list,
    refused_moves,
    refused_reassignments,
)
from . import groups, topics, transactions
from .asking import DENIED, Asking, Body

ADMIN_CLIENT = "__admin_client"  # the client id of Kafka's tools for internal topics (``AdminUtils``)

Guard = Callable[[Asking], Body | None]  # returns the answer to a request that is refused whole


def guard(request: Request, context: Context) -> Body | None:
    """Returns the answer if the request is refused as a whole; None if its handler may run on what is allowed.

    Without rules, only requests that change topics are checked, for reserved names. Raises RequestError for a kind of
    request that is not allowed at all while there are rules.
    """
    if request.is_guarded or (context.rules is None and request.key not in _CHANGING):
        return None
    request.is_guarded = True
    rules = None if context.rules is None else context.rules.current()
    return GUARDS.get(request.key, _refuse)(Asking(request, context, rules))


def check_topic(request: Request, context: Context, operation: Operation, topic: str) -> None:
    """Raises RequestError if the client may not do this with the topic."""
    _check(request, context, operation, Resource.TOPIC, topic)


def check_written_topic(request: Request, context: Context, topic: str) -> None:
    """As :func:`check_topic`, for records of a client; raises InvalidTopicError for a reserved name."""
    check_not_reserved(topic)
    _check(request, context, Operation.WRITE, Resource.TOPIC, topic)


def check_transactional_id(request: Request, context: Context, transactional_id: str) -> None:
    """Raises RequestError if the client may not write with the transactional id."""
    _check(request, context, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)


def may_describe(request: Request, context: Context, topic: str) -> bool:
    """Whether the client may see that the topic exists."""
    rules = context.rules
    return rules is None or rules.current().allow(request.principal, Operation.DESCRIBE, Resource.TOPIC, topic)


def may_write_internal_topics(request: Request, context: Context) -> bool:
    """Whether a client may write to internal topics as an administrator who restores them.

    The client's name alone, which suffices to a broker, is a text that anyone may send. So it also needs to be allowed
    CLUSTER_ACTION or ALTER on the cluster or, where there are no rules, a setting that lets everyone.
    """
    if request.client_id != ADMIN_CLIENT:
        return False
    if context.rules is None:
        return context.config.commitlog_internal_topics_writable
    rules, may = context.rules.current(), (Operation.CLUSTER_ACTION, Operation.ALTER)
    return any(rules.allow(request.principal, each, Resource.CLUSTER, CLUSTER_NAME) for each in may)


def _check(request: Request, context: Context, operation: Operation, resource: Resource, name: str) -> None:
    rules = context.rules
    if rules is not None and not rules.current().allow(request.principal, operation, resource, name):
        raise RequestError(DENIED[resource])


def _serve(asking: Asking) -> Body | None:
    """Allows everyone, or leaves the check of each partition to the handler."""
    return None


def _refuse(asking: Asking) -> Body | None:
    raise RequestError(ErrorCode.cluster_authorization_failed)


def _cluster(asking: Asking, *, operation: Operation, refused: Callable[[Any, ErrorCode], Body]) -> Body | None:
    """Checks a permission on the cluster, for the whole request."""
    is_allowed = asking.may(operation, Resource.CLUSTER)
    return None if is_allowed else refused(asking.request.body, DENIED[Resource.CLUSTER])


_READ, _DESCRIBE, _ALTER = Operation.READ, Operation.DESCRIBE, Operation.ALTER

GUARDS: Mapping[int, Guard] = {
    ApiKey.PRODUCE: _serve,
    ApiKey.FETCH: _serve,
    ApiKey.LIST_OFFSETS: partial(topics.partitions, operation=_DESCRIBE),
    ApiKey.METADATA: topics.metadata,
    ApiKey.OFFSET_COMMIT: groups.commit_offsets,
    ApiKey.OFFSET_FETCH: groups.fetch_offsets,
    ApiKey.FIND_COORDINATOR: groups.find_coordinator,
    ApiKey.JOIN_GROUP: partial(groups.group, operation=_READ),
    ApiKey.HEARTBEAT: partial(groups.group, operation=_READ),
    ApiKey.LEAVE_GROUP: partial(groups.group, operation=_READ),
    ApiKey.SYNC_GROUP: partial(groups.group, operation=_READ),
    ApiKey.DESCRIBE_GROUPS: partial(groups.several, operation=_DESCRIBE, asked="groups", answer="groups"),
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.SASL_HANDSHAKE: _serve,
    ApiKey.API_VERSIONS: _serve,
    ApiKey.CREATE_TOPICS: topics.create_topics,
    ApiKey.DELETE_TOPICS: topics.delete_topics,
    ApiKey.DELETE_RECORDS: partial(topics.changed_partitions, operation=Operation.DELETE),
    ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: partial(topics.partitions, operation=_DESCRIBE, topic="topic", part="partition"),
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets,
    ApiKey.END_TXN: transactions.end_transaction,
    ApiKey.WRITE_TXN_MARKERS: transactions.write_markers,
    ApiKey.TXN_OFFSET_COMMIT: transactions.commit_offsets,
    ApiKey.DESCRIBE_ACLS: partial(_cluster, operation=_DESCRIBE, refused=described_acls),
    ApiKey.CREATE_ACLS: partial(_cluster, operation=_ALTER, refused=created_acls),
    ApiKey.DELETE_ACLS: partial(_cluster, operation=_ALTER, refused=deleted_acls),
    ApiKey.DESCRIBE_CONFIGS: partial(topics.configs, operation=Operation.DESCRIBE_CONFIGS, field="results"),
    ApiKey.ALTER_CONFIGS: partial(topics.configs, operation=Operation.ALTER_CONFIGS, field="responses"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: partial(_cluster, operation=_ALTER, refused=refused_moves),
    ApiKey.DESCRIBE_LOG_DIRS: topics.log_dirs,
    ApiKey.SASL_AUTHENTICATE: _serve,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.DELETE_GROUPS: partial(groups.several, operation=Operation.DELETE, asked="groups_names", answer="results"),
    ApiKey.ELECT_LEADERS: partial(_cluster, operation=_ALTER, refused=refused_elections),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: partial(topics.configs, operation=Operation.ALTER_CONFIGS, field="responses"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: partial(_cluster, operation=_ALTER, refused=refused_reassignments),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: partial(_cluster, operation=_DESCRIBE, refused=refused_list),
    ApiKey.OFFSET_DELETE: groups.delete_offsets,
    ApiKey.DESCRIBE_CLUSTER: _serve,
    ApiKey.DESCRIBE_PRODUCERS: partial(topics.partitions, operation=_READ),
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.describe_transactions,
    ApiKey.LIST_TRANSACTIONS: transactions.list_transactions,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _serve,  # refused anyway
}

_CHANGING = frozenset(  # what changes topics or is kept for them, so that reserved names are refused without rules too
    {
        ApiKey.OFFSET_COMMIT,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
    }
)
