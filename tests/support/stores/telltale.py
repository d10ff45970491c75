"""A server that refuses every request, and repeats all of it in its answer, as some stores do in part."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Self

import pytest

from pyspark_commitlog.storage.bucket.stores import remote
from pyspark_commitlog.storage.bucket.stores.patience import DELIVERY_TIMEOUT, RETRIES

KEY_ID, SECRET, TOKEN = "AKIDCOMMITLOGTESTS", "notASecretOfAnyoneEither", "notATokenOfAnyone"
SHOWN = (SECRET, TOKEN, KEY_ID)  # none of them may be


class Telltale:
    """A context manager; its answers have ``status`` and ``code``, and all headers of the request."""

    def __init__(self, status: int, code: str) -> None:
        self.requests = 0

        class Handler(BaseHTTPRequestHandler):
            def refuse(handler) -> None:  # noqa: N805
                self.requests += 1
                text = "".join(f"{name}: {value}\n" for name, value in handler.headers.items())
                assert TOKEN in text, "the client sends its token"
                body = f"<Error><Code>{code}</Code><Message>{text} {SECRET}</Message></Error>".encode()
                handler.send_response(status)
                handler.send_header("Content-Length", str(len(body)))
                handler.end_headers()
                if handler.command != "HEAD":
                    handler.wfile.write(body)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = refuse  # noqa: N815

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def reach(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """Lets this process ask a server with credentials, each request once."""
    monkeypatch.setattr(remote, "_CLIENTS", remote._Clients())
    credentials = {"ACCESS_KEY_ID": KEY_ID, "SECRET_ACCESS_KEY": SECRET, "SESSION_TOKEN": TOKEN}
    reached = {"ENDPOINT_URL": f"http://127.0.0.1:{port}", "ALLOW_HTTP": "true", "REGION": "us-east-1"}
    for name, value in {**credentials, **reached}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv(RETRIES, "0")
    monkeypatch.setenv(DELIVERY_TIMEOUT, "1")
