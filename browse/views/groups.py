"""Groups of consumers, and how far each has read."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ...storage import LogStoreError, UnknownTopicOrPartitionError
from ..browser import Browser, number_in

PAGE_GROUPS = 200
SHARE = "Share"


def groups(browser: Browser, request: Request) -> Response:
    """Shows one page of the groups whose names contain the search text."""
    query = request.query_params
    wanted, first = query.get("q", "").strip(), number_in(query, "from") or 0
    failures = list[LogStoreError]()
    with browser.logs.open() as log:
        found = [each for each in log.lags.groups(failures) if wanted in each.name]
        missing = log.lags.missing()
    return browser.render(
        "groups.html",
        query,
        groups=found[first : first + PAGE_GROUPS],
        wanted=wanted,
        first=first,
        total=len(found),
        page_size=PAGE_GROUPS,
        failures=[*map(str, failures), *([missing] if missing else [])],
    )


def group(browser: Browser, request: Request) -> Response:
    """Shows a group's offsets, lag and members. A name may have any characters, so it is part of the query."""
    query = request.query_params
    name, failures = query.get("name", ""), list[LogStoreError]()
    with browser.logs.open() as log:
        found = next((each for each in log.lags.groups(failures) if each.name == name), None)
        if found is None:
            raise UnknownTopicOrPartitionError(f"there is no group {name!r}")
        is_share = found.type == SHARE
        lags = [] if is_share else log.lags.lags(found, failures)
        shares = log.lags.share_lags(found, failures) if is_share else []
    return browser.render("group.html", query, group=found, lags=lags, shares=shares, failures=[*map(str, failures)])
