"""Moments as people give them."""

from __future__ import annotations

from datetime import UTC, datetime

import typer

EPOCH_MS_MIN = 100_000_000_000  # of 1973: fewer digits are a date without dashes, or seconds


def parse_instant(flag: str, text: str) -> int:
    """Milliseconds since the epoch; in UTC where the text names no zone."""
    if text.isdecimal() and int(text) >= EPOCH_MS_MIN:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{flag} {text!r} is neither of the form 2026-11-21T06:00:00.000 nor milliseconds since 1970"
        ) from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
