"""Chooses records by SQL, for erasing them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..storage import Chooser, FoundRecords, InvalidConfigError
from .sql import RecordQuery

_OFFSETS = '"offset"'


@dataclass(frozen=True)
class SqlChoice:
    """Chooses the records for which a condition in SQL is true, as ``commitlog find --where`` finds them.

    Can be pickled. Raises the errors of :class:`RecordQuery`; InvalidConfigError also for a condition that might choose
    other records at the next call: one with ``now()``, ``random()`` and the like, or with a subquery, which sees only
    some of the records; MissingExtraError without duckdb.
    """

    sql: str

    def __post_init__(self) -> None:
        with RecordQuery(self.sql, _OFFSETS) as query:
            nodes = [*_nodes(query.parsed()["where_clause"])]
            changing = query.changing_functions() & {name for node in nodes for name in _names(node)}
        if changing:
            raise InvalidConfigError(
                f"--where uses {', '.join(sorted(changing))}, which gives another result each time: write the value "
                "itself, such as TIMESTAMP '2026-01-31 00:00:00'"
            )
        if any(node.get("class") == "SUBQUERY" for node in nodes):
            raise InvalidConfigError("--where has a subquery, which would see only some of the records: leave it out")

    @contextmanager
    def opened(self) -> Iterator[Chooser]:
        with RecordQuery(self.sql, _OFFSETS) as query:
            yield (
                lambda records, partition: (
                    query.table(FoundRecords(partition, records))
                    .column("offset")
                    .to_numpy()
                    .astype(np.int64, copy=False)
                )
            )


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yields all objects in a tree of JSON."""
    if isinstance(tree, dict):
        yield tree
    for each in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(each)


def _names(node: dict[str, Any]) -> Iterator[str]:
    """Yields the names of the function that a node calls, or of the column that it names."""
    if "function_name" in node:
        yield node["function_name"].lower()
    names = node.get("column_names", ())
    if len(names) == 1:
        yield names[0].lower()
