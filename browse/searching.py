"""A search in a thread of its own: a page takes records as they are found, and may stop the search at any time.

A search may follow the topic: after it has reached the end, it checks for new records, and searches them too.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, Full, Queue
from typing import NamedTuple

from ..storage import (
    Bounds,
    Condition,
    Isolation,
    LogStoreError,
    OffsetOutOfRangeError,
    Search,
    TopicIds,
    TopicPartition,
    counting_reads,
    find_made_again,
    topic_ids,
)
from .logs import Logs, OpenLog
from .records import Record, to_record

FOUND_MAX = 500  # records of one page; then the search stops, and the page states that
WAITING_MAX = 100  # records that the page has not taken yet; then the search waits
TURN_KEPT_S = 1.0  # how long in all it waits so within one turn; after that, another search has the turn
UNTAKEN_S = 60  # how long a search without its turn waits in all for its page to take records
FOLLOWED_S = 600  # how long a search checks for new records; then the page has a link to continue
LOOK_EVERY_S = 1.0  # seconds between checks for new records; longer if a check takes more than a tenth of that
FOLLOWERS_MAX = 10  # in this process

_followers = threading.BoundedSemaphore(FOLLOWERS_MAX)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wanted:
    """The request for a search."""

    topic: str
    condition: Condition
    bounds: Bounds
    all_partitions: bool = False
    newest_first: bool = False
    isolation: Isolation = Isolation.READ_COMMITTED
    follows: bool = False  # new records too
    only_new: bool = False  # no others


class Hit(NamedTuple):
    """A record that was found."""

    partition: TopicPartition
    record: Record


class Progress(NamedTuple):
    """The progress of a search, in bytes of logs."""

    done: int
    total: int
    partitions: int  # how many partitions are searched
    is_waiting: bool = False  # for new records


class SearchEnd(NamedTuple):
    """The end of a search: everything was searched unless a field states otherwise."""

    is_full: bool = False  # it stopped after FOUND_MAX
    unsearched: tuple[str, ...] = ()
    error: str = ""
    followed_s: float | None = None  # how long the topic was followed, if that limit ended the search


class _StoppedError(Exception):
    """Ends the thread of a search, from within one of its reads."""


class RunningSearch:
    """Searches until the end, or until it is stopped. The caller stops it in any case."""

    def __init__(self, logs: Logs, wanted: Wanted) -> None:
        self._logs, self._wanted = logs, wanted
        self._found: Queue[Hit | SearchEnd] = Queue(WAITING_MAX)
        self._turn_s = TURN_KEPT_S  # how much longer it may wait for its page within this turn
        self._patience_s: float = UNTAKEN_S
        self._stopped = threading.Event()
        self._done = self._total = self._partitions = self._count = 0
        self._is_waiting = False
        self._ids: TopicIds = {}  # the topic's id, as found before its first search
        self._thread = threading.Thread(target=self._run, name="browse-search", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops the search at its next read of a log."""
        self._stopped.set()

    @property
    def is_running(self) -> bool:
        """Whether its thread still reads."""
        return self._thread.is_alive()

    def take(self, timeout_s: float) -> Hit | SearchEnd | Progress:
        """Returns the next record, or the end, or if neither comes within ``timeout_s`` the progress."""
        with suppress(Empty):
            return self._found.get(timeout=timeout_s)
        if self.is_running:
            return Progress(min(self._done, self._total), self._total, self._partitions, self._is_waiting)
        with suppress(Empty):  # it has just ended
            return self._found.get_nowait()
        return SearchEnd(error="it was stopped, because its records were taken too slowly; narrow it, and search again")

    def _run(self) -> None:
        try:
            self._put(self._search())
        except _StoppedError:
            pass
        except LogStoreError as error:
            self._put(SearchEnd(error=str(error)))
        except Exception as error:  # the message may have parts of records
            where = "".join(traceback.format_tb(error.__traceback__))
            logger.error("%s in a search:\n%s", type(error).__name__, where)
            self._put(SearchEnd(error=f"{type(error).__name__}; see the log"))

    def _search(self) -> SearchEnd:
        with self._counted():
            return self._followed() if self._wanted.follows else self._once({}, {})

    def _followed(self) -> SearchEnd:
        """Searches the existing records, and then appended ones, each time from where the last search ended."""
        if not _followers.acquire(blocking=False):
            return SearchEnd(error=f"{FOLLOWERS_MAX} pages follow topics already; close one of them")
        try:
            until, ends, unsearched = time.monotonic() + FOLLOWED_S, dict[TopicPartition, int](), dict[str, None]()
            while True:
                began = time.monotonic()
                end = self._once(ends, unsearched)
                self._is_waiting = True
                if end.is_full or time.monotonic() > until:
                    return end if end.is_full else end._replace(followed_s=FOLLOWED_S)
                if self._stopped.wait(max(LOOK_EVERY_S, 9 * (time.monotonic() - began))):
                    raise _StoppedError
        finally:
            _followers.release()

    def _once(self, ends: dict[TopicPartition, int], unsearched: dict[str, None]) -> SearchEnd:
        """Searches from ``ends`` on, and sets them to the ends of this search; adds to ``unsearched``.

        Raises OffsetOutOfRangeError if ``ends`` are those of a topic that was deleted and made again.
        """
        with self._logs.open() as log:
            self._turn_s = TURN_KEPT_S
            ids = self._ids or topic_ids(log.manager, log.manager.topic(self._wanted.topic).topic_partitions)
            with self._opened(log, ends, unsearched) as search:
                # Only now: an id never comes back, so if it is the same, the open logs are those of the topic.
                if text := find_made_again(ids, topic_ids(log.manager, search.partitions)):
                    raise OffsetOutOfRangeError(f"{text}; load the page again to search the new one")
                self._ids = ids
                return self._found_in(search, ends, unsearched)

    def _opened(self, log: OpenLog, ends: Mapping[TopicPartition, int], unsearched: dict[str, None]) -> Search:
        wanted = self._wanted
        return Search(
            log.manager,
            wanted.topic,
            wanted.condition,
            wanted.bounds,
            all_partitions=wanted.all_partitions,
            newest_first=wanted.newest_first and not ends,
            isolation=wanted.isolation,
            report=lambda part: unsearched.setdefault(str(part)),
            starts=ends,
        )

    def _found_in(self, search: Search, ends: dict[TopicPartition, int], unsearched: dict[str, None]) -> SearchEnd:
        self._partitions = len(search.partitions)
        is_first = not ends
        ends |= search.ends
        if is_first:
            self._done, self._total = 0, search.log_bytes
        if is_first and self._wanted.only_new:
            return SearchEnd()
        for found in search:
            for row in range(len(found.records)):
                self._put_hit(Hit(found.partition, to_record(found.records, row)))
                self._count += 1
                if self._count == FOUND_MAX:
                    return SearchEnd(True, tuple(unsearched))
        return SearchEnd(False, tuple(unsearched))

    def _put_hit(self, hit: Hit) -> None:
        """Adds a record. If its page takes them slowly, other searches do not wait for this one's turn to end."""
        began = time.monotonic()
        try:
            self._found.put(hit, timeout=max(0.0, self._turn_s))
        except Full:
            with self._logs.lend_turn():
                self._put(hit)
            self._turn_s = TURN_KEPT_S
        else:
            self._turn_s -= time.monotonic() - began

    def _put(self, item: Hit | SearchEnd) -> None:
        began = time.monotonic()
        while time.monotonic() - began < self._patience_s and not self._stopped.is_set():
            try:
                self._found.put(item, timeout=0.2)
            except Full:
                continue
            self._patience_s -= time.monotonic() - began
            return
        raise _StoppedError

    @contextmanager
    def _counted(self) -> Iterator[None]:
        thread = threading.get_ident()

        def count(size: int) -> None:
            if threading.get_ident() == thread:
                self._done += size
                if self._stopped.is_set():
                    raise _StoppedError

        with counting_reads(count):
            yield
