"""All views over HTTP: links that lead somewhere, hostile contents as text, and what an error shows and logs."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from pyspark_commitlog.browse.decoding import AvroText
from pyspark_commitlog.browse.views import topics
from tests.support.browse import HOSTILE, LONGEST, SCRIPT, Visitor, visiting
from tests.support.kafka.broker_dirs import legacy, oldest
from tests.support.logs.building import append
from tests.support.logs.directories import managed
from tests.support.stores.filled import write_pairs
from tests.support.stores.filling import make_topic
from tests.support.stores.served import ServedStores

PAGES_MIN = 60


class Checked(HTMLParser):
    """Collects what a browser would load, run or follow."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.followed: set[str] = set()
        self.scripts: list[tuple[str, str | None]] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.attributes |= given.keys()
        if tag == "script":
            self.scripts.append((str(given.get("src")), None))
        if tag in ("a", "link", "form"):
            self.followed.add(str(given.get("href") or given.get("action")))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(autouse=True)
def followed_pages_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the pages end that go on with new records, so that their links can be followed too."""
    monkeypatch.setattr("pyspark_commitlog.browse.searching.FOLLOWED_S", 0)


def without_page(link: str) -> str:
    """The link without what turns pages, so that there are few."""
    parts = urlsplit(link)
    kept = [pair for pair in parse_qsl(parts.query) if pair[0] not in ("before", "offset", "from", "isolation")]
    return parts._replace(query=urlencode(kept)).geturl()


def visited(visitor: Visitor) -> set[str]:
    """Follows all links but those that only turn pages, from the first page on; checks each page, returns the paths."""
    waiting, seen = ["/"], set[str]()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        answer = visitor.get(path)
        assert answer.status == 200, f"{path}: {answer.text[:500]}"
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        found = Checked(answer.html)
        assert found.scripts == [("/static/keys.js", None)], path
        assert not any(name.startswith("on") or name == "style" for name in found.attributes), path
        followed = found.followed - {"#content"}
        assert all(each.startswith("/") and not each.startswith("//") for each in followed), path
        following = {without_page(each) for each in followed}
        waiting += [each for each in following if each not in seen and each not in waiting]
    return seen


def test_every_link_of_every_page_leads_to_a_page_that_runs_nothing_of_a_record(visitor: Visitor) -> None:
    assert len(visited(visitor)) > PAGES_MIN


@pytest.mark.parametrize(
    "directory",
    [
        pytest.param(oldest, id="Kafka 0.8.2"),
        pytest.param(
            lambda: legacy() / "log", id="Kafka 2.8.2", marks=pytest.mark.only_all
        ),  # has a hundred partitions
    ],
)
def test_a_brokers_directory_has_its_pages_and_stays_as_it_is(directory: Callable[[], Path]) -> None:
    before = {path: path.stat().st_mtime_ns for path in directory().rglob("*")}
    with visiting(directory()) as visitor:
        seen = visited(visitor)
    assert sum(path.endswith("/records") for path in seen) >= 1
    assert {path: path.stat().st_mtime_ns for path in directory().rglob("*")} == before


def test_a_log_on_an_object_store_has_its_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "s3://memory/logs"
    log = ServedStores(monkeypatch).create(url)
    make_topic(log, "events")
    write_pairs(log, (b"key", b"a value in a bucket"), topic="events")
    with visiting(url) as visitor:
        assert "/topics/events/0/records" in visited(visitor)
        assert "a value in a bucket" in visitor.get("/topics/events/0/records").text
        write_pairs(log, (b"key", b"a later value"), topic="events")
        assert "a later value" in visitor.get("/topics/events/0/records").text
        assert "a later value" in visitor.get("/topics/events/find?contains=later").text.partition(" Found ")[2]


def test_hostile_values_are_shown_as_text(visitor: Visitor) -> None:
    page = visitor.get("/topics/hostile/0/records?offset=0")
    assert len(page.body) < 100_000
    for name in HOSTILE:
        assert name in page.text
    assert SCRIPT in Checked(page.html).text
    assert "\\x1b[31mred\\x07\\x08" in page.text
    assert "abc\\u202egnp.exe" in page.text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", page.html)


def test_the_longest_name_of_a_topic_has_its_pages(visitor: Visitor) -> None:
    for path in (f"/topics/{LONGEST}", f"/topics/{LONGEST}/0", f"/topics/{LONGEST}/0/records"):
        assert visitor.get(path).status == 200


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/topics/order", 404, "no topic 'order'"),
        ("/topics/orders/9", 404, "has partitions [0, 1, 2], but not 9"),
        ("/topics/orders/-1", 404, "There is no such page."),
        ("/topics/orders/0/records/100", 404, "has no record at offset 100"),
        ("/topics/payments/0/records/2", 404, "a transaction's marker is there"),
        ("/topics/payments/0/records/0/key", 404, "it is null"),
        ("/topics/payments/0/records/0/nothing", 404, "it is null"),
        ("/topics/orders/0/records?offset=-5", 400, "offset = '-5': it must be a number"),
        ("/topics/orders/0/records?offset=99999999999999999999", 400, "at most 9,223,372,036,854,775,807"),
        ("/topics/orders/0/records?limit=1000000", 400, "it must be one of"),
        ("/topics/orders/0/records?since=yesterday", 400, "since: 'yesterday' is neither ISO 8601"),
        ("/topics/orders/0/records?value=xml", 400, "the formats are auto, json, avro, text, hex"),
        ("/topics/orders/0/records?isolation=%3Cscript%3E", 400, "<script>"),
        ("/topics/..%2f..%2fetc", 404, "There is no such page."),
        ("/static/../config.py", 404, ""),
        ("/static/%2e%2e/config.py", 404, ""),
    ],
)
def test_a_wrong_link_says_what_is_wrong(visitor: Visitor, path: str, status: int, message: str) -> None:
    answer = visitor.get(path)
    assert answer.status == status
    assert message in answer.text
    assert "<script>" not in answer.html.replace('<script src="/static/keys.js" async></script>', "")


def test_a_value_of_avro_is_shown_with_its_schema(tmp_path: Path) -> None:
    with managed(tmp_path / "log") as manager:
        manager.create_topic("t", partitions=1)
        append(manager.open_log("t", 0), b"\0\0\0\0\7\2")
    with visiting(tmp_path / "log", decode_avro=lambda _: AvroText('{"a": 1}', "schema id 7")) as visitor:
        assert 'avro: schema id 7 {"a": 1}' in visitor.get("/topics/t/0/records").text
        assert 'schema id 7 {"a": 1}' in visitor.get("/topics/t/0/records/0").text.replace('{ "a": 1 }', '{"a": 1}')


def test_a_fault_of_ours_shows_and_logs_nothing_of_a_record(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("the value was PIN " + str(4700 + 11))

    monkeypatch.setattr(topics, "_figured", fail)
    with caplog.at_level(logging.DEBUG):
        answer = visitor.get("/?q=PIN+4711")
    assert answer.status == 500
    assert "ZeroDivisionError" in answer.text
    logged = "\n".join(each.getMessage() for each in caplog.records)
    assert "in topics" in logged
    assert "4711" not in logged


def test_damage_is_named_on_the_page_with_the_records_around_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with managed(path) as manager:
        manager.create_topic("t", partitions=2)
        for value in (b"first", b"second", b"third"):
            append(manager.open_log("t", 0), value)
    file = path / "t-0" / f"{0:020}.log"
    file.write_bytes(file.read_bytes().replace(b"second", b"sec*nd"))
    with visiting(path) as visitor:
        page = visitor.get("/topics/t/0/records?offset=0")
        assert (page.status, "first" in page.text, "third" in page.text) == (200, True, True)
        assert f"{0:020}.log" in page.text
        assert visitor.get("/topics/t/0/records/1").status == 500
        assert visitor.get("/topics/t/1").status == 200
