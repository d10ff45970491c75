"""Authorization of requests with transactional ids."""

from __future__ import annotations

from ....protocol.bodies import ErrorCode
from ...security.rules import Operation, Resource
from . import groups
from .asking import DENIED, Asking, Body, parted, refused_topic
from .topics import all_partitions


def _may_transact(asking: Asking, transactional_id: str) -> bool:
    return asking.may(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)


def init_producer_id(asking: Asking) -> Body | None:
    """Checks the transactional id; without one, the cluster (IDEMPOTENT_WRITE) or any topic (WRITE)."""
    transactional_id = asking.request.body.transactional_id
    nobody = {"producer_id": -1, "producer_epoch": -1}
    if transactional_id is not None:
        is_allowed = _may_transact(asking, transactional_id)
        return None if is_allowed else {"error_code": DENIED[Resource.TRANSACTIONAL_ID], **nobody}
    is_allowed = asking.may(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER) or asking.may(
        Operation.WRITE, Resource.TOPIC, None
    )
    return None if is_allowed else {"error_code": DENIED[Resource.CLUSTER], **nobody}


def add_partitions(asking: Asking) -> Body | None:
    """Checks the transactional id and all topics; if one is denied, no partition is added."""
    body = asking.request.body
    if asking.request.version >= 4:  # between brokers only
        return {"error_code": DENIED[Resource.CLUSTER]}
    topics = body.v3_and_below_topics
    is_allowed = _may_transact(asking, body.v3_and_below_transactional_id)
    denied = {each.name for each in topics if not asking.may_change(Operation.WRITE, each.name)}
    if is_allowed and not denied:
        return None

    def code(topic: str) -> ErrorCode:
        if not is_allowed:
            return DENIED[Resource.TRANSACTIONAL_ID]
        refused: ErrorCode = refused_topic(topic)["error_code"]
        return refused if topic in denied else ErrorCode.operation_not_attempted

    return {
        "results_by_topic_v3_and_below": [
            {
                "name": each.name,
                "results_by_partition": [
                    {"partition_index": number, "partition_error_code": code(each.name)} for number in each.partitions
                ],
            }
            for each in topics
        ]
    }


def add_offsets(asking: Asking) -> Body | None:
    """Checks a transactional id and a group."""
    return end_transaction(asking) or groups.group(asking, operation=Operation.READ)


def end_transaction(asking: Asking) -> Body | None:
    """Checks a transactional id."""
    is_allowed = _may_transact(asking, asking.request.body.transactional_id)
    return None if is_allowed else {"error_code": DENIED[Resource.TRANSACTIONAL_ID]}


def commit_offsets(asking: Asking) -> Body | None:
    """Checks a transactional id, a group and its topics."""
    body = asking.request.body
    if not _may_transact(asking, body.transactional_id):
        return {"topics": all_partitions(body.topics, DENIED[Resource.TRANSACTIONAL_ID])}
    return groups.commit_offsets(asking)


def write_markers(asking: Asking) -> Body | None:
    """Checks the cluster: markers are written by other nodes or by administrators."""
    if asking.may(Operation.CLUSTER_ACTION, Resource.CLUSTER) or asking.may(Operation.ALTER, Resource.CLUSTER):
        return None
    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [
                            {"partition_index": number, "error_code": DENIED[Resource.CLUSTER]}
                            for number in topic.partition_indexes
                        ],
                    }
                    for topic in marker.topics
                ],
            }
            for marker in asking.request.body.markers
        ]
    }


def describe_transactions(asking: Asking) -> Body | None:
    """Checks transactional ids, and hides the topics of their transactions that the client may not describe."""
    asking.keep_within("transaction_states", "topics", lambda each: asking.may_topic(Operation.DESCRIBE, each["topic"]))
    ids = asking.request.body.transactional_ids
    allowed, denied = parted(ids, lambda each: asking.may(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, each))
    asking.narrow(transactional_ids=allowed)
    asking.add(
        "transaction_states",
        [{"transactional_id": each, "error_code": DENIED[Resource.TRANSACTIONAL_ID]} for each in denied],
    )
    return None


def list_transactions(asking: Asking) -> Body | None:
    """Hides transactional ids that the client may not describe."""
    asking.keep(
        "transaction_states",
        lambda each: asking.may(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, each["transactional_id"]),
    )
    return None
