"""Mirror: copies all sources into one target, in one long-running process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event, Thread

from ..storage import InvalidConfigError, LogStoreError, TransactionAbortedError
from .errors import MirrorError, RetriableError
from .session import Session, SourceState, Work
from .settings import SourceSettings, TargetSettings
from .sources.port import SourcePartition
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
        queue_size: int | None = None,
        refresh_s: float | None = None,
        report: Callable[[str], None] = print,
    ) -> None:
        """``streams``: threads that fetch from each source. ``queue_size``: records of each source that may wait in
        memory, while one fetch may exceed it; None: two fetches of each stream.

        ``refresh_s``: seconds between two searches for new topics; None: mirror up to the present ends of the topics,
        then stop. ``report`` is called with a sentence about each event that an operator should know. Raises
        InvalidConfigError if two sources have the same group.id, because the target stores progress by group.id.
        """
        groups = [each.group for each in sources]
        for group in sorted({each for each in groups if groups.count(each) > 1}):
            raise InvalidConfigError(
                f"two sources have group.id {group!r}: progress is stored by group.id, so give each source its own"
            )
        if streams < 1:
            raise InvalidConfigError(f"--num.streams is {streams}; it must be at least 1")
        if queue_size is not None and queue_size < 1:
            raise InvalidConfigError(f"--queue.size is {queue_size}; it must be at least 1")
        self._stop = Event()
        self._work = Work(target.targets, choice, streams, queue_size, refresh_s, self._stop, report)
        self._sources = sources
        self._mirrored = {each.group: SourceState() for each in sources}
        self._errors: list[BaseException] = []

    def stop(self) -> None:
        """Makes :meth:`run` return after the open transactions. May be called by a signal handler."""
        self._stop.set()

    def run(self) -> None:
        """Mirrors until it is stopped, or up to the ends of the topics.

        Raises the first error that cannot be retried, and MirrorError if it is stopped before the ends that it should
        reach.
        """
        threads = [Thread(target=self._run, args=(each,), name=f"mirror of {each.group}") for each in self._sources]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]
        if self._work.refresh_s is None and not all(each.is_complete for each in self._mirrored.values()):
            raise MirrorError("the mirror was stopped before the ends of the topics: the next run continues there")

    def reached(self) -> dict[tuple[str, SourcePartition], int]:
        """Returns the next offset of each source partition that :meth:`run` has mirrored, by group.id and partition."""
        return {(group, each): offset for group, done in self._mirrored.items() for each, offset in done.next.items()}

    @property
    def kept(self) -> int:
        """The number of batches whose records were copied without encoding them again."""
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
