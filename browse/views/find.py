"""Finding records by key, value and headers: the page grows as records are found; its end lists unsearched parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ...storage import Bounds, Condition, InvalidConfigError
from ..browser import ISOLATIONS, RESULTS, Browser, QueryError, chosen_in
from ..decoding import FORMATS
from ..searching import FOUND_MAX, Hit, Progress, RunningSearch, SearchEnd, Wanted

PROGRESS_S = 0.5
_GIVEN = ("k", "prefix", "contains", "header")


def find(browser: Browser, request: Request) -> Response:
    """Shows the form and, if there are conditions, the found records."""
    query, topic = request.query_params, request.path_params["topic"]
    with browser.logs.open() as log:
        count = len(log.manager.topic(topic).partitions)
    is_asked = any(query.get(name) for name in (*_GIVEN, "start", "end"))
    wanted = _wanted(topic, query, is_asked=is_asked) if is_asked or "follow" in query else None
    page = browser.render.text(
        "find.html",
        query,
        topic=topic,
        count=count,
        wanted=wanted,
        formats=FORMATS,
        isolations=list(ISOLATIONS),
        isolation=chosen_in(query, "isolation", ISOLATIONS).value,
    )
    show = browser.decoder(query, "key"), browser.decoder(query, "value")
    head, _, tail = page.partition(RESULTS)

    def text(step: Hit | Progress | SearchEnd) -> str:
        kind = type(step).__name__.lower()
        return browser.render.text(
            "found.html",
            query,
            kind=kind,
            step=step,
            show_key=show[0],
            show_value=show[1],
            most=FOUND_MAX,
            count=count,
        )

    async def chunks() -> AsyncIterator[str]:
        yield head
        if wanted is not None:
            async for chunk in _found(RunningSearch(browser.searched, wanted), text):
                yield chunk
        yield tail

    return StreamingResponse(chunks(), media_type="text/html")


async def _found(search: RunningSearch, text: Callable[[Hit | Progress | SearchEnd], str]) -> AsyncIterator[str]:
    """Yields the found records.

    If the person leaves the page, the wait ends with an error, and the search is stopped.
    """

    def taken() -> tuple[Hit | Progress | SearchEnd, str]:
        """Returns the next step, and its text. Not in the event loop: values may wait for a schema registry."""
        step = search.take(PROGRESS_S)
        return step, text(step)

    last = ""
    try:
        while True:
            step, shown = await run_in_threadpool(taken)
            if shown != last or isinstance(step, Hit):  # a page that waits does not grow
                yield shown
            last = shown
            if isinstance(step, SearchEnd):
                return
            await asyncio.sleep(0)
    finally:
        search.stop()


def _wanted(topic: str, query: Mapping[str, str], *, is_asked: bool) -> Wanted:
    headers = [_header(line) for line in query.get("header", "").splitlines() if line.strip()]
    starts, ends = (query.get(name, "").split() for name in ("start", "end"))
    try:
        bounds = Bounds.parse(starts, ends, start="from", end="to")
    except InvalidConfigError as error:
        raise QueryError(str(error)) from None
    key, prefix, contains = (query[name].encode() if query.get(name) else None for name in _GIVEN[:3])
    return Wanted(
        topic,
        Condition(key, prefix, contains, tuple(headers)),
        bounds,
        all_partitions="all" in query,
        newest_first="newest" in query,
        isolation=chosen_in(query, "isolation", ISOLATIONS),
        follows="follow" in query,
        only_new=not is_asked,
    )


def _header(line: str) -> tuple[bytes, bytes]:
    name, equals, value = line.strip().partition("=")
    if not equals:
        raise QueryError(f"header {line[:80]!r} is not of the form NAME=VALUE")
    return name.encode(), value.encode()
