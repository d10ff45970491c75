"""The objects that all pages share: the log, the templates and the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from ..storage import Isolation, masked, parse_instant
from .config import BrowseConfig
from .decoding import FORMATS, Decoder
from .logs import Logs
from .rendering import Renderer

T = TypeVar("T")
RESULTS = "<!-- results -->"  # divides a page whose first part is sent before the rest is known
SEARCHES_AT_ONCE = 2  # others wait; they take no turns from the pages
ISOLATIONS = {each.value: each for each in (Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED)}
LIST_CHARS = 600  # characters of a key or value in a list


class QueryError(Exception):
    """A part of a link that cannot be read."""


class Browser:
    """Answers requests, each in a thread of its own."""

    def __init__(self, config: BrowseConfig) -> None:
        self.config = config
        self.logs, self.searched = Logs(config.log_dir), Logs(config.log_dir, SEARCHES_AT_ONCE)
        self.render = Renderer(masked(config.log_dir))

    def close(self) -> None:
        """Closes the logs that no page reads."""
        self.logs.close()
        self.searched.close()

    def decoder(
        self, query: Mapping[str, str], part: str, *, chars_max: int = LIST_CHARS, whole: bool = False
    ) -> Decoder:
        """Returns the decoder of keys (``part`` is ``key``) or values, for the format in the query."""
        format = query.get(part, FORMATS[0])
        if format not in FORMATS:
            raise QueryError(f"{part} = {format!r}: the formats are {', '.join(FORMATS)}")
        return Decoder(format, self.config.decode_avro, chars_max=chars_max, is_indented=whole)


View = Callable[[Browser, Request], Response]


def number_in(query: Mapping[str, str], name: str, *, most: int = 2**63 - 1) -> int | None:
    """Returns a number of the query; None if it is missing or empty. Raises QueryError."""
    text = query.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= most):
        raise QueryError(f"{name} = {text[:80]!r}: it must be a number of at most {most:,}")
    return int(text)


def time_in(query: Mapping[str, str], name: str) -> int | None:
    """Returns a time of the query, in ms; None if it is missing or empty. Raises QueryError."""
    text = query.get(name, "").strip()
    try:
        return parse_instant(text, least_ms=0) if text else None
    except ValueError as error:
        raise QueryError(f"{name}: {error}") from None


def chosen_in(query: Mapping[str, str], name: str, choices: Mapping[str, T]) -> T:
    """Returns the choice that the query has, by default the first. Raises QueryError."""
    given = query.get(name) or next(iter(choices))
    if given not in choices:
        raise QueryError(f"{name} = {given[:80]!r}: it must be one of {', '.join(choices)}")
    return choices[given]
