"""Pages from templates: what every value becomes, and that all templates are loaded at once."""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from pyspark_commitlog.browse.rendering import Renderer, duration, number, size, time_text


@pytest.fixture
def renderer() -> Renderer:
    return Renderer("log")


def filled(renderer: Renderer, template: str, **values: object) -> str:
    return renderer._pages.from_string(template).render(**values)


def test_every_value_is_escaped_and_printable(renderer: Renderer) -> None:
    assert filled(renderer, "{{ x }}", x="<b>\x1b\u202e&\n") == "&lt;b&gt;\\x1b\\u202e&amp;\n"
    assert filled(renderer, '<a title="{{ x }}">', x='"onclick="') == '<a title="&#34;onclick=&#34;">'
    assert filled(renderer, "{{ x }}{{ y }}", x=None, y=Markup("<b>")) == "<b>"


def test_a_value_that_is_missing_is_an_error_and_not_a_gap(renderer: Renderer) -> None:
    with pytest.raises(UndefinedError):
        filled(renderer, "{{ x }}")


def test_templates_that_are_replaced_later_are_not_read(renderer: Renderer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(type(renderer._pages.loader), "get_source", fail)
    assert "There is no such page" in renderer.text("error.html", {}, title="x", message="There is no such page")


def test_numbers_have_units() -> None:
    assert [size(each) for each in (0, 1023, 1024, 1536, 5 << 30)] == [
        "0 bytes",
        "1,023 bytes",
        "1.0 KiB",
        "1.5 KiB",
        "5.0 GiB",
    ]
    assert [duration(each) for each in (None, 0, 1500, 119_000, 120_000, 3 * 86_400_000)] == [
        "-",
        "0 seconds",
        "1 second",
        "119 seconds",
        "2 minutes",
        "3 days",
    ]
    assert (number(1234567), time_text(-1), time_text(None)) == ("1,234,567", "-", "-")
    assert time_text(1_700_000_000_123) == "2023-11-14 22:13:20.123"
