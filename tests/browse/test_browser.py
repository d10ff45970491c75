"""All views in a real browser: both themes, two widths, by keyboard alone, with contents that try to run.

``make test-all`` runs this, with Debian's Chromium; the rules of accessibility are those of axe-core, from npm. With
``COMMITLOG_SCREENSHOTS`` a folder, the pages are saved there as pictures.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.gateway.clients.programs import printed, program
from tests.support.browse import LONGEST, SCRIPT, Visitor
from tests.support.chromium import chromium as started_chromium

pytestmark = [pytest.mark.only_all, pytest.mark.slow]

FETCH_TIMEOUT_S = 300
SCREENSHOTS = os.environ.get("COMMITLOG_SCREENSHOTS")
SEVERE = ("serious", "critical")
VIEWS = {
    "topics": "/",
    "topic": "/topics/orders",
    "longest": f"/topics/{LONGEST}",
    "partition": "/topics/orders/0",
    "compacted": "/topics/changes/0",
    "records": "/topics/orders/0/records",
    "hostile": "/topics/hostile/0/records?offset=0",
    "hex": "/topics/hostile/0/records?offset=0&value=hex",
    "script": "/topics/hostile/0/records/0",
    "large": "/topics/hostile/0/records/12",
    "aborted": "/topics/payments/0/records?isolation=read_uncommitted",
    "find": "/topics/orders/find",
    "found": f"/topics/hostile/find?{urlencode({'header': 'origin=web'})}",
    "groups": "/groups",
    "group": f"/group?{urlencode({'name': SCRIPT + chr(27) + '[31m/../x'})}",
    "etl": "/group?name=etl",
    "transactions": "/transactions",
    "maintenance": "/maintenance",
    "error": "/topics/nothing",
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with started_chromium() as started:
        yield started


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script that checks a page."""
    folder = shutil.copytree(Path(__file__).parent / "axe", tmp_path_factory.mktemp("axe") / "axe")
    printed([program("npm", "npm"), "ci", "--no-audit", "--no-fund"], cwd=folder, timeout_s=FETCH_TIMEOUT_S)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()


class Opened:
    """A page of the browser, and what it complained of."""

    def __init__(self, chromium: Any, visitor: Visitor, **settings: Any) -> None:
        self._root = f"http://{visitor.address}"
        self.context = chromium.new_context(**settings)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"a dialog: {dialog.message}"))

    def go(self, path: str) -> None:
        self.page.goto(self._root + path)

    @property
    def path(self) -> str:
        url: str = self.page.url
        return url.removeprefix(self._root)

    def faults(self, axe: str) -> list[str]:
        """What axe finds. Our policy forbids its script in pages, so the browser itself is asked to run it."""
        session = self.context.new_cdp_session(self.page)
        session.send("Runtime.evaluate", {"expression": f"{axe};0"})
        found: list[Mapping[str, Any]] = self.page.evaluate("axe.run(document).then(result => result.violations)")
        return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in SEVERE]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_view_shows_hostile_contents_as_text_and_is_accessible(
    visitor: Visitor, chromium: Any, axe: str, scheme: str, width: int
) -> None:
    opened = Opened(chromium, visitor, color_scheme=scheme, viewport={"width": width, "height": 800})
    for name, path in VIEWS.items():
        opened.go(path)
        if SCREENSHOTS:
            opened.page.screenshot(path=f"{SCREENSHOTS}/{name}-{scheme}-{width}.png")
        assert not opened.page.title().startswith("taken"), name
        assert opened.page.locator("main img").count() == 0, name
        assert opened.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{name} is too wide"
        assert opened.faults(axe) == [], name
    assert opened.complaints == ["Failed to load resource: the server responded with a status of 404 (Not Found)"]
    opened.context.close()


def test_the_page_is_used_by_keyboard_alone(visitor: Visitor, chromium: Any) -> None:
    opened = Opened(chromium, visitor)
    opened.go("/")
    press = opened.page.keyboard.press

    def focused() -> str:
        text: str = opened.page.evaluate("document.activeElement.textContent.trim()")
        return text

    def tab_to(text: str) -> None:
        for _ in range(80):
            press("Tab")
            if focused() == text:
                return
        pytest.fail(f"no Tab leads to {text!r}, the last to {focused()!r}")

    press("Tab")
    assert focused() == "Skip to the content"
    press("/")
    opened.page.keyboard.type("ord")
    press("Enter")
    opened.page.wait_for_url("**/?q=ord")
    tab_to("orders")
    press("Enter")
    opened.page.wait_for_url("**/topics/orders")
    tab_to("Partition 0")
    press("Enter")
    opened.page.wait_for_url("**/topics/orders/0")
    tab_to("Records")
    press("Enter")
    opened.page.wait_for_url("**/records")
    for key, path in (("p", "?before=50"), ("n", "?offset=50"), ("u", "/topics/orders/0"), ("u", "/topics/orders")):
        press(key)
        opened.page.wait_for_url(f"**{path}")
    assert opened.complaints == []
    opened.context.close()


def test_a_form_leaves_out_what_is_empty_and_keeps_the_formats(visitor: Visitor, chromium: Any) -> None:
    opened = Opened(chromium, visitor)
    opened.go("/topics/orders/0/records")
    opened.page.get_by_label("From offset").fill("20")
    opened.page.get_by_label("Values").select_option("hex")
    opened.page.get_by_role("button", name="Show").click()
    opened.page.wait_for_url("**/records?offset=20&value=hex")
    assert "7b 22 6f" in opened.page.inner_text("main")
    opened.page.go_back()
    assert opened.page.get_by_label("From time").is_enabled()
    opened.context.close()


def test_without_scripts_every_view_is_the_same(visitor: Visitor, chromium: Any) -> None:
    opened = Opened(chromium, visitor, java_script_enabled=False)
    opened.go("/topics/orders/find?contains=tea")
    assert "The search has ended: all of it was searched." in opened.page.inner_text("main")
    assert not opened.page.get_by_role("button", name="Stop").is_visible()
    opened.go("/")
    opened.page.get_by_label("Name contains").fill("pay")
    opened.page.get_by_role("button", name="Search").click()
    assert "payments" in opened.page.inner_text("main")
    opened.context.close()


def test_a_search_is_stopped_by_its_button(visitor: Visitor, chromium: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search finds a record every now and then, and has no end."""
    from pyspark_commitlog.browse import searching  # noqa: PLC0415

    put = searching.RunningSearch._put_hit

    def put_slowly(self: searching.RunningSearch, hit: searching.Hit) -> None:
        self._stopped.wait(0.1)
        put(self, hit)

    monkeypatch.setattr(searching.RunningSearch, "_put_hit", put_slowly)
    opened = Opened(chromium, visitor)
    opened.page.goto(f"http://{visitor.address}/topics/orders/find?contains=tea", wait_until="commit")
    opened.page.locator("article").nth(5).wait_for()
    opened.page.get_by_role("button", name="Stop").click()
    opened.page.get_by_role("button", name="Stopped").wait_for()
    count = opened.page.locator("article").count()
    opened.page.wait_for_timeout(1000)
    assert 5 < count == opened.page.locator("article").count() < 300
    opened.context.close()
