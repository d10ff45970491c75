"""The pages by their paths, and the error pages."""

from __future__ import annotations

import logging
import traceback
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ..storage import CorruptionError, LogStoreError, UnknownTopicOrPartitionError
from .access import LOGIN, Guard, own_path
from .browser import Browser, QueryError, View
from .rendering import PAGES
from .views import find, groups, maintenance, partition, records, topics, transactions

logger = logging.getLogger(__name__)

_PARTITION = "/topics/{topic}/{partition:int}"
VIEWS: dict[str, View] = {
    "/": topics.topics,
    "/groups": groups.groups,
    "/group": groups.group,
    "/transactions": transactions.transactions,
    "/maintenance": maintenance.maintenance,
    "/topics/{topic}": topics.topic,
    "/topics/{topic}/find": find.find,
    _PARTITION: partition.partition,
    f"{_PARTITION}/records": records.records,
    f"{_PARTITION}/records/{{offset:int}}": records.record,
    f"{_PARTITION}/records/{{offset:int}}/{{part}}": records.part,
}


def application(browser: Browser) -> Starlette:
    """Returns the pages of a log as an application of ASGI."""
    routes = [Route(path, partial(_answer, browser, view)) for path, view in VIEWS.items()]
    return Starlette(
        routes=[
            *routes,
            Route(LOGIN, partial(_login, browser)),
            Mount("/static", StaticFiles(directory=PAGES.parent / "static", follow_symlink=True)),
        ],
        middleware=[Middleware(Guard, config=browser.config)],
        exception_handlers={HTTPException: partial(_no_page, browser)},
    )


def _answer(browser: Browser, view: View, request: Request) -> Response:
    """Returns the page, or one that shows the error. Logs no error messages: they may contain parts of records."""
    try:
        return view(browser, request)
    except QueryError as error:
        return _failure(browser, request, 400, "The link is wrong", error)
    except UnknownTopicOrPartitionError as error:
        return _failure(browser, request, 404, "Not found", error)
    except CorruptionError as error:
        return _failure(browser, request, 500, "The log is damaged", error)
    except (LogStoreError, OSError) as error:
        return _failure(browser, request, 500, "The log cannot be read", error)
    except Exception as error:
        where = "".join(traceback.format_tb(error.__traceback__))
        logger.error("%s at a page of %s:\n%s", type(error).__name__, view.__name__, where)
        return _failure(browser, request, 500, "This page has a fault", f"{type(error).__name__}; see the log")


def _failure(browser: Browser, request: Request, status: int, title: str, message: object) -> HTMLResponse:
    return browser.render("error.html", request.query_params, status=status, title=title, message=str(message))


def _no_page(browser: Browser, request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _failure(browser, request, status, "Not found", "There is no such page.")


def _login(browser: Browser, request: Request) -> Response:
    query = request.query_params
    return browser.render("login.html", {}, to=own_path(query.get("to", "/")), is_wrong="wrong" in query)
