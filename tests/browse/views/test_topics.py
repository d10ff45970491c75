"""The list of topics, and a topic: paged, searched, and complete after some requests however many logs there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.browse.views import topics
from pyspark_commitlog.storage import LogManager
from tests.support.browse import Visitor, visiting
from tests.support.logs.building import append


def test_topics_are_searched_by_a_part_of_their_names(visitor: Visitor) -> None:
    assert {"orders", "payments"} <= visitor.get("/").links.keys()
    found = visitor.get("/?q=pay").links
    assert "payments" in found
    assert "orders" not in found
    assert "No topic has this in its name." in visitor.get("/?q=nothing").text


def test_sums_and_what_readers_wait_for_are_in_the_row_of_a_topic(visitor: Visitor) -> None:
    text = visitor.get("/").text
    assert "orders 3 300 18.3 KiB" in text
    assert "payments 1 7 470 bytes 2023-11-14 22:13:20.000 1 offsets held back" in text


def test_each_request_opens_more_logs_until_all_have_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "SECONDS_MAX", 0)
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=4, configs={"segment.index.bytes": "1000"})
        for number in range(4):
            append(manager.open_log("t", number), b"x")
    with visiting(tmp_path / "log") as visitor:
        counts = [visitor.get("/topics/t").text.count("not counted yet") for _ in range(5)]
        assert counts == [3, 2, 1, 0, 0]
        assert "t 4 4" in visitor.get("/").text


def test_topics_and_partitions_have_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "PAGE_TOPICS", 2)
    monkeypatch.setattr(topics, "PAGE_PARTITIONS", 2)
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        for name in ("a", "b", "c"):
            manager.create_topic(name, partitions=3, configs={"segment.index.bytes": "1000"})
    with visiting(tmp_path / "log") as visitor:
        second = visitor.get(visitor.get("/").links["Next"])
        assert ("a" in second.links, "c" in second.links, "Previous" in second.links) == (False, True, True)
        second = visitor.get(visitor.get("/topics/a").links["Next"])
        assert ("Partition 0" in second.links, "Partition 2" in second.links) == (False, True)


def test_a_topic_shows_its_settings_and_who_set_them(visitor: Visitor) -> None:
    page = visitor.get("/topics/orders")
    assert "segment.bytes 2000 default 1073741824 this topic" in page.text
    assert "min.cleanable.dirty.ratio 0.5 default" in page.text


def test_a_topic_names_the_groups_that_read_it(visitor: Visitor) -> None:
    assert "etl" in visitor.get("/topics/orders").links
    assert "etl" not in visitor.get("/topics/changes").links
