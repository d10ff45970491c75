"""The error for a table that did not come from the log that is given now."""

from __future__ import annotations

from ....storage import ProgressMismatchError


def other_log(what: str) -> ProgressMismatchError:
    """Returns the error for rows that did not come from the given log; ``what`` states the difference."""
    return ProgressMismatchError(
        f"{what}: the log is an older copy, or the topic was deleted and created again. Continuing at the table's end "
        "would skip records. Put back the log that belongs to the table, or export to another table"
    )
