"""Requests that change topics: CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple
from uuid import UUID

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError, code_of, message_of
from ...storage import (
    CONTROLLERS_TOPIC,
    COORDINATOR_TOPICS,
    INTERNAL_TOPICS,
    InvalidConfigError,
    LogManager,
    TopicExistsError,
    TopicPartition,
    add_partitions,
    delete_topic,
)
from ..context import Context, ManagerWorker, Mutations
from ..partitions.led_partition import LedPartition
from ..partitions.topics import TopicInfo
from ..request import Request
from .access.guards import may_describe
from .brokers.replicas import check_replicas
from .configs.describing import described_topic_configs
from .metadata import is_legal

STRICT_CREATION, STRICT_DELETION, STRICT_ENLARGING = 6, 5, 3  # from here on an exhausted quota refuses (KIP-599)
DEFAULT = -1  # of partitions and replicas: the node's
FEW_MAX = 100  # up to this many partitions, the administrators' thread creates them, in a third of a second
_TWICE = "the request names the topic more than once"
PARTITIONS_MAX = 10_000  # limit of one request, as on a broker (``QuorumController.MAX_RECORDS_PER_USER_OP``)


# --- CreateTopics


def create_topics(request: Request, context: Context) -> None:
    """Creates topics; with ``validate_only`` only checks whether they could be created."""
    worker = _worker(context, _count(request.body.topics, context.config.num_partitions))
    worker.answer(request, lambda manager: {"topics": _create_all(manager, request, context)})


def _worker(context: Context, partitions: int) -> ManagerWorker:
    """Returns the worker for this number of partitions.

    Large requests have their own, so others need not wait for them.
    """
    return context.workers.admin if partitions <= FEW_MAX else context.workers.creations


def _count(topics: Sequence[Any], default: int = 1) -> int:
    """Returns the total number of partitions of new topics; ``default``: for a topic whose creator gives no number."""
    return sum(max(each.num_partitions, len(each.assignments), 0) or default for each in topics)


def _create_all(manager: LogManager, request: Request, context: Context) -> Sequence[Mapping[str, Any]]:
    body = request.body
    times = Counter(each.name for each in body.topics)
    if _count(body.topics) > PARTITIONS_MAX:
        return [_not_created(name, _too_many()) for name in times]
    creating = _Creating(manager, request, context)
    return [
        creating.create(asked, is_twice=times[name] > 1) for name, asked in {e.name: e for e in body.topics}.items()
    ]


class _Creating:
    """Creates the topics of one request."""

    def __init__(self, manager: LogManager, request: Request, context: Context) -> None:
        self._manager, self._request, self._context = manager, request, context
        self._is_dry = getattr(request.body, "validate_only", False)
        self._mutations = context.mutations(request, STRICT_CREATION)
        self._named_as = {_in_metrics(name): name for name in context.topics.all()}

    def create(self, asked: Any, *, is_twice: bool) -> Mapping[str, Any]:
        """Creates a topic, and returns the answer for it."""
        try:
            if is_twice:
                raise RequestError(ErrorCode.invalid_request, _TWICE)
            partitions, configs = self._checked(asked)
            self._mutations.record(partitions)
            topic_id = None if self._is_dry else self._make(asked.name, partitions, configs)
        except Exception as error:
            return _not_created(asked.name, error)
        return {
            "name": asked.name,
            "topic_id": topic_id,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": described_topic_configs(configs, self._manager.broker_settings()),
        }

    def _make(self, name: str, partitions: int, configs: Mapping[str, str]) -> UUID | None:
        try:
            self._manager.create_topic(name, partitions=partitions, configs=configs)
        except TopicExistsError:  # another process was faster
            raise self._exists(name) from None
        found = self._context.topics.find(name)
        self._named_as[_in_metrics(name)] = name
        return None if found is None else found.id

    def _checked(self, asked: Any) -> tuple[int, Mapping[str, str]]:
        """Returns the number of partitions and the configs of a new topic. Raises an error if it may not be created."""
        if not is_legal(asked.name):
            raise RequestError(ErrorCode.invalid_topic_exception, f"a topic cannot be named {asked.name!r}")
        if asked.name == CONTROLLERS_TOPIC:
            raise RequestError(ErrorCode.invalid_request, f"{asked.name!r} is the log of Kafka's controllers")
        if _in_metrics(asked.name) in self._named_as:
            raise self._exists(asked.name)
        configs = {each.name: each.value for each in asked.configs}
        if any(value is None for value in configs.values()):
            raise InvalidConfigError("a config has no value: leave the config out to use its default")
        self._manager.check_new_topic(asked.name, configs)
        return _partitions(self._context, asked), configs

    def _exists(self, name: str) -> RequestError:
        """Returns the error for a topic that exists, or whose name Kafka's metrics cannot tell from that of another.

        The other topic is named only to a client that may describe it.
        """
        other = self._named_as.get(_in_metrics(name), name)
        if other == name or self._context.topics.find(name) is not None:
            return RequestError(ErrorCode.topic_already_exists, f"topic {name!r} exists")
        which = f"topic {other!r}" if may_describe(self._request, self._context, other) else "a topic"
        why = f"{which} exists, and {name!r} would have the same name in Kafka's metrics; choose another"
        return RequestError(ErrorCode.invalid_topic_exception, why)


def _in_metrics(topic: str) -> str:
    """Returns the name that a topic has in Kafka's metrics."""
    return topic.replace(".", "_")


def _not_created(name: str, error: Exception) -> Mapping[str, Any]:
    return {
        "name": name,
        "error_code": code_of(error),
        "error_message": message_of(error),
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": (),
    }


def _too_many() -> RequestError:
    return RequestError(
        ErrorCode.policy_violation, f"a request creates at most {PARTITIONS_MAX} partitions: send several"
    )


def _partitions(context: Context, asked: Any) -> int:
    """Returns how many partitions a new topic gets."""
    if asked.assignments:
        if asked.num_partitions != DEFAULT or asked.replication_factor != DEFAULT:
            raise RequestError(
                ErrorCode.invalid_request, "give either assignments or the numbers of partitions and replicas"
            )
        if sorted(each.partition_index for each in asked.assignments) != list(range(len(asked.assignments))):
            raise RequestError(
                ErrorCode.invalid_replica_assignment, "the assigned partitions must be numbered from 0 without a gap"
            )
        given = [(each.partition_index, each.broker_ids) for each in asked.assignments]
        check_replicas(context.cluster, asked.name, given)
        return len(asked.assignments)
    is_possible = asked.replication_factor == DEFAULT or asked.replication_factor > 0  # on a broker with enough nodes
    if is_possible and asked.num_partitions != DEFAULT and asked.num_partitions < 1:
        raise RequestError(ErrorCode.invalid_partitions, "a topic has at least 1 partition")
    if asked.replication_factor not in (DEFAULT, 1):
        raise RequestError(
            ErrorCode.invalid_replication_factor,
            f"a partition has one replica, and cannot have {asked.replication_factor}: ask for 1",
        )
    return context.config.num_partitions if asked.num_partitions == DEFAULT else int(asked.num_partitions)


# --- DeleteTopics


def delete_topics(request: Request, context: Context) -> None:
    """Closes the logs of topics, then deletes the topics."""
    asked = _named(request, context)
    known = [each.topic for each in asked if each.topic is not None and each.topic.name not in COORDINATOR_TOPICS]

    @request.or_fail
    def delete() -> None:
        context.workers.admin.answer(request, lambda manager: _deleted(manager, request, context, asked))

    if known and context.config.delete_topic_enable:
        context.partitions.close_topics({topic.name for topic in known}, delete, keep_closed=True)
    else:
        delete()


class _Named(NamedTuple):
    """A topic that a request names."""

    given: Mapping[str, Any]  # the name or the id
    topic: TopicInfo | None  # None: it does not exist, or the request is wrong
    wrong: str = ""  # why


def _named(request: Request, context: Context) -> list[_Named]:
    """Returns the topics of the request, each once."""
    body, topics, is_by_id = request.body, context.topics, request.version >= 6
    found: dict[object, _Named] = {}
    for name, id_ in (
        [(each.name, each.topic_id) for each in body.topics] if is_by_id else zip(body.topic_names, repeat(None))
    ):
        known = name if id_ is None else topics.name_of(id_)
        topic = None if known is None else topics.find(known)
        key, given = known or id_, {"name": known if name is None else name, "topic_id": id_}
        if key in found:
            found[key] = _Named(given, None, _TWICE)
        elif (name is None) == (id_ is None):
            found[key] = _Named(given, None, "give either the name or the id of a topic")
        else:
            found[key] = _Named(given, topic)
    return list(found.values())


def _deleted(manager: LogManager, request: Request, context: Context, asked: Sequence[_Named]) -> Mapping[str, Any]:
    mutations = context.mutations(request, STRICT_DELETION)
    answers = [_delete(manager, request, context, each, mutations) for each in asked]
    deleted = {each["name"] for each in answers if "error_code" not in each}
    if deleted:
        context.groups.run(lambda coordinator: coordinator.offsets.delete_topics(deleted))
    return {"responses": answers}


def _delete(
    manager: LogManager, request: Request, context: Context, asked: _Named, mutations: Mutations
) -> Mapping[str, Any]:
    given, known = asked.given, asked.topic
    try:
        if not context.config.delete_topic_enable:
            raise RequestError(ErrorCode.topic_deletion_disabled if request.version >= 3 else ErrorCode.invalid_request)
        if asked.wrong:
            raise RequestError(ErrorCode.invalid_request, asked.wrong)
        topic = None if known is None else context.topics.find(known.name)
        if known is None or topic is None or topic.id != known.id:  # perhaps another one has its name by now
            raise _no_topic(given)
        if topic.name in COORDINATOR_TOPICS:  # even while it is empty, because the coordinators have it open
            raise RequestError(ErrorCode.policy_violation, f"topic {topic.name!r} is in use by the gateway")
        mutations.record(len(topic.partitions))
        delete_topic(manager, topic.name)
    except Exception as error:
        return {**given, "error_code": code_of(error), "error_message": message_of(error)}
    finally:
        if known is not None:
            context.partitions.reopen_topic(known.name)
    return {**given, "topic_id": topic.id}


def _no_topic(given: Mapping[str, Any]) -> RequestError:
    if given["topic_id"] is not None:
        return RequestError(ErrorCode.unknown_topic_id, "there is no topic with this id")
    return RequestError(ErrorCode.unknown_topic_or_partition, "there is no topic of this name")


# --- CreatePartitions


def create_partitions(request: Request, context: Context) -> None:
    """Adds partitions to topics."""
    body, mutations = request.body, context.mutations(request, STRICT_ENLARGING)
    times = Counter(each.name for each in body.topics)

    def result(manager: LogManager, asked: Any) -> Mapping[str, Any]:
        if times[asked.name] > 1:
            return {"name": asked.name, "error_code": ErrorCode.invalid_request, "error_message": _TWICE}
        return _enlarge(manager, context, asked, mutations, is_dry=body.validate_only)

    def task(manager: LogManager) -> Mapping[str, Any]:
        return {"results": [result(manager, each) for each in {each.name: each for each in body.topics}.values()]}

    _worker(context, sum(each.count for each in body.topics)).answer(request, task)


def _enlarge(
    manager: LogManager, context: Context, asked: Any, mutations: Mutations, *, is_dry: bool
) -> Mapping[str, Any]:
    try:
        topic = manager.topic(asked.name)
        if asked.count - len(topic.partitions) > PARTITIONS_MAX:
            raise _too_many()
        if asked.count <= len(topic.partitions):
            raise RequestError(
                ErrorCode.invalid_partitions,
                f"the topic has {len(topic.partitions)} partitions already, so it cannot get {asked.count}",
            )
        if asked.assignments is not None:
            if len(asked.assignments) != asked.count - len(topic.partitions):
                raise RequestError(ErrorCode.invalid_replica_assignment, "give one assignment for each new partition")
            given = enumerate((each.broker_ids for each in asked.assignments), len(topic.partitions))
            check_replicas(context.cluster, asked.name, given)
        mutations.record(asked.count - len(topic.partitions))
        add_partitions(manager, asked.name, asked.count, dry_run=is_dry)
    except Exception as error:
        return {"name": asked.name, "error_code": code_of(error), "error_message": message_of(error)}
    return {"name": asked.name}


# --- DeleteRecords


def delete_records(request: Request, context: Context) -> None:
    """Deletes records by raising log start offsets."""
    body = request.body
    led = context.partitions.led({TopicPartition(t.name, p.partition_index) for t in body.topics for p in t.partitions})

    def task(_: LogManager) -> Mapping[str, Any]:
        return {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        _cut(topic.name, each, led[TopicPartition(topic.name, each.partition_index)])
                        for each in topic.partitions
                    ],
                }
                for topic in body.topics
                if topic.partitions  # a broker answers by partition
            ]
        }

    context.workers.admin.answer(request, task)


def _cut(topic: str, asked: Any, led: LedPartition | Exception) -> Mapping[str, Any]:
    try:
        if isinstance(led, Exception):
            raise led
        if topic in INTERNAL_TOPICS:
            raise RequestError(ErrorCode.invalid_topic_exception)
        start = led.delete_records(asked.offset)
    except Exception as error:
        return {"partition_index": asked.partition_index, "low_watermark": -1, "error_code": code_of(error)}
    return {"partition_index": asked.partition_index, "low_watermark": start}
