"""Formats amounts for people."""

from __future__ import annotations

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))


def duration(duration_ms: int) -> str:
    """Returns a duration in ms as text in its two largest units, such as ``24 min 55 s``."""
    parts = []
    for unit_ms, name in _UNITS:
        amount, duration_ms = divmod(duration_ms, unit_ms)
        if amount:
            parts.append(f"{amount:,} {name}")
    return " ".join(parts[:2]) or "0 s"
