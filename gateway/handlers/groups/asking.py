"""Functions that all requests about groups use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ....storage import TopicPartition
from ...context import Context
from ...groups import GroupCoordinator
from ...request import Request


def ask(request: Request, context: Context, task: Callable[[GroupCoordinator], None]) -> None:
    """Runs ``task``, which answers the request at once or later, in the coordinator's thread."""
    context.groups.run(request.or_fail(task))


def by_topic(answers: Iterable[tuple[TopicPartition, Mapping[str, Any]]]) -> Sequence[Mapping[str, Any]]:
    """Returns answers for partitions as answers for topics, as most answers have them."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for partition, answer in answers:
        found.setdefault(partition.topic, []).append({"partition_index": partition.partition, **answer})
    return [{"name": topic, "partitions": partitions} for topic, partitions in found.items()]
