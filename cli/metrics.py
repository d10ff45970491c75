"""``commitlog metrics``: lag, sizes and open transactions for Prometheus."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from pyspark_commitlog import storage
from pyspark_commitlog.cli.flags import LogDir
from pyspark_commitlog.cli.output import fail

PORT = 9308


def metrics(
    *,
    log_dir: LogDir,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to answer; 0: a free one.")] = PORT,
    address: Annotated[str, typer.Option(help="Of which interface; 127.0.0.1 for this machine alone.")] = "0.0.0.0",
    cluster_name: Annotated[str | None, typer.Option(help="The label; by default the directory's name.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the metrics and end.")] = False,
) -> None:
    """Serve lag in records and seconds, log start and end, sizes and open transactions, under /metrics.

    The names are those of kafka-lag-exporter, so that its dashboards and alerts fit; what only a log directory can tell
    begins with commitlog_. Each request looks at the directory; takes no lock, so it may be a running broker's.
    """
    from prometheus_client import CollectorRegistry, generate_latest, start_http_server  # noqa: PLC0415  as pipeline is

    from pyspark_commitlog.pipeline.exposition import DirectoryMetrics  # noqa: PLC0415

    storage.LogManager.open(log_dir).close()  # a slip of the pen is told now, not by a metric
    registry = CollectorRegistry()
    registry.register(DirectoryMetrics(log_dir, cluster_name))
    if once:
        typer.echo(generate_latest(registry).decode(), nl=False)
        return
    try:
        server, thread = start_http_server(port, address, registry)
    except OSError as error:
        fail(f"cannot answer at {address}:{port}: {error.strerror}; --port takes another")
    typer.echo(f"http://{address}:{server.server_port}/metrics", err=True)
    with suppress(KeyboardInterrupt):
        thread.join()
