"""Finding records on the page: what is asked for, what is found, and a page that is left."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

from pyspark_commitlog.browse.decoding import AvroText
from pyspark_commitlog.storage import LogManager, delete_topic
from tests.support.browse import HOSTILE, SCRIPT, Visitor, visiting
from tests.support.logs.building import append, end_transaction, write_transactional
from tests.support.logs.directories import managed


def found(visitor: Visitor, topic: str = "orders", **asked: str) -> str:
    answer = visitor.get(f"/topics/{topic}/find?{urlencode(asked)}")
    assert answer.status == 200
    return answer.text.partition(" Found ")[2]


def test_records_are_found_and_lead_to_their_pages(visitor: Visitor) -> None:
    page = visitor.get("/topics/orders/find?contains=%22order%22%3A+7%2C&value=text")
    assert "The search has ended: all of it was searched." in page.text
    assert '{"order": 7, "product": "tea"}' in page.text
    (link,) = [to for text, to in page.links.items() if ", offset " in text]
    assert "value=text" in link
    assert '{"order": 7, "product": "tea"}' in visitor.get(link).text


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({"k": "customer-7"}, 1),
        ({"k": "customer-7", "all": "1"}, 2),
        ({"prefix": "customer-8"}, 11),
        ({"prefix": "customer-8", "contains": '"order": 26'}, 2),
        ({"contains": "no such text"}, 0),
        ({"start": "98"}, 6),
        ({"start": "2023-11-14T23:12", "end": "99"}, 4),
    ],
)
def test_all_that_is_given_must_fit(visitor: Visitor, asked: dict[str, str], count: int) -> None:
    assert found(visitor, **asked).count(", offset ") == count


def test_the_newest_are_found_first(visitor: Visitor) -> None:
    text = found(visitor, prefix="customer-8", newest="1")
    assert text.index("customer-87") < text.index("customer-80") < text.index("customer-86")
    assert text.index("orders-2") < text.index("orders-1")


def test_hostile_values_that_are_found_are_text(visitor: Visitor) -> None:
    page = visitor.get(f"/topics/hostile/find?{urlencode({'contains': '<script>'})}")
    assert SCRIPT in page.text
    assert "<script>document" not in page.html
    assert found(visitor, "hostile", header="origin=web").count(", offset ") == len(HOSTILE)


@pytest.mark.parametrize(
    ("asked", "status"),
    [({"header": "no equals sign"}, 400), ({"start": "yesterday"}, 400), ({"start": "9", "end": "3"}, 400), ({}, 200)],
)
def test_a_question_that_cannot_be_read_is_refused(visitor: Visitor, asked: dict[str, str], status: int) -> None:
    answer = visitor.get(f"/topics/orders/find?{urlencode(asked)}")
    assert (answer.status, "Found" in answer.text) == (status, False)
    assert visitor.get("/topics/nothing/find").status == 404


def test_a_search_ends_when_its_page_is_left(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread would wait for a reader of its records otherwise."""
    monkeypatch.setattr("pyspark_commitlog.browse.searching.WAITING_MAX", 1)
    connection = http.client.HTTPConnection(*visitor.address, timeout=60)
    connection.request("GET", "/topics/orders/find?prefix=customer")
    answer = connection.getresponse()
    answer.read(10)
    connection.close()
    answer.close()
    until = time.monotonic() + 30
    while time.monotonic() < until and any(each.name == "browse-search" for each in threading.enumerate()):
        time.sleep(0.05)
    assert not any(each.name == "browse-search" for each in threading.enumerate())


def test_a_schema_registry_that_does_not_answer_holds_up_only_the_pages_that_need_it(tmp_path: Path) -> None:
    asked, answered, waited = threading.Event(), threading.Event(), list[bool]()

    def ask_slowly(_: bytes) -> AvroText:
        asked.set()
        waited.append(answered.wait(20))
        return AvroText('{"a": 1}', "schema id 7")

    with managed(tmp_path / "log") as manager:
        manager.create_topic("t", partitions=1)
        append(manager.open_log("t", 0), b"\0\0\0\0\7\2")
    with (
        visiting(tmp_path / "log", decode_avro=ask_slowly) as visitor,
        opened(visitor, "/topics/t/find?start=0") as page,
    ):
        assert asked.wait(60)
        assert visitor.get("/").status == 200
        answered.set()
        page.read_until("schema id 7")
    assert waited == [True]


# New records too

WAITS = "waiting for new records"


class Page:
    """A page that grows, as far as it was read."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self._answer, self.html = answer, ""

    def read_until(self, text: str, times: int = 1) -> None:
        until = time.monotonic() + 60
        while self.html.count(text) < times:
            assert time.monotonic() < until, self.html[-2000:]
            chunk = self._answer.read1(1 << 16)
            assert chunk, f"the page ended before {text!r}: {self.html[-2000:]}"
            self.html += chunk.decode()


@contextmanager
def opened(visitor: Visitor, path: str) -> Iterator[Page]:
    connection = http.client.HTTPConnection(*visitor.address, timeout=60)
    try:
        connection.request("GET", path)
        yield Page(connection.getresponse())
    finally:
        connection.close()


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[tuple[Visitor, LogManager]]:
    """Topic t, of two partitions, which tests append to while its page is open."""
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=2)
        append(manager.open_log("t", 0), b"old apple", b"old pear")
        with visiting(tmp_path / "log") as visitor:
            yield visitor, manager


def test_new_records_are_added_below_those_that_were_found(growing: tuple[Visitor, LogManager]) -> None:
    visitor, manager = growing
    with opened(visitor, "/topics/t/find?contains=apple&follow=1") as page:
        page.read_until(WAITS)
        append(manager.open_log("t", 1), b"new apple", b"new pear")
        page.read_until("new apple")
        append(manager.open_log("t", 0), b"newest apple")
        page.read_until("newest apple")
    assert page.html.count("old apple") == page.html.count("new apple") == page.html.count("newest apple") == 1
    assert "pear" not in page.html
    assert page.html.index("old apple") < page.html.index("new apple") < page.html.index("newest apple")


def test_without_a_question_only_new_records_are_shown_once_they_are_committed(
    growing: tuple[Visitor, LogManager],
) -> None:
    visitor, manager = growing
    with opened(visitor, "/topics/t/find?follow=1") as page:
        page.read_until(WAITS)
        log = manager.open_log("t", 0)
        write_transactional(log, 7, 0, b"withdrawn")
        end_transaction(log, 7, commit=False)
        write_transactional(log, 7, 1, b"kept")
        append(manager.open_log("t", 1), b"plain")
        page.read_until("plain")
        assert "kept" not in page.html
        end_transaction(log, 7, commit=True)
        page.read_until("kept")
    assert "old apple" not in page.html
    assert "withdrawn" not in page.html


def test_a_page_that_follows_a_topic_ends_when_it_is_made_again(growing: tuple[Visitor, LogManager]) -> None:
    visitor, manager = growing
    with opened(visitor, "/topics/t/find?contains=apple&follow=1") as page:
        page.read_until(WAITS)
        delete_topic(manager, "t")
        manager.create_topic("t", partitions=2)
        append(manager.open_log("t", 0), *[b"new apple %d" % number for number in range(5)])
        page.read_until("The search failed: ")
    assert "topic t was deleted and made again: it was read with id " in page.html
    assert "new apple" not in page.html


def test_a_page_follows_for_a_while_and_only_some_do(
    growing: tuple[Visitor, LogManager], monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor, _ = growing
    monkeypatch.setattr("pyspark_commitlog.browse.searching._followers", threading.BoundedSemaphore(1))
    with opened(visitor, "/topics/t/find?follow=1") as page:
        page.read_until(WAITS)
        assert "pages follow topics already" in visitor.get("/topics/t/find?follow=1").text
    until = time.monotonic() + 30  # the first page was left
    monkeypatch.setattr("pyspark_commitlog.browse.searching.FOLLOWED_S", 0.0)
    text = ""
    while "followed the topic for 0 seconds: load it again" not in text and time.monotonic() < until:
        text = visitor.get("/topics/t/find?follow=1").text
    assert "followed the topic for 0 seconds: load it again" in text


def test_a_followed_topic_has_the_link_that_the_page_of_the_topic_gives(visitor: Visitor) -> None:
    assert visitor.get("/topics/orders").links["Follow new records"] == "/topics/orders/find?follow=1"
