"""Progress bars on a terminal, which count the bytes of logs, so that one large log is more than 0 % or 100 %."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

from ... import storage

Item = TypeVar("Item")
Result = TypeVar("Result")


class BytesDone:
    """The progress of tasks that read logs: the ended ones, and the bytes that the current one has read."""

    def __init__(self, total: int, show: Callable[[int], object]) -> None:
        self.total, self._show, self._ended, self._read = total, show, 0, 0

    def read(self, count: int) -> None:
        """Counts bytes that the current task read; it may read some of them twice, but never ends before the total."""
        self._read += count
        self._show(min(self._ended + self._read, self.total))

    def end(self, size: int) -> None:
        """Ends the current task, whose logs have ``size`` bytes, however many it has read."""
        self._ended, self._read = self._ended + size, 0
        self._show(min(self._ended, self.total))


def bar(what: str, total: int) -> AbstractContextManager[BytesDone]:
    """Shows a bar on stderr while the ``with`` block runs, if that is a terminal; counts all reads of logs."""
    return _drawn(what, total) if sys.stderr.isatty() and total else nullcontext(BytesDone(total, lambda _: None))


@contextmanager
def _drawn(what: str, total: int) -> Iterator[BytesDone]:
    from rich import progress  # noqa: PLC0415  needed only on a terminal
    from rich.console import Console  # noqa: PLC0415

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.DownloadColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(what, total=total)
        done = BytesDone(total, lambda completed: drawn.update(task, completed=completed))
        with storage.counting_reads(done.read):
            yield done


class Watched:
    """A runner that shows a progress bar; ``passes`` is how often a task of the operation reads its log."""

    def __init__(self, run: storage.MaintenanceRun, passes: int = 1) -> None:
        self._run, self._passes = run, passes

    def __call__(self, what: str, task: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        """Returns the results of ``task`` as they are taken; the bar is shown until the last one."""
        sizes = [each.log_bytes(self._run) if isinstance(each, storage.ReadsLog) else 0 for each in items]
        with bar(what, self._passes * sum(sizes)) as done:
            for item, size in zip(items, sizes, strict=True):
                yield task(item)
                done.end(self._passes * size)
