"""What the next retention and compaction do, on the page before they do it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.browse.views import maintenance
from pyspark_commitlog.storage import LogManager
from tests.support.browse import Visitor, visiting
from tests.support.logs.building import now_ms, records

OLD_MS = 86_400_000


def test_what_would_be_deleted_or_compacted_is_named_and_the_rest_is_not(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        for name, configs in {
            "old": {"retention.ms": "1000"},
            "kept": {"retention.ms": "-1"},
            "dirty": {"cleanup.policy": "compact"},
        }.items():
            manager.create_topic(name, partitions=1, configs=configs)
            log = manager.open_log(name, 0)
            for _ in range(3):
                log.append_records(records([b"x"], keys=[b"key"], timestamps=now_ms() - OLD_MS))
                log.roll()
    with visiting(tmp_path / "log") as visitor:
        page = visitor.get("/maintenance")
        assert "old-0 3 4 3 -" in page.text
        assert "compaction is due" in page.text
        assert "kept-0" not in page.text
    with LogManager.open(str(tmp_path / "log")) as manager, manager.open_reader("old", 0) as reader:
        assert len(reader.segments) == 4


def test_a_page_ends_after_its_time_and_the_next_goes_on(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "SECONDS_MAX", -1)
    page, seen = visitor.get("/maintenance"), 1
    while "Next" in page.links:
        page, seen = visitor.get(page.links["Next"]), seen + 1
    assert seen == 9  # the partitions of the log
