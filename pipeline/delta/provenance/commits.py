"""The commits of a Delta table, newest first, and the next offsets that they record. Imports no Spark.

On a local file system, a commit is read from its file in ``_delta_log``, which begins with ``commitInfo`` (Delta's
protocol, "Commit Provenance Information"), in less time than Spark needs to ask for the history.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ....storage import CorruptionError, InvalidConfigError, local_path
from .next_offsets import NextOffsets

# Operations after which a table has the records that it had, apart from rows that a person deleted or edited.
_KEEP_ROWS = (
    *("OPTIMIZE", "VACUUM START", "VACUUM END", "REORG", "COMPUTE STATS", "CLUSTER BY", "UPGRADE PROTOCOL"),
    *("SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "ADD CONSTRAINT", "DROP CONSTRAINT", "CREATE TABLE"),
    *("ADD COLUMNS", "CHANGE COLUMN", "CHANGE COLUMNS", "RENAME COLUMN", "DROP COLUMNS", "REPLACE COLUMNS"),
    *("DELETE", "UPDATE"),
)


class Commit(NamedTuple):
    """A commit of a Delta table, as in its history."""

    version: int
    operation: str | None
    parameters: Mapping[str, Any]
    metrics: Mapping[str, Any]
    user_metadata: str | None

    @classmethod
    def of(cls, version: int, info: Mapping[str, Any]) -> Commit:
        """``info`` is Delta's ``commitInfo``, or a row of the history as a dict."""
        parts = info.get("operationParameters") or {}, info.get("operationMetrics") or {}
        return cls(version, info.get("operation"), *parts, info.get("userMetadata"))

    @property
    def keeps_rows(self) -> bool:
        """Whether the next offsets of earlier commits still count after this one."""
        adds_nothing = self.parameters.get("mode") == "Append" and self.metrics.get("numOutputRows") == "0"
        return self.operation in _KEEP_ROWS or (self.operation == "WRITE" and adds_nothing)


def newest_recorded(commits: Iterable[Commit]) -> NextOffsets | None:
    """Returns the offsets that the newest commit with rows recorded; None if it has none, or is not in ``commits``."""
    for commit in commits:
        found = NextOffsets.from_json(commit.user_metadata)
        if found is not None or not commit.keeps_rows:
            return found
    return None


def local_folder(table: str) -> Path | None:
    """Returns the folder of a table at a path; None for one on another file system."""
    with suppress(InvalidConfigError):
        return Path(local_path(table))
    return None


def local_version(table: Path) -> int | None:
    """Returns the newest version of the table in a folder; None if there is no table."""
    names = (each.stem for each in (table / "_delta_log").glob("*.json"))
    return max((int(name) for name in names if name.isdecimal()), default=None)


def local_commits(table: Path, newest: int) -> Iterator[Commit]:
    """Yields the commits of the table in a folder from ``newest`` back, as long as their files exist.

    Delta removes the files of old commits. Raises CorruptionError for a file that is not a commit.
    """
    for version in range(newest, -1, -1):
        file = table / "_delta_log" / f"{version:020d}.json"
        try:
            actions = file.read_text(encoding="utf-8").splitlines()
            infos = [json.loads(line)["commitInfo"] for line in actions if line.startswith('{"commitInfo"')]
        except FileNotFoundError:
            return
        except (ValueError, KeyError) as error:
            raise CorruptionError(f"this commit of a Delta table cannot be read: {error!r}", path=str(file)) from None
        yield Commit.of(version, infos[0] if infos else {})
