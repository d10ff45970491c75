"""Open transactions, oldest first, and how many records each holds back."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ...storage import GroupOffsets, LogStoreError, OpenTransaction, TransactionStates, open_transactions
from ..browser import RESULTS, Browser


def transactions(browser: Browser, request: Request) -> Response:
    """Shows the transactions that have not ended. The page begins at once: all logs must be opened to find them."""
    query = request.query_params
    head, _, tail = browser.render.text("transactions.html", query).partition(RESULTS)

    async def chunks() -> AsyncIterator[str]:
        yield head
        found, failures = await run_in_threadpool(_read, browser)
        yield browser.render.text("open_transactions.html", query, found=found, failures=failures)
        yield tail

    return StreamingResponse(chunks(), media_type="text/html")


def _read(browser: Browser) -> tuple[list[OpenTransaction], list[str]]:
    """Returns the open transactions, and the errors of unreadable partitions."""
    found, failures = list[OpenTransaction](), list[LogStoreError]()
    try:
        with browser.logs.open() as log:
            found = open_transactions(log.manager, failures=failures, look=log.looking())
            states = TransactionStates(log.manager)
            failures += states.unreadable()
            missing = [each for each in (states.missing(), GroupOffsets(log.manager).missing()) if each is not None]
    except (LogStoreError, OSError) as error:
        return found, [str(error)]
    return found, [*map(str, failures), *missing]
