"""The programs of ``jobs/`` as commands: ``commitlog export``, ``mirror``, ``ingest`` and ``upgrade``.

A job parses its own arguments, so it takes the same ones under ``spark-submit``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import typer
from typer.core import TyperCommand


class Job(Protocol):
    """The ``main`` of a program in ``jobs/``."""

    def __call__(self, arguments: Sequence[str], *, prog: str) -> int: ...


class JobCommand(TyperCommand):
    """A command that passes all its arguments on, ``--help`` too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.args = args
        return args


def export(ctx: typer.Context) -> None:
    """Copy topics to Delta tables or Parquet files, or the changes of Delta tables to topics, each record once."""
    from ..jobs.export import main  # noqa: PLC0415

    _run(ctx, main)


def mirror(ctx: typer.Context) -> None:
    """Mirror topics between a running Kafka and a log directory, or between clusters."""
    from ..jobs.mirror import main  # noqa: PLC0415

    _run(ctx, main)


def ingest(ctx: typer.Context) -> None:
    """Write the demo's flights from CSV files to a topic, each file once."""
    from ..jobs.ingest import main  # noqa: PLC0415

    _run(ctx, main)


def upgrade(ctx: typer.Context) -> None:
    """Make a log directory of today from one of Kafka 0.7."""
    from ..jobs.upgrade import main  # noqa: PLC0415

    _run(ctx, main)


def _run(ctx: typer.Context, job: Job) -> None:
    code = job(ctx.args, prog=f"commitlog {ctx.info_name}")
    if code:
        raise typer.Exit(code)
