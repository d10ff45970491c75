"""Reading around damage: reports skipped parts on stderr, and sets the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import typer

from ... import storage
from ..output import fail


class Skipping:
    """Reads logs as far as they are sound, and reports the rest."""

    def __init__(self) -> None:
        self.is_damaged = False

    def records(
        self, log: storage.LogReader, start: int, end: int, isolation: storage.Isolation
    ) -> Iterator[storage.Records]:
        """Yields the records of sound batches from ``start`` up to ``end``."""
        return storage.salvaged_records(log, start, end, self.report, isolation=isolation)

    @contextmanager
    def whole(self, logs: Iterable[storage.LogReader]) -> Iterator[None]:
        """Within the ``with`` block, damage in these logs does not stop searches for the ends of transactions."""
        with ExitStack() as stack:
            for log in logs:
                stack.enter_context(log.despite_damage())
            yield

    def report(self, error: storage.CorruptionError) -> None:
        """Reports damage that is skipped."""
        skipped = "skipped"
        if error.skipped_offsets is not None:
            first, last = error.skipped_offsets
            skipped = f"skipped offset {first}" if first == last else f"skipped offsets {first} to {last}"
        self.name(error, f"; {skipped}")

    def name(self, error: storage.CorruptionError, end: str = "") -> None:
        """Reports damage outside the records that are read."""
        self.is_damaged = True
        typer.echo(f"commitlog: {storage.printable(str(error))}{end}", err=True)


@contextmanager
def ending_with_3(skipping: Skipping, *, skips: bool) -> Iterator[None]:
    """Exits with 3 if damage was reported: at the end of the ``with`` block, or at once if none may be skipped."""
    try:
        yield
    except (storage.CorruptRecordError, storage.MissingSegmentError) as error:
        fail(str(error) if skips else f"{error}; to read around it: --skip-damaged", storage.EXIT_DAMAGED)
    if skipping.is_damaged:
        raise typer.Exit(storage.EXIT_DAMAGED)
