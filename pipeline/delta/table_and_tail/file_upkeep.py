"""OPTIMIZE and VACUUM of an exported Delta table by delta-rs, without Spark, for ``commitlog maintain``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ....storage import InvalidConfigError, LogStoreError, counted, needs_extra
from ..upserts import deleted_keys

with needs_extra("Upkeep of tables without Spark"):
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

_VECTORS = "deletionVectors"  # VACUUM of delta-rs does not know their files


class TableUpkeepError(LogStoreError):
    """The upkeep failed. The table is unchanged; the next run tries again."""


def optimize(path: str) -> str:
    """Combines small files, and returns the result. A running export continues.

    Raises InvalidConfigError for a folder without a table, and TableUpkeepError if another writer was faster.
    """
    return _each(path, _optimize)


def vacuum(path: str) -> str:
    """Removes files that no version needs any more, and returns how many.

    Files of versions from the last week stay, or from the table's ``delta.deletedFileRetentionDuration``.
    Raises the errors of :func:`optimize`, and InvalidConfigError for a table with deletion vectors.
    """
    return _each(path, _vacuum)


UPKEEP: Mapping[str, Callable[[str], str]] = {"optimize": optimize, "vacuum": vacuum}


def _each(path: str, run: Callable[[DeltaTable, str], str]) -> str:
    """Runs on the table, and on the table of its tombstones, which a table of mode upsert may have."""
    more = [deleted_keys(path)] if Path(deleted_keys(path), "_delta_log").is_dir() else []
    try:
        return ", ".join(run(DeltaTable(each), each) for each in [path, *more])
    except TableNotFoundError:
        raise InvalidConfigError(f"there is no Delta table at {path}") from None
    except DeltaError as error:
        raise TableUpkeepError(f"table {path}: {error}") from None


def _optimize(table: DeltaTable, _: str) -> str:
    metrics = table.optimize.compact()
    before, after = metrics["numFilesRemoved"], metrics["numFilesAdded"]
    return f"{counted(before, 'file')} became {after}" if before else "nothing to compact"


def _vacuum(table: DeltaTable, path: str) -> str:
    if _VECTORS in (table.protocol().writer_features or ()):
        raise InvalidConfigError(
            f"table {path} has deletion vectors, which VACUUM without Spark would remove: use "
            "commitlog export --vacuum-every"
        )
    return f"{counted(len(table.vacuum(dry_run=False)), 'file')} removed"
