"""Parsers of flag values; an invalid value is wrong usage (exit code 2)."""

from __future__ import annotations

from collections.abc import Iterable

import typer

from .. import storage


def parse_instant(flag: str, text: str) -> int:
    """Parses a time into milliseconds since the epoch, in UTC unless the text names a zone."""
    try:
        return storage.parse_instant(text)
    except ValueError as error:
        raise typer.BadParameter(f"{flag} {error}") from None


def parse_pairs(flag: str, given: Iterable[str]) -> dict[str, str]:
    """Parses ``key=value`` pairs into a dictionary."""
    try:
        return storage.parse_pairs(flag, given)
    except storage.InvalidConfigError as error:
        raise typer.BadParameter(str(error)) from None
