"""Click through the page of a log in a real browser, while records are appended and segments are deleted.

The page is served by ``commitlog browse`` in a process of its own, from a directory with up to 1,000 partitions and
10,000 segments, fewer for a short run. A case is a tab of Debian's Chromium that opens the list of topics, and then
follows links, presses keys, searches, stops searches and goes back, as chance has it. A fault is an answer of the
server's own errors, an error of the page's script, and memory that grows: the server's at the end, compared with that
after :data:`WARM` clicks. The last line, and the one of each minute, has the memory of both.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from pyspark_commitlog.storage import (
    LogManager,
    MaintenanceRun,
    Records,
    in_this_process,
    retain_partitions,
    select_partitions,
)
from tests.support.browse_server import browse_server, own_bytes
from tests.support.chromium import chromium
from tests.support.logs.building import now_ms
from tests.torture.suite import Run, Suite, quiet

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Response

PARTITIONS, SEGMENTS = 1_000, 9  # closed segments of each; another topic has one partition with PARTITIONS of them
CLICKS = 30  # of a case
WARM = 500  # clicks after which memory should not grow
GROWTH, SLACK_MB = 1.15, 20
TIMEOUT_MS = 300_000  # a search of all partitions, on a machine that does other things too
NOT_PAGES = re.compile(r"/records/\d+/(key|value)")  # what a browser saves
QUIET_TOPICS = {"file.delete.delay.ms": "0", "retention.ms": "-1"}
PASSING = {**QUIET_TOPICS, "retention.bytes": "20000"}


def run(run: Run) -> None:
    directory = run.directory / "log"
    with LogManager.open(str(directory), create=True) as manager, quiet():
        _write(manager, min(PARTITIONS, max(2, run.count // CLICKS)))
        with browse_server(directory) as (root, server), chromium() as browser:
            _click(run, manager, browser, root, (server, _process_of_browser()))


def _click(run: Run, manager: LogManager, browser: Browser, root: str, processes: tuple[int, int]) -> None:
    server, of_browser = processes
    warm: int | None = None
    for case in run.cases():
        with run.watching(case):
            _append(manager, "passing", case.number)
            _retain(manager)
            _visit(run, browser, root, case.chance)
        run.passed(CLICKS)
        run.notes |= {"MB of the server": _megabytes(server), "MB of the browser": _megabytes(of_browser)}
        if warm is None and run.done >= WARM:
            warm = run.notes["MB of the server"]
    if warm is not None and _megabytes(server) > warm * GROWTH + SLACK_MB:
        run.fault(run.case(run.first), f"{warm} MB of the server became {_megabytes(server)}")


def _write(manager: LogManager, partitions: int) -> None:
    for topic, count, segments in (("many", partitions, SEGMENTS), ("large", 1, partitions), ("passing", 1, 3)):
        manager.create_topic(topic, partitions=count, configs=PASSING if topic == "passing" else QUIET_TOPICS)
        for partition in range(count):
            for number in range(segments):
                _append(manager, topic, number, partition)
        manager.close_logs([topic])


def _append(manager: LogManager, topic: str, number: int, partition: int = 0) -> None:
    """Appends a few records, in a segment that is closed."""
    values: list[bytes | None] = [b'{"order": %d, "product": "tea"}' % row for row in range(20)]
    log = manager.open_log(topic, partition)
    log.append_records(Records.to_append([b"%d" % number] * len(values), values, now_ms()), sync=False)
    log.roll()


def _retain(manager: LogManager) -> None:
    maintenance = MaintenanceRun(manager.directory)
    selection = select_partitions(manager, ("passing",), maintenance.overrides)
    list(retain_partitions(maintenance, selection, in_this_process))


# A visit


def _visit(run: Run, browser: Browser, root: str, chance: Random) -> None:
    """Opens a tab and clicks. Raises AssertionError with what went wrong, and the way to it."""
    context = browser.new_context()
    complaints, way = list[str](), list[str]()
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("response", lambda answer: complaints.append(f"{answer.status}: {answer.url}") if _fails(answer) else None)
    try:
        page.goto(root)
        for _ in range(CLICKS):
            chance.choices(ACTIONS, WEIGHTS)[0](page, root, chance)
            way.append(page.url.removeprefix(root))
            _settle(page, chance)
        assert complaints == []
        run.note("visits")
    except Exception as error:
        raise AssertionError(f"{complaints} after {way[-5:]}") from error
    finally:
        context.close()


def _fails(answer: Response) -> bool:
    return answer.status >= 500


def follow(page: Page, root: str, chance: Random) -> None:
    """Clicks a link; a page without links to others is left by way of the list of topics."""
    links = page.locator("main a[href^='/'], nav a")
    there: list[str] = links.evaluate_all("all => all.map(link => link.getAttribute('href'))")
    pages = [number for number, to in enumerate(there) if not NOT_PAGES.search(to)]
    if not pages:
        page.goto(root)
        return
    with page.expect_navigation(wait_until="commit"):
        links.nth(chance.choice(pages)).evaluate("link => link.click()")


def press(page: Page, root: str, chance: Random) -> None:
    """Presses a key; those for links lead to another page if there is such a link."""
    key, relation = chance.choice((("n", "next"), ("p", "prev"), ("u", "up"), ("/", "search")))
    if page.locator(f"a[rel={relation}]").count() == 0:
        page.keyboard.press(key)
        return
    page.locator("h1").first.click()
    with page.expect_navigation(wait_until="commit"):
        page.keyboard.press(key)


def find(page: Page, root: str, chance: Random) -> None:
    """Searches a topic, as far as :func:`_settle` lets it."""
    topic, words = chance.choice(("many", "large", "passing")), chance.choice(("tea", "7", "none of them"))
    page.goto(f"{root}/topics/{topic}/find")
    page.locator("input[name=contains]").fill(words)
    if chance.random() < 0.3:
        page.locator("input[name=follow]").check()
    with page.expect_navigation(wait_until="commit"):
        page.locator("main form button").first.click()


def back(page: Page, root: str, chance: Random) -> None:
    page.go_back(wait_until="commit")


ACTIONS = (follow, press, find, back)
WEIGHTS = (80, 10, 5, 5)


def _settle(page: Page, chance: Random) -> None:
    """Waits for all of a page; stops a search that follows its topic, which never ends, and every second other one."""
    stop, is_found = page.locator("[data-stop]"), re.search(r"/find\?", page.url)
    if is_found and stop.is_disabled():  # by an earlier action; this one has led nowhere
        return
    if is_found and ("follow=" in page.url or chance.random() < 0.5):
        stop.wait_for(state="attached")
        stop.evaluate("button => button.click()")  # also if the search has just ended, which hides it
    else:
        page.wait_for_load_state("domcontentloaded")


# The processes


def _process_of_browser() -> int:
    """Returns the id of the process that is the parent of all of Chromium's."""
    [process] = [each for each in _children(os.getpid()) if "playwright" in _command(each)]
    return process


def _children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(each) for task in tasks for each in task.read_text().split()]


def _command(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")


def _megabytes(process: int) -> int:
    """Memory that is a process's own, and that of its children."""
    try:
        return own_bytes(process) // 2**20 + sum(map(_megabytes, _children(process)))
    except (FileNotFoundError, ProcessLookupError):
        return 0


SUITE = Suite("clicks", 100_000, run)
