"""Bounds: the offsets and times between which a search finds records."""

from __future__ import annotations

from typing import NamedTuple, Self

from ..config import INT64_MAX
from ..errors import InvalidConfigError
from ..reading.fetch import ALL_TIMES, Timespan
from ..text import parse_instant


class Bounds(NamedTuple):
    """A range of offsets in each partition, and a range of times; a record must be in both."""

    start: int | None = None  # None: the log start
    end: int | None = None  # exclusive; None: the log end
    times: Timespan = ALL_TIMES

    @classmethod
    def parse(cls, starts: list[str], ends: list[str], *, start: str = "--start", end: str = "--end") -> Self:
        """Returns the bounds in texts: at most one offset and one time for each end, which is exclusive.

        A number is an offset. A time is ISO 8601 (in UTC unless it has a zone), or ms since 1970 after an ``@``:
        ``@1700000000000``. Raises InvalidConfigError, which names ``start`` or ``end``.
        """
        first, first_ms = _offset_and_time(start, starts)
        behind, behind_ms = _offset_and_time(end, ends)
        for low, high in ((first, behind), (first_ms, behind_ms)):
            if low is not None and high is not None and low > high:
                raise InvalidConfigError(f"{start} {' '.join(starts)} is after {end} {' '.join(ends)}")
        times = Timespan(
            ALL_TIMES.first if first_ms is None else first_ms, INT64_MAX if behind_ms is None else behind_ms - 1
        )
        return cls(first, behind, times)


def _offset_and_time(name: str, texts: list[str]) -> tuple[int | None, int | None]:
    """Returns the offset and the time (ms) in ``texts``; None for a missing one."""
    offsets = [int(text) for text in texts if text.isascii() and text.isdecimal()]
    times = [_time_ms(name, text) for text in texts if not (text.isascii() and text.isdecimal())]
    if len(offsets) > 1 or len(times) > 1:
        raise InvalidConfigError(f"{name} may be given once as an offset and once as a time, not {' '.join(texts)}")
    return next(iter(offsets), None), next(iter(times), None)


def _time_ms(name: str, text: str) -> int:
    try:
        return parse_instant(text.removeprefix("@"), least_ms=0)
    except ValueError as error:
        raise InvalidConfigError(f"{name} {error}; a number alone is an offset, and @1700000000000 is ms") from None
