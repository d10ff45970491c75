"""Groups on the page: their lag, sinks, names that nobody chose well, and what could not be read."""

from __future__ import annotations

from urllib.parse import urlencode

from tests.support.browse import SCRIPT, Visitor

HOSTILE = SCRIPT + "\x1b[31m/../x"


def test_a_group_is_shown_with_its_lag(visitor: Visitor) -> None:
    assert "etl" in visitor.get("/groups").links
    page = visitor.get(visitor.get("/groups").links["etl"])
    assert "orders 0 40 100 60" in page.text
    assert "orders 1 100 100 0" in page.text
    assert "Offsets 40 to 89" in visitor.get(page.links["40"]).text


def test_a_group_of_any_name_has_its_page(visitor: Visitor) -> None:
    page = visitor.get(f"/group?{urlencode({'name': HOSTILE})}")
    assert (page.status, "orders 0 7 100 93" in page.text, "<script>document" in page.html) == (200, True, False)
    assert "\\x1b[31m" in page.text


def test_groups_are_found_by_a_part_of_their_names(visitor: Visitor) -> None:
    assert "etl" not in visitor.get("/groups?q=script").links
    assert "No group has this in its name." in visitor.get("/groups?q=nobody").text
    assert visitor.get("/group?name=nobody").status == 404
    assert visitor.get("/group").status == 404
