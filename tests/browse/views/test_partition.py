"""The page of a partition: what the next maintenance does to its segments, and which groups read it."""

from __future__ import annotations

from pathlib import Path

from pyspark_commitlog.storage import LogManager
from tests.support.browse import Visitor, visiting
from tests.support.logs.building import now_ms, records

OLD_MS = 86_400_000


def test_a_partition_names_the_groups_that_read_it(visitor: Visitor) -> None:
    assert "etl 40" in visitor.get("/topics/orders/0").text


def test_a_partition_shows_what_would_be_deleted_and_until_when_segments_are_kept(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("old", partitions=1, configs={"retention.ms": "1000"})
        log = manager.open_log("old", 0)
        for _ in range(3):
            log.append_records(records([b"x"], keys=[b"key"], timestamps=now_ms() - OLD_MS))
            log.roll()
    with visiting(tmp_path / "log") as visitor:
        page = visitor.get("/topics/old/0")
        assert "Retention: deleting 3 of 4 segments" in page.text
        assert "kept until" in page.text.lower()
    with LogManager.open(str(tmp_path / "log")) as manager, manager.open_reader("old", 0) as reader:
        assert len(reader.segments) == 4
