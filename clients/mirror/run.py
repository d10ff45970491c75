"""Mirror: all sources into one target, as one lasting process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event, Thread

from ...storage import InvalidConfigError, LogStoreError, TopicPartition, TransactionAbortedError
from ..errors import RetriableError
from .session import Mirrored, Session, Work
from .settings import SourceSettings, TargetSettings
from .topics import TopicChoice

_PAUSES_S = (0.2, 1.0, 5.0, 15.0, 30.0)  # before a source is tried again; the last one repeats
_FOR_NOW = (RetriableError, TransactionAbortedError)  # errors after which another session may go on


class Mirror:
    """Mirrors each source in a thread of its own. Use :meth:`run` once."""

    def __init__(
        self,
        sources: Sequence[SourceSettings],
        target: TargetSettings,
        choice: TopicChoice,
        *,
        streams: int = 1,
        refresh_s: float | None = None,
        report: Callable[[str], None] = print,
    ) -> None:
        """``streams``: threads that fetch from each source.

        ``refresh_s``: seconds between two looks for new topics; None: mirror up to the ends that the topics have now,
        then stop. ``report`` takes a sentence for people about each thing that they may want to look at. Raises
        InvalidConfigError if two sources have one group.id, by which the target knows their progress.
        """
        groups = [each.group for each in sources]
        for group in sorted({each for each in groups if groups.count(each) > 1}):
            raise InvalidConfigError(
                f"two sources have group.id {group!r}: the progress of a source is kept by it, so give each its own"
            )
        if streams < 1:
            raise InvalidConfigError(f"--num.streams is {streams}; it must be at least 1")
        self._stop = Event()
        self._work = Work(target.targets, choice, streams, refresh_s, self._stop, report)
        self._sources = sources
        self._mirrored = {each.group: Mirrored() for each in sources}
        self._errors: list[BaseException] = []

    def stop(self) -> None:
        """Lets :meth:`run` return after the transactions that are being written. May be called by a signal handler."""
        self._stop.set()

    def run(self) -> None:
        """Mirrors until it is stopped, or up to the ends of the topics. Raises the first error that no retry mends."""
        threads = [Thread(target=self._run, args=(each,), name=f"mirror of {each.group}") for each in self._sources]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def reached(self) -> dict[tuple[str, TopicPartition], int]:
        """Returns the next offset of each partition that :meth:`run` mirrored from, by group.id and partition."""
        return {(group, each): offset for group, done in self._mirrored.items() for each, offset in done.next.items()}

    @property
    def kept(self) -> int:
        """How many batches kept the bytes of their records."""
        return sum(each.kept for each in self._mirrored.values())

    def _run(self, settings: SourceSettings) -> None:
        mirrored = self._mirrored[settings.group]
        failures = 0
        while not self._stop.is_set():
            before = dict(mirrored.next)
            try:
                Session(settings, self._work, mirrored).run()
                return
            except _FOR_NOW as error:
                failures = 1 if mirrored.next != before else failures + 1
                if self._work.refresh_s is None and failures > len(_PAUSES_S):
                    self._fail(error)
                    return
                pause_s = _PAUSES_S[min(failures, len(_PAUSES_S)) - 1]
                self._work.report(f"group.id {settings.group}: {error}; trying again in {pause_s:g} s")
                self._stop.wait(pause_s)
            except BaseException as error:  # the thread that runs the mirror raises it
                if isinstance(error, LogStoreError):
                    error.add_note(f"while mirroring for group.id {settings.group}")
                self._fail(error)
                return

    def _fail(self, error: BaseException) -> None:
        self._errors.append(error)
        self._stop.set()
