"""The topics of a log, and the partitions of a topic."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ...storage import (
    INTERNAL_TOPICS,
    DescribedSetting,
    LogFigures,
    LogStoreError,
    SegmentDescription,
    TopicDescription,
    TopicPartition,
    described_settings,
    log_figures,
)
from ..browser import Browser, number_in
from ..drawing import line, rates
from ..logs import Look, OpenLog

PAGE_TOPICS = 100
PLOT_WIDTH, PLOT_HEIGHT = 96, 18
PAGE_PARTITIONS = 200
SECONDS_MAX = 0.6  # time limit for opening logs that no page has opened yet; the rest have figures at a later request


class Figured(NamedTuple):
    """A log with its figures, or the error; if both are None, it was not opened in time."""

    partition: TopicPartition
    figures: LogFigures | None = None
    segments: Sequence[SegmentDescription] = ()
    error: str = ""

    @property
    def newest_ms(self) -> int:
        """The largest timestamp of the log; -1 if no record has one."""
        return max((each.largest_timestamp for each in self.segments), default=-1)


@dataclass
class TopicRow:
    """A row of the list of topics: sums over the partitions whose figures are known."""

    topic: TopicDescription
    logs: list[Figured] = field(default_factory=list)

    @property
    def is_internal(self) -> bool:
        return self.topic.name in INTERNAL_TOPICS

    @property
    def known(self) -> list[LogFigures]:
        return [each.figures for each in self.logs if each.figures is not None]

    @property
    def size(self) -> int:
        return sum(each.size for each in self.known)

    @property
    def offsets(self) -> int:
        return sum(each.log_end_offset - each.log_start_offset for each in self.known)

    @property
    def held_back(self) -> int:
        """Offsets that readers of committed records cannot read yet."""
        return sum(each.log_end_offset - each.last_stable_offset for each in self.known)

    @property
    def newest_ms(self) -> int:
        return max((each.newest_ms for each in self.logs), default=-1)

    @property
    def plot(self) -> str:
        """The offsets appended over time, as the points of a line; empty if that is not known."""
        found = rates(each.segments for each in self.logs)
        return line(found, PLOT_WIDTH, PLOT_HEIGHT) if found else ""

    @property
    def errors(self) -> list[str]:
        return [each.error for each in self.logs if each.error]

    @property
    def unread(self) -> int:
        """Partitions that were not opened in time."""
        return sum(each.figures is None and not each.error for each in self.logs)


def topics(browser: Browser, request: Request) -> Response:
    """Shows one page of the topics whose names contain the search text."""
    query = request.query_params
    wanted, first = query.get("q", "").strip(), number_in(query, "from") or 0
    with browser.logs.open() as log:
        found = [each for each in _sorted(log.manager.topics()) if wanted in each.name]
        shown = found[first : first + PAGE_TOPICS]
        logs = _figured(log, [each for topic in shown for each in topic.topic_partitions])
    rows = [TopicRow(topic, [logs[each] for each in topic.topic_partitions]) for topic in shown]
    return browser.render(
        "topics.html", query, rows=rows, wanted=wanted, first=first, total=len(found), page_size=PAGE_TOPICS
    )


def topic(browser: Browser, request: Request) -> Response:
    """Shows the partitions of a topic."""
    query, name = request.query_params, request.path_params["topic"]
    first = number_in(query, "from") or 0
    with browser.logs.open() as log:
        found = log.manager.topic(name)
        shown = found.topic_partitions[first : first + PAGE_PARTITIONS]
        logs = _figured(log, shown)
        failures = list[LogStoreError]()
        groups = [each.name for each in log.lags.groups(failures) if any(key.topic == name for key in each.offsets)]
    row = TopicRow(found, [logs[each] for each in shown])
    return browser.render(
        "topic.html",
        query,
        topic=found,
        row=row,
        groups=groups,
        failures=[*row.errors, *map(str, failures)],
        settings=[(each, _origin(each)) for each in described_settings(found)],
        is_known=found.known.value == "all",
        first=first,
        total=len(found.partitions),
        page_size=PAGE_PARTITIONS,
    )


def _origin(setting: DescribedSetting) -> str:
    if setting.own is not None:
        return "this topic"
    if setting.for_all:
        return f"all topics: {', '.join(f'{name}={value}' for name, value in setting.for_all.items())}"
    return "default"


def _sorted(topics: Mapping[str, TopicDescription]) -> list[TopicDescription]:
    """Returns the topics by name, the internal ones last."""
    return sorted(topics.values(), key=lambda each: (each.name in INTERNAL_TOPICS, each.name))


def _figured(log: OpenLog, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Figured]:
    """Returns the figures of all logs that were opened before, and of as many others as there is time for.

    Opening a log takes longer than reading what was appended to it since, so each request knows more.
    """
    spent_s, found, look = 0.0, dict[TopicPartition, Figured](), log.looking()
    for each in partitions:
        is_new, begin = each not in log.opened, time.monotonic()
        if is_new and spent_s > SECONDS_MAX:
            found[each] = Figured(each)
            continue
        found[each] = _figures(look, each)
        log.opened.add(each)
        spent_s += time.monotonic() - begin if is_new else 0
    return found


def _figures(look: Look, partition: TopicPartition) -> Figured:
    try:
        with look(partition) as opened:
            figures = log_figures(partition, opened)
            return Figured(partition, figures, opened.describe_segments())
    except LogStoreError as error:
        return Figured(partition, error=str(error))
