"""A preview of the next retention and the next compaction."""

from __future__ import annotations

import time
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from ...storage import LogManager, LogStoreError, PartitionDescription, TopicPartition, describe_partition
from ..browser import Browser, number_in

SECONDS_MAX = 0.6  # time limit of a page; the remaining partitions are on the next one
PAGE_PARTITIONS = 500


def maintenance(browser: Browser, request: Request) -> Response:
    """Shows which partitions the next retention or compaction changes, for as many as a page has time to read."""
    query = request.query_params
    first, failures = number_in(query, "from") or 0, list[LogStoreError]()
    with browser.logs.open() as log:
        topics = log.manager.topics()
        partitions = [each for name in sorted(topics) for each in topics[name].topic_partitions]
        seen, found = _described(log.manager, partitions[first : first + PAGE_PARTITIONS], failures)
    return browser.render(
        "maintenance.html",
        query,
        found=[each for each in found if each.retention.plan.removed or (each.cleanable and each.cleanable.is_due)],
        first=first,
        end=first + seen,
        total=len(partitions),
        failures=[*map(str, failures)],
    )


def _described(
    manager: LogManager, partitions: Sequence[TopicPartition], failures: list[LogStoreError]
) -> tuple[int, list[PartitionDescription]]:
    """Returns how many partitions were read in time, and their descriptions."""
    until, found = time.monotonic() + SECONDS_MAX, list[PartitionDescription]()
    for number, each in enumerate(partitions):
        if number and time.monotonic() > until:
            return number, found
        try:
            found.append(describe_partition(manager, *each))
        except LogStoreError as error:
            failures.append(error)
    return len(partitions), found
