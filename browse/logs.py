"""The log that pages show: opened a few times, and kept open, so that a page reads only what was appended since."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from ..storage import GroupLags, LogManager, LogWatcher, Marks, TopicPartition

Look = Callable[[TopicPartition], AbstractContextManager[LogWatcher]]

AT_ONCE = 4  # pages that read at the same time; others wait


class OpenLog:
    """A log for one page at a time: the managers of logs belong to one thread."""

    def __init__(self, log_dir: str) -> None:
        self.manager = LogManager.open(log_dir)
        self.lags = GroupLags(self.manager)
        self.looks = self.lags.looks
        self.opened = set[TopicPartition]()  # logs whose earlier reads ``looks`` knows

    def looking(self) -> Look:
        """Returns a function that opens a log as it is now; this call reads the checkpoints of all logs, once."""
        marks = self.manager.all_marks()
        return lambda each: self.looks.look(each, marks.get(each, Marks()))


class Logs:
    """Lends a log to pages. Each page sees the log as it was when the page was requested."""

    def __init__(self, log_dir: str, at_once: int = AT_ONCE) -> None:
        self._log_dir, self._idle_max = log_dir, at_once
        self._slots = threading.Semaphore(at_once)
        self._idle: list[OpenLog] = []  # the last one was used last, and knows the most

    @contextmanager
    def open(self) -> Iterator[OpenLog]:
        """Yields the log as it is now, for the ``with`` block. Raises the errors of :meth:`LogManager.open`."""
        with self._slots:
            try:
                log = self._idle.pop()
            except IndexError:
                log = OpenLog(self._log_dir)
            try:
                log.manager.catch_up()
                yield log
            finally:
                if len(self._idle) < self._idle_max:
                    self._idle.append(log)
                else:  # pages whose turns were lent have opened more
                    log.manager.close()

    @contextmanager
    def lend_turn(self) -> Iterator[None]:
        """Gives the turn that :meth:`open` took to another page, for a ``with`` block that does not read the log."""
        self._slots.release()
        try:
            yield
        finally:
            self._slots.acquire()

    def close(self) -> None:
        """Closes the logs that no page reads."""
        while self._idle:
            self._idle.pop().manager.close()
