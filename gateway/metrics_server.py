"""Serves a gateway's metrics, and whether its threads are well, over HTTP on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from .figures import Figures
from .metrics import GatewayMetrics
from .threads.kept import KeptThread, unwell_threads

HEALTH = "/healthz"

StartResponse = Callable[..., Any]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: requests come every few seconds."""


def serve_metrics(figures: Figures, port: int) -> str:
    """Serves ``/metrics`` and ``/healthz`` until the process ends; returns the URL. Raises OSError, such as for a port.

    ``/healthz`` has status 200 while all threads run, and 503 with their names while some do not.
    """
    registry = CollectorRegistry()
    registry.register(GatewayMetrics(figures))
    server = make_server("127.0.0.1", port, _application(registry), _Server, _Silent)
    KeptThread("gateway-metrics", server.serve_forever).start()
    return f"http://127.0.0.1:{server.server_port}/metrics"


def _application(registry: CollectorRegistry) -> Callable[[dict[str, Any], StartResponse], Iterable[bytes]]:
    metrics = make_wsgi_app(registry)

    def answer(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO") != HEALTH:
            found: Iterable[bytes] = metrics(environ, start_response)
            return found
        unwell = unwell_threads()
        text = f"threads that do not run: {', '.join(unwell)}\n" if unwell else "ok\n"
        headers = [("Content-Type", "text/plain; charset=utf-8")]
        start_response("503 Service Unavailable" if unwell else "200 OK", headers)
        return [text.encode()]

    return answer
