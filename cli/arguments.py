"""What flags hold; what cannot be right is a wrong use."""

from __future__ import annotations

from collections.abc import Iterable

import typer

from pyspark_commitlog import storage


def parse_instant(flag: str, text: str) -> int:
    """Milliseconds since the epoch; in UTC where the text names no zone."""
    try:
        return storage.parse_instant(text)
    except ValueError as error:
        raise typer.BadParameter(f"{flag} {error}") from None


def parse_pairs(flag: str, given: Iterable[str]) -> dict[str, str]:
    """From ``key=value``."""
    try:
        return storage.parse_pairs(flag, given)
    except storage.InvalidConfigError as error:
        raise typer.BadParameter(str(error)) from None
