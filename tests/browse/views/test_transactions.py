"""Open transactions on the page."""

from __future__ import annotations

from pathlib import Path

from tests.support.browse import Visitor, visiting
from tests.support.logs.building import end_transaction, write_transactional
from tests.support.logs.directories import managed


def test_an_open_transaction_leads_to_its_records(visitor: Visitor) -> None:
    page = visitor.get("/transactions")
    assert "payments-0 , from offset 6 , holds back 1 offsets" in page.text
    assert "open transaction from offset 6" in visitor.get(page.links["payments-0"]).text
    records = visitor.get(page.links["offset 6"])
    assert "undecided" in records.text
    assert "read_uncommitted" in page.links["offset 6"]


def test_a_log_that_cannot_be_read_is_named_within_the_page(tmp_path: Path) -> None:
    with managed(tmp_path / "log") as manager:
        manager.create_topic("t", partitions=1)
    with visiting(tmp_path / "log") as visitor:
        (tmp_path / "log").rename(tmp_path / "elsewhere")
        page = visitor.get("/transactions")
        assert (page.status, "What could not be read" in page.text) == (200, True)
        assert "Read only." in page.text  # the page is whole


def test_what_began_and_ended_since_the_last_look_is_seen(tmp_path: Path) -> None:
    with managed(tmp_path / "log") as manager:
        manager.create_topic("t", partitions=2)
        log = manager.open_log("t", 1)
        with visiting(tmp_path / "log") as visitor:
            assert "No transaction is open" in visitor.get("/transactions").text
            write_transactional(log, 7, 0, b"x")
            assert "t-1 , from offset 0" in visitor.get("/transactions").text
            end_transaction(log, 7, commit=True)
            assert "No transaction is open" in visitor.get("/transactions").text
