"""The page of a log with 1,000 partitions and 10,000 segments: how long its views take, and what clicking costs.

The page runs in its own process, as ``commitlog browse`` starts it. The first view is asked for when the server has
just begun to listen and has read nothing; then come all views in turn. A view's time is that of its whole answer. A
paint is the first with content that Debian's Chromium reports, from the beginning of the navigation on, in a new tab
whose browser has started before. Memory is the process's own (not mapped files), after some clicks and after many more;
``make torture SUITE=browse MINUTES=60`` clicks in Chromium for an hour.
"""

from __future__ import annotations

import http.client
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html import unescape
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from benchmarks.comparison import Comparison, Ratio, Setting
from benchmarks.timing import Timing, time_call
from pyspark_commitlog.storage import LogManager, Records
from tests.support.browse_server import browse_server, own_bytes
from tests.support.chromium import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PARTITIONS, SEGMENTS, LARGE_SEGMENTS = 1_000, 9, 1_000  # of each partition, and of the only one of a second topic
ASKED_S = 1.0
CLICKS = 500
GROWTH = 1.1  # of the memory, over CLICKS more
VIEWS = {
    "a topic of 1,000 partitions": "/topics/many",
    "a partition of 1,000 segments": "/topics/large/0",
    "records": "/topics/many/7/records",
    "groups": "/groups",
    "transactions": "/transactions",
    "maintenance": "/maintenance",
}
PAINTS = "performance.getEntriesByName('first-contentful-paint').map(paint => paint.startTime)"  # ms


def measure(setting: Setting) -> Iterator[Comparison]:
    directory = setting.directory / "log"
    write(directory, setting.sized(PARTITIONS), SEGMENTS, setting.sized(LARGE_SEGMENTS))
    firsts = list[float]()
    for _ in range(setting.rounds):
        with serving(directory) as page:
            firsts.append(time_call(partial(page.get, "/")))
    yield _within(f"first view: the list of topics, {PARTITIONS:,} partitions", Timing.of(firsts))
    yield from _paints(directory, setting.rounds)
    with serving(directory) as page:
        page.get("/")
        for name, path in VIEWS.items():
            page.get(path)
            yield _within(
                f"view: {name}", Timing.of([time_call(partial(page.get, path)) for _ in range(setting.rounds)])
            )
        yield _memory(page, setting.sized(CLICKS))
    shutil.rmtree(directory)


def _paints(directory: Path, rounds: int) -> Iterator[Comparison]:
    firsts = list[float]()
    with chromium() as browser:
        first_paint(browser, "data:text/html,<p>the first page of a browser takes longer")
        for _ in range(rounds):
            with serving(directory) as page:
                firsts.append(first_paint(browser, page.url))
        yield _within("first paint: the list of topics", Timing.of(firsts))
        with serving(directory) as page:
            for name, path in VIEWS.items():
                page.get(path)
                times = [first_paint(browser, page.url + path) for _ in range(rounds)]
                yield _within(f"first paint: {name}", Timing.of(times))


def _within(operation: str, ours: Timing) -> Comparison:
    second = Timing.of([ASKED_S])
    return Comparison(operation, "a second", ours, second, asked=1.0, ratio=Ratio.SLOWER)


def _memory(page: Page, clicks: int) -> Comparison:
    """Clicks links at random, and compares memory after a tenth of the clicks with that after all."""
    chance, path, small = Random(1), "/", 0
    for number in range(clicks + clicks // 10):
        links = [to for to in page.links(path) if "/find" not in to]
        path = chance.choice(links) if links and chance.random() < 0.9 else "/"
        if number == clicks // 10:
            small = page.memory
    ours, theirs = (Timing.of([float(each)]) for each in (page.memory, small))
    name = f"memory after {clicks:,} more clicks"
    return Comparison(name, "before them", ours, theirs, asked=GROWTH, ratio=Ratio.SLOWER, unit="bytes")


def write(directory: Path, partitions: int, segments: int, large: int) -> None:
    """Writes topic ``many``, with so many closed segments a partition, and topic ``large``, of one partition."""
    configs = {"file.delete.delay.ms": "0", "retention.ms": "-1"}
    now_ms = time.time_ns() // 1_000_000
    with LogManager.open(str(directory), create=True) as manager:
        for topic, count, each in (("many", partitions, segments), ("large", 1, large)):
            manager.create_topic(topic, partitions=count, configs=configs)
            for partition in range(count):
                log = manager.open_log(topic, partition)
                for number in range(each):
                    values: list[bytes | None] = [b'{"order": %d, "product": "tea"}' % row for row in range(5)]
                    records = Records.to_append([b"%d" % number] * 5, values, now_ms + number)
                    log.append_records(records, sync=False)
                    log.roll()
                manager.close_logs([topic])


class Page:
    """A served page."""

    def __init__(self, host: str, process_id: int) -> None:
        self._host, self._process_id = host, process_id

    @property
    def url(self) -> str:
        return f"http://{self._host}"

    def get(self, path: str) -> str:
        """Returns a view. Raises ValueError for one that is not shown."""
        connection = http.client.HTTPConnection(self._host, timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read().decode()
        finally:
            connection.close()
        if answer.status != 200:
            raise ValueError(f"{path} was answered with {answer.status}")
        return body

    def links(self, path: str) -> list[str]:
        """Returns the links of a view to other views."""
        found = re.findall(r'<a\b[^>]*?href="(/[^"]*)"', self.get(path))
        return [unescape(to) for to in found if not re.search(r"/records/\d+/(key|value)", to)]

    @property
    def memory(self) -> int:
        """Bytes of memory that are the process's own."""
        return own_bytes(self._process_id)


@contextmanager
def serving(directory: Path) -> Iterator[Page]:
    """Serves the page of a directory in a process of its own."""
    with browse_server(directory) as (url, process):
        yield Page(url.removeprefix("http://"), process)


def first_paint(browser: Browser, url: str) -> float:
    """Seconds from the beginning of a navigation to the first paint with content, in a new tab."""
    tab = browser.new_page()
    try:
        tab.goto(url)
        while not (paints := tab.evaluate(PAINTS)):  # the page forbids functions from text, by which one could wait
            tab.wait_for_timeout(10)
        return float(paints[0]) / 1000
    finally:
        tab.close()
