"""``commitlog metrics``: serves lag, sizes and open transactions to Prometheus."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from .. import storage
from .flags import LogDir
from .output import fail

PORT = 9308


def metrics(
    *,
    log_dir: LogDir,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 picks a free one.")] = PORT,
    address: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 for other machines, too: there is no login.")
    ] = "127.0.0.1",
    cluster_name: Annotated[
        str | None, typer.Option(help="The value of the label cluster_name; by default the directory's name.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the metrics and exit.")] = False,
) -> None:
    """Serve lag in records and seconds, log start and end, sizes and open transactions at /metrics.

    The names are those of kafka-lag-exporter, so its dashboards and alerts work; metrics that only a log directory can
    provide begin with commitlog_. Each request reads the directory and takes no lock, so it is safe on a running
    broker's directory.
    """
    from prometheus_client import CollectorRegistry, generate_latest, start_http_server  # noqa: PLC0415  late, like pipeline

    from ..pipeline.metrics.directory import DirectoryMetrics  # noqa: PLC0415

    storage.LogManager.open(log_dir).close()  # reports a mistyped path now instead of in a metric
    registry = CollectorRegistry()
    registry.register(DirectoryMetrics(log_dir, cluster_name))
    if once:
        typer.echo(generate_latest(registry).decode(), nl=False)
        return
    try:
        server, thread = start_http_server(port, address, registry)
    except OSError as error:
        fail(f"cannot listen on {address}:{port}: {error.strerror}; choose another --port")
    typer.echo(f"http://{address}:{server.server_port}/metrics", err=True)
    with suppress(KeyboardInterrupt):
        thread.join()
