"""Access control of the page: the allowed host names, the login with a token, and the headers of every answer."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..storage import is_loopback
from .config import BrowseConfig

COOKIE = "commitlog_browse"
LOGIN = "/login"
STATIC = "/static/"
FORM_BYTES_MAX = 4096
FORM_S = 10  # how long a form may take to arrive
HEADERS = {
    # No script or style but our own files: the content of a record cannot run, even if it were not escaped.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Passes requests on to the pages: only GET and HEAD, for an allowed host name, from a person who has logged in."""

    def __init__(self, app: ASGIApp, config: BrowseConfig) -> None:
        self._app, self._config = app, config
        self._session = hmac.new(config.token.encode(), b"commitlog browse", hashlib.sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope, receive)
        answer = self._refused(request) or await self._login(request)
        await (answer or self._app)(scope, receive, guarded)

    def _refused(self, request: Request) -> Response | None:
        """Returns the answer to a request that gets no page."""
        if not self._config.token and not _is_of_this_machine(request.headers):
            # Another site could point its name here, and its page could then read the answer.
            return PlainTextResponse("This name is not that of this machine: open the page at 127.0.0.1.\n", 421)
        allowed = ("GET", "HEAD", "POST") if _path(request) == LOGIN else ("GET", "HEAD")
        if request.method not in allowed:
            return PlainTextResponse("The page is read only.\n", 405, {"Allow": ", ".join(allowed)})
        return None

    async def _login(self, request: Request) -> Response | None:
        """Returns the answer to a person who has not logged in; None for others."""
        if not self._config.token or _path(request).startswith(STATIC):
            return None
        if request.method == "POST":
            return await self._logged_in(request)
        if _path(request) == LOGIN or self._is_known(request.headers):
            return None
        if request.headers.get("authorization"):
            return PlainTextResponse("The token is wrong.\n", 401)
        here = _path(request) + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"{LOGIN}?to={quote(here, safe='')}", 303)

    async def _logged_in(self, request: Request) -> Response:
        body = bytearray()
        try:
            async with asyncio.timeout(FORM_S):
                async for part in request.stream():
                    body += part
                    if len(body) > FORM_BYTES_MAX:
                        return PlainTextResponse("The form is too large.\n", 413)
        except TimeoutError:
            return PlainTextResponse("The form did not arrive.\n", 408, {"Connection": "close"})
        given = parse_qs(body.decode(errors="replace"))
        to = own_path(given.get("to", ["/"])[0])
        if not hmac.compare_digest(given.get("token", [""])[0].strip().encode(), self._config.token.encode()):
            return RedirectResponse(f"{LOGIN}?wrong=1&to={quote(to, safe='')}", 303)
        answer = RedirectResponse(to, 303)
        answer.set_cookie(COOKIE, self._session, httponly=True, samesite="lax", secure=bool(self._config.keystore))
        return answer

    def _is_known(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return hmac.compare_digest(given.strip().encode(), self._config.token.encode())
        return hmac.compare_digest(_cookie(headers).encode(), self._session.encode())


def _path(request: Request) -> str:
    """Returns the path that the routes see; that of ``request.url`` may be made from the header Host."""
    return str(request.scope["path"])


def own_path(to: str) -> str:
    """Returns the path and query that a login leads to; ``/`` for an address of another site."""
    parts = urlsplit(to.replace("\\", "/"))
    is_own = to.startswith("/") and not to.startswith("//") and not parts.netloc and to.isprintable()
    return to if is_own and "\\" not in to else "/"


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _is_of_this_machine(headers: Headers) -> bool:
    try:
        return is_loopback(urlsplit(f"//{headers.get('host', '')}").hostname or "")
    except ValueError:
        return False
