"""Conditions on the records of a search: by key, value and headers, and by time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..format.tables import Bools, HeadersColumn, Records
from ..kernels.finding import matching
from ..reading.fetch import Timespan


@dataclass(frozen=True)
class Condition:
    """A record matches if it satisfies all given conditions; without any, every record matches.

    ``key``, ``key_prefix`` and ``value_contains`` are compared byte by byte; a null key or value satisfies none of
    them. Each of ``headers`` must be among the record's headers, with this name and value.
    """

    key: bytes | None = None
    key_prefix: bytes | None = None
    value_contains: bytes | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that :meth:`rows` needs."""
        needed = {
            "key": self.key is not None or self.key_prefix is not None,
            "value": self.value_contains is not None,
            "headers": bool(self.headers),
        }
        return tuple(name for name, is_needed in needed.items() if is_needed)

    def rows(self, records: Records) -> Bools:
        """Returns which of ``records`` match; shape (n,)."""
        found = np.ones(len(records), dtype=np.bool_)
        for strings, wanted, how in (
            (records.keys, self.key, matching.EQUAL),
            (records.keys, self.key_prefix, matching.PREFIX),
            (records.values, self.value_contains, matching.CONTAINS),
        ):
            if wanted is not None:
                assert strings is not None  # one of the columns
                found &= matching.matching(strings, wanted, how)
        for name, value in self.headers:
            found &= _has_header(records.headers, name, value, len(records))
        return found


@dataclass(frozen=True)
class TimedCondition:
    """A condition for records whose timestamp is in a range."""

    condition: Condition
    times: Timespan

    @property
    def columns(self) -> tuple[str, ...]:
        return self.condition.columns

    def rows(self, records: Records) -> Bools:
        """Returns which of ``records`` match; shape (n,)."""
        return self.times.holds(records.timestamps) & self.condition.rows(records)


def _has_header(headers: HeadersColumn | None, name: bytes, value: bytes, count: int) -> Bools:
    """Returns which of ``count`` records have a header with this name and value; shape (count,)."""
    if headers is None:  # no record has any
        return np.zeros(count, dtype=np.bool_)
    names = matching.matching(headers.keys, name, matching.EQUAL)
    is_wanted = names & matching.matching(headers.values, value, matching.EQUAL)
    until = np.concatenate(([0], np.cumsum(is_wanted)))
    found: Bools = until[headers.offsets[1:]] > until[headers.offsets[:-1]]
    return found
