"""Records on the page: one and its value, in the format that was chosen."""

from __future__ import annotations

import pytest

from tests.support.browse import HOSTILE, Visitor


@pytest.mark.parametrize("offset", range(len(HOSTILE)))
def test_the_page_of_a_record_is_small_and_its_value_can_be_saved_whole(visitor: Visitor, offset: int) -> None:
    page = visitor.get(f"/topics/hostile/0/records/{offset}")
    assert (page.status, len(page.body) < 1_500_000) == (200, True)
    saved = visitor.get(f"/topics/hostile/0/records/{offset}/value")
    assert saved.body == [*HOSTILE.values()][offset]
    assert saved.headers["content-type"] == "application/octet-stream"
    assert saved.headers["content-disposition"] == f'attachment; filename="hostile-0-{offset}.value"'


def test_the_format_that_was_chosen_stays_in_all_links(visitor: Visitor) -> None:
    page = visitor.get("/topics/orders/0/records?offset=0&value=hex&limit=20")
    own = {text: to for text, to in page.links.items() if to.startswith("/topics") or to == "/"}
    assert all("value=hex" in to and "limit=20" in to for to in own.values()), own
    assert "7b 22 6f" in visitor.get(page.links["Newer"]).text
    assert "7b 22 6f" in visitor.get(page.links["0"]).text
    topics = visitor.get(page.links["commitlog"])
    assert "value=hex" in topics.links["orders"]
    assert '<input type="hidden" name="value" value="hex">' in topics.html  # of the form


def test_keys_are_shown_in_hex_if_that_was_chosen(visitor: Visitor) -> None:
    in_hex = b"customer-".hex(" ")
    assert in_hex not in visitor.get("/topics/orders/0/records?offset=0&limit=20").text
    assert in_hex in visitor.get("/topics/orders/0/records?offset=0&limit=20&key=hex").text
