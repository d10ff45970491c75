"""Pages from templates, which escape every value and remove control characters: no template can forget it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from ..storage import instant
from .decoding import readable
from .links import Links

VIEWS = (
    ((), "Topics"),
    (("groups",), "Groups"),
    (("transactions",), "Transactions"),
    (("maintenance",), "Maintenance"),
)  # paths and names of the header's links
PAGES = Path(__file__).parent / "pages"
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_DURATIONS_MS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000))


class Renderer:
    """Fills templates."""

    def __init__(self, log_name: str) -> None:
        self._pages = Environment(
            loader=FileSystemLoader(PAGES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_shown,
            auto_reload=False,
        )
        self._pages.filters.update(number=number, size=size, time=time_text, duration=duration)
        self._pages.globals.update(log_name=log_name, views=VIEWS)
        for name in self._pages.list_templates():
            self._pages.get_template(name)  # now: a later version of the package may replace the files

    def __call__(self, template: str, query: Mapping[str, str], *, status: int = 200, **values: Any) -> HTMLResponse:
        """Returns a page; ``query`` is that of the request, and links keep a part of it."""
        return HTMLResponse(self.text(template, query, **values), status)

    def text(self, template: str, query: Mapping[str, str], **values: Any) -> str:
        """Returns a page, or a part of one, as text."""
        return self._pages.get_template(template).render(link=Links(query), query=query, **values)


def _shown(value: object) -> object:
    if isinstance(value, Markup):
        return value
    return "" if value is None else readable(str(value))


def number(value: int) -> str:
    """Returns ``1,234``."""
    return f"{value:,}"


def size(value: int) -> str:
    """Returns a size in bytes with its unit: ``1.5 MiB``."""
    amount, unit = float(value), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{value:,} bytes" if unit == 0 else f"{amount:,.1f} {_UNITS[unit]}"


def time_text(timestamp_ms: int | None) -> str:
    """Returns a time in UTC, which each page states at its end; ``-`` for none."""
    return "-" if timestamp_ms is None or timestamp_ms < 0 else instant(timestamp_ms).removesuffix(" UTC")


def duration(duration_ms: int | None) -> str:
    """Returns ``3 hours``, in the largest unit of which there are two; ``-`` for None."""
    if duration_ms is None:
        return "-"
    name, unit_ms = next((each for each in _DURATIONS_MS if duration_ms >= 2 * each[1]), _DURATIONS_MS[-1])
    many = duration_ms // unit_ms
    return f"{many:,} {name}" + ("" if many == 1 else "s")
