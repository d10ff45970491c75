"""Proxies that make a good object store a bad one; they stand before one that needs no signatures."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import NamedTuple, Self

HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "date", "server"}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Forward = Callable[[Request], Answer]


class Proxy:
    """Passes requests on to a port of this machine as :meth:`answer` says. A context manager.

    ``requests``: method and path of each, for tests that count.
    """

    def __init__(self, upstream: int) -> None:
        self.upstream, self.requests = upstream, list[tuple[str, str]]()
        self.lock = Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                proxy.requests.append((self.command, self.path))
                request = Request(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                answer = proxy.answer(request, proxy.forward)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    if name.lower() not in HOP:
                        self.send_header(name, value)
                length = answer.headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(answer.body))
                self.send_header("Content-Length", length)
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def forward(self, request: Request) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=60)
        try:
            headers = {name: value for name, value in request.headers.items() if name not in HOP}
            connection.request(request.method, request.path, request.body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def answer(self, request: Request, forward: Forward) -> Answer:
        return forward(request)


def _unconditional(request: Request) -> Request:
    headers = {name: value for name, value in request.headers.items() if name != "if-none-match"}
    return request._replace(headers=headers)


class StrippingProxy(Proxy):
    """Does not pass on the condition."""

    def answer(self, request: Request, forward: Forward) -> Answer:
        return forward(_unconditional(request))


class CheckThenActProxy(Proxy):
    """Reads whether the object is there, and then writes it."""

    def answer(self, request: Request, forward: Forward) -> Answer:
        if request.method != "PUT" or "if-none-match" not in request.headers:
            return forward(request)
        if forward(request._replace(method="HEAD", body=b"")).status == 200:
            return Answer(412, {}, b"<Error><Code>PreconditionFailed</Code></Error>")
        time.sleep(0.5)  # others check in the meantime, even on a busy machine
        return forward(_unconditional(request))


class StaleProxy(Proxy):
    """Remembers what it once answered to a read, also that there was nothing; forgets it after some more reads."""

    def __init__(self, upstream: int) -> None:
        super().__init__(upstream)
        self._remembered: dict[tuple[str, str, str], Answer] = {}

    def answer(self, request: Request, forward: Forward) -> Answer:
        if request.method not in ("GET", "HEAD") or "?" in request.path:
            return forward(request)
        key = (request.method, request.path, request.headers.get("range", ""))
        with self.lock:
            answer = self._remembered.pop(key, None)
        if answer is None:
            answer = forward(request)
            with self.lock:
                self._remembered[key] = answer
        return answer
