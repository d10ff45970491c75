"""Authorization of requests with transactional ids."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ....protocol.bodies import ErrorCode
from ....storage import INTERNAL_TOPICS, TopicPartition
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
    if not _may_transact(asking, body.v3_and_below_transactional_id):
        return {"results_by_topic_v3_and_below": [_not_allowed(each) for each in topics]}
    denied = {each.name for each in topics if not asking.may_change(Operation.WRITE, each.name)}
    refused = not_added(topics, asking.context.topics.existence(), denied) if denied else None
    return added(refused) if refused else None


def _not_allowed(topic: Any) -> Body:
    code = DENIED[Resource.TRANSACTIONAL_ID]
    results = [{"partition_index": number, "partition_error_code": code} for number in topic.partitions]
    return {"name": topic.name, "results_by_partition": results}


def not_added(
    topics: Iterable[Any], exists: Callable[[TopicPartition], bool], denied: Collection[str] = ()
) -> Mapping[TopicPartition, ErrorCode]:
    """Returns the code of each partition if one of them cannot be added to a transaction: then none is.

    Otherwise returns nothing. ``denied``: the topics that the client may not write to.
    """
    asked = [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]
    refused: dict[TopicPartition, ErrorCode] = {}
    for each in asked:
        if each.topic in denied:
            refused[each] = refused_topic(each.topic)["error_code"]
        elif each.topic in INTERNAL_TOPICS:  # only coordinators write there
            refused[each] = DENIED[Resource.TOPIC]
        elif not exists(each):
            refused[each] = ErrorCode.unknown_topic_or_partition
    return {**dict.fromkeys(asked, ErrorCode.operation_not_attempted), **refused} if refused else {}


def added(codes: Mapping[TopicPartition, ErrorCode]) -> Body:
    """Returns the answer to AddPartitionsToTxn with the code of each partition."""
    results: dict[str, list[Body]] = {}
    for each, code in codes.items():
        results.setdefault(each.topic, []).append({"partition_index": each.partition, "partition_error_code": code})
    return {
        "results_by_topic_v3_and_below": [
            {"name": topic, "results_by_partition": found} for topic, found in results.items()
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
