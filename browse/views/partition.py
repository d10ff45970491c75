"""One partition: its segments to scale, why each is kept and until when, and what holds readers back."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from ...storage import PartitionDescription, TopicPartition, describe_partition
from ..browser import Browser, number_in
from ..drawing import WIDTH, drawing_of

PAGE_SEGMENTS = 100


def partition(browser: Browser, request: Request) -> Response:
    """Shows the segments of a partition; without ``from``, the last ones."""
    query, key = request.query_params, partition_in(request.path_params)
    with browser.logs.open() as log:
        found = describe_partition(log.manager, *key)
        positions = {group.name: group.offsets[key].offset for group in log.lags.groups([]) if key in group.offsets}
    fates = found.retention.plan.fates
    first = number_in(query, "from")
    first = max(len(fates) - PAGE_SEGMENTS, 0) if first is None else first
    return browser.render(
        "partition.html",
        query,
        key=key,
        found=found,
        facts=found.retention.plan.facts,
        plan_lines=_plan(found),
        drawing=drawing_of(found, positions),
        width=WIDTH,
        positions=positions,
        fates=fates[first : first + PAGE_SEGMENTS],
        first=first,
        total=len(fates),
        page_size=PAGE_SEGMENTS,
    )


def _plan(found: PartitionDescription) -> list[str]:
    """Returns one sentence each about the next retention and the next compaction."""
    report = str(found.retention).splitlines()[0].partition(": ")[2]
    retention = [f"Retention: {report}.", *(f"Retention warns: {each}." for each in found.retention.plan.warnings)]
    compaction = found.compaction_text
    return [*retention, f"Compaction: {compaction or 'none, because cleanup.policy has no compact'}."]


def partition_in(path: Mapping[str, object]) -> TopicPartition:
    """Returns the partition that a path names."""
    return TopicPartition(str(path["topic"]), int(str(path["partition"])))
