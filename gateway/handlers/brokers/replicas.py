"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments and AlterReplicaLogDirs.

Each partition has one replica, on its leader, in the directory that all nodes share, so no request can move it
(``ReplicationControlManager``, ``ReplicaManager``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ....protocol.bodies import ErrorCode
from ....protocol.errors import RequestError, message_of
from ....storage import TopicPartition
from ...cluster.cluster import Cluster
from ...context import Context
from ...request import Request

_ELECTION_TYPES = (0, 1)  # of the preferred replica, and of any
_PREFERRED = 0  # what requests of version 0 ask for

_WHY = {
    ErrorCode.election_not_needed: "the partition's only replica leads it",
    ErrorCode.unknown_topic_or_partition: "there is no such partition",
    ErrorCode.invalid_request: "there is no such kind of election",
}

Answer = Mapping[str, Any]


def elect_leaders(request: Request, context: Context) -> Answer:
    """Answers that no partition needs a new leader; if asked about all partitions, lists topics without partitions."""
    if getattr(request.body, "election_type", _PREFERRED) not in _ELECTION_TYPES:
        return refused_elections(request.body, ErrorCode.invalid_request)
    if request.body.topic_partitions is None:
        return {"replica_election_results": [{"topic": each, "partition_result": ()} for each in context.topics.all()]}
    exists = context.topics.existence()
    return _elections(request.body, lambda each: _existing(exists, each, ErrorCode.election_not_needed))


def refused_elections(body: Any, code: ErrorCode) -> Answer:
    """Returns the answer to an ElectLeaders that is refused."""
    return {"error_code": code, **_elections(body, lambda _: code)}


def _elections(body: Any, code: Callable[[TopicPartition], ErrorCode]) -> Answer:
    def result(partition: TopicPartition) -> Answer:
        found = code(partition)
        return {"partition_id": partition.partition, "error_code": found, "error_message": _WHY.get(found)}

    results = [
        {"topic": asked.topic, "partition_result": [result(TopicPartition(asked.topic, n)) for n in asked.partitions]}
        for asked in body.topic_partitions or ()
    ]
    return {"replica_election_results": results}


def alter_reassignments(request: Request, context: Context) -> Answer:
    """Answers that a partition is on the node that was asked for; refuses any other node."""
    exists = context.topics.existence()

    def told(partition: TopicPartition, replicas: tuple[int, ...] | None) -> tuple[ErrorCode, str | None]:
        if not exists(partition):
            return ErrorCode.unknown_topic_or_partition, _WHY[ErrorCode.unknown_topic_or_partition]
        if replicas is None:
            return ErrorCode.no_reassignment_in_progress, None
        try:
            check_replicas(context.cluster, partition.topic, [(partition.partition, replicas)])
        except RequestError as error:
            return error.code, message_of(error)
        return ErrorCode.none, None

    return {"error_message": None, **_reassignments(request.body, told)}


def check_replicas(cluster: Cluster, topic: str, assignments: Iterable[tuple[int, Sequence[int]]]) -> None:
    """Raises RequestError if a partition is assigned to another node than its leader, as Metadata shows it.

    ``assignments``: partition numbers with the nodes asked for; the partitions need not exist yet.
    """
    for partition, brokers in assignments:
        node = cluster.leader(topic, partition).node
        if tuple(brokers) != (node,):
            raise RequestError(
                ErrorCode.invalid_replica_assignment,
                f"partition {partition} of topic {topic!r} has one replica, on node {node}, which leads it: "
                f"assign it to {node}, or assign nothing",
            )


def refused_reassignments(body: Any, code: ErrorCode) -> Answer:
    """Returns the answer to an AlterPartitionReassignments that is refused."""
    return {"error_code": code, "error_message": None, **_reassignments(body, lambda *_: (code, None))}


def _reassignments(
    body: Any, told: Callable[[TopicPartition, tuple[int, ...] | None], tuple[ErrorCode, str | None]]
) -> Answer:
    def answered(topic: str, asked: Any) -> Answer:
        code, message = told(TopicPartition(topic, asked.partition_index), asked.replicas)
        return {"partition_index": asked.partition_index, "error_code": code, "error_message": message}

    return {
        "responses": [
            {"name": asked.name, "partitions": [answered(asked.name, each) for each in asked.partitions]}
            for asked in body.topics
        ]
    }


def list_reassignments(request: Request, context: Context) -> Answer:
    """Answers that nothing moves."""
    return refused_list(request.body, ErrorCode.none)


def refused_list(body: Any, code: ErrorCode) -> Answer:
    """Returns the answer to a ListPartitionReassignments with an error."""
    return {"error_code": code, "error_message": None, "topics": ()}


def alter_replica_log_dirs(request: Request, context: Context) -> Answer:
    """Answers that a partition is in the only directory; refuses any other one."""
    exists = context.topics.existence()

    def code(path: str, partition: TopicPartition) -> ErrorCode:
        if path != context.log_path:
            return ErrorCode.log_dir_not_found
        return _existing(exists, partition, ErrorCode.none)

    return _moves(request.body, code)


def refused_moves(body: Any, code: ErrorCode) -> Answer:
    """Returns the answer to an AlterReplicaLogDirs that is refused."""
    return _moves(body, lambda *_: code)


def _moves(body: Any, code: Callable[[str, TopicPartition], ErrorCode]) -> Answer:
    found: dict[str, list[Answer]] = {}
    for folder in body.dirs:
        for asked in folder.topics:
            found.setdefault(asked.name, []).extend(
                {"partition_index": each, "error_code": code(folder.path, TopicPartition(asked.name, each))}
                for each in asked.partitions
            )
    return {"results": [{"topic_name": topic, "partitions": partitions} for topic, partitions in found.items()]}


def _existing(exists: Callable[[TopicPartition], bool], partition: TopicPartition, code: ErrorCode) -> ErrorCode:
    return code if exists(partition) else ErrorCode.unknown_topic_or_partition
