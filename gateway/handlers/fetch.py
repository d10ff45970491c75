"""Fetch: answers at once if there is enough data, and waits for more otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from uuid import UUID

from ...protocol import (
    ErrorCode,
    Fetched,
    FetchPartition,
    FetchRequest,
    RequestError,
    encode_fetched,
    parse_fetch,
)
from ...storage import Isolation, TopicPartition
from ..context import Context
from ..network import FileSlice, Part, Timer, release
from ..partitions import LedPartition, NotOpenError
from ..request import Request
from ..security import Operation
from ..threads import FairTask
from .access import check_topic
from .epochs import UNKNOWN_EPOCH, check_leader_epoch
from .old import OLD_FORMATS_BELOW, fetch_old_format

FULL_EPOCHS = (0, -1)  # of a session: the client asks for all partitions, to begin a session or to end it
WAIT_MAX_MS = 30_000  # an answer may always come earlier; so no fetch is kept for days


class _BehindError(Exception):
    """A client asks for an offset above the log end that this node knows so far."""

    def __init__(self, led: LedPartition) -> None:
        self.led = led


class _BusyError(Exception):
    """A thread uses a partition, perhaps for long, and this one must not wait."""


def fetch(request: Request, context: Context) -> None:
    """Answers when there are ``min_bytes``, when a partition has an error, or after ``max_wait_ms``."""
    frame, limits = request.exchange.frame, request.limits
    asked = parse_fetch(frame, request.body_at, request.version, limits.entries_max)
    if asked.session_epoch not in FULL_EPOCHS:  # no session was ever begun
        request.answer_parts(encode_fetched((), request.version, ErrorCode.fetch_session_id_not_found))
        return
    _Fetching(request, context, asked).look()


class _Fetching:
    """A fetch in progress. Its methods run in the thread of its connection, except for :meth:`_wake`.

    :meth:`_try_read` runs in another thread if it waits for an object store, or for a thread that uses the partition,
    and while the conversion to an old format takes long.
    """

    def __init__(self, request: Request, context: Context, asked: FetchRequest) -> None:
        self._request, self._context, self._asked = request, context, asked
        self._isolation = Isolation.READ_COMMITTED if asked.is_committed_only else Isolation.READ_UNCOMMITTED
        self._max_bytes = min(asked.max_bytes, context.config.fetch_max_bytes)
        self._min_bytes = min(asked.min_bytes, self._max_bytes)
        self._limit = self._max_bytes
        self._deadline_s = time.monotonic() + min(asked.max_wait_ms, WAIT_MAX_MS) / 1000
        self._is_done = self._is_reading = False
        self._timer: Timer | None = None  # of the deadline, once this waits
        self._bytes = 0  # that a broker would have read, which fills the limits with parts of batches
        self._found: Sequence[LedPartition | Exception] = ()  # for each partition that is asked for
        self._seen: Sequence[tuple[int, ...]] = ()  # the ends of each, before it was read
        self._waits_on: list[LedPartition] = []
        self._caught_up: dict[LedPartition, Exception | None] = {}  # and why one could not

    def look(self) -> None:
        """Answers if there is enough to send or the time is over, else waits."""
        self._request.or_fail(self._look)()

    def _look(self) -> None:
        if self._is_done or self._is_reading:
            return
        for led in self._waits_on:
            led.unwait(self._wake)
        self._waits_on = []
        is_large = len(self._asked.partitions) > self._request.limits.entries_here
        if self._request.version < OLD_FORMATS_BELOW:
            self._convert_aside()
        elif self._context.is_remote or is_large:
            self._read_aside()
        else:
            self._try_read(may_wait=False)()

    def _convert_aside(self) -> None:
        """Reads in the thread for conversions, one after the other, so that they never hold much memory together."""
        self._is_reading = True
        exchange = self._request.exchange
        drop = partial(exchange.connection.send_away, "too many conversions of records wait")
        read = lambda: exchange.processor.call_soon(self._try_read(may_wait=True))  # noqa: E731
        self._context.workers.conversions.run(exchange.connection, FairTask(read, drop))

    def _read_aside(self) -> None:
        """Reads in another thread."""
        self._is_reading = True
        self._context.cold.submit(self._read_and_go_on)

    def _read_and_go_on(self) -> None:
        step = self._request.or_fail(self._try_read(may_wait=True))
        self._request.exchange.processor.call_soon(step)

    def _try_read(self, *, may_wait: bool) -> Callable[[], None]:
        """Reads; returns a function with the next step, to be called in the thread of the connection."""
        try:
            return partial(self._take, self._read(may_wait=may_wait))
        except _BusyError:
            return self._read_aside
        except NotOpenError as error:  # not yet, or closed while this waited
            return partial(self._open, error.partitions)
        except _BehindError as error:
            return partial(self._catch_up, error.led)
        except Exception as error:  # of ours
            return partial(self._request.fail, error)

    def _open(self, partitions: Collection[TopicPartition]) -> None:
        self._is_reading = False
        self._context.partitions.open_then(partitions, self._wake)

    def _take(self, answers: Sequence[Fetched[Part]]) -> None:
        """Answers with what was read if that is enough or the time is over, else waits."""
        self._is_reading = False
        left_s = self._deadline_s - time.monotonic()
        is_due = left_s <= 0 or not answers or any(each.error for each in answers)
        if is_due or self._bytes >= min(self._min_bytes, max(self._limit, 1)) or self._request.exchange.is_stopping:
            self._is_done = True
            if self._timer is not None:
                self._timer.cancel()
            self._count(answers)
            self._request.answer_parts(encode_fetched(answers, self._request.version))
        else:
            _release(answers)
            self._wait(left_s)

    def _count(self, answers: Sequence[Fetched[Part]]) -> None:
        sizes: dict[str, int] = {}
        for each in answers:
            name = self._name(each.topic)
            if name is not None and not each.error:
                sizes[name] = sizes.get(name, 0) + each.size
        self._context.figures.fetched(sizes)
        failed = sum(1 for each in answers if each.error)
        if failed:
            self._context.figures.failed(fetches=failed)

    def _wait(self, left_s: float) -> None:
        self._request.exchange.park()
        if self._timer is None:
            self._timer = self._request.exchange.later(left_s, self.look)
        for led, seen in zip(self._found, self._seen, strict=True):
            if isinstance(led, Exception) or not led.wait(seen, self._wake):
                self._wake()  # it moved since it was read
                return
            self._waits_on.append(led)

    def _catch_up(self, led: LedPartition) -> None:
        """Reads what other processes appended, such as the previous leader, then tries the fetch again."""
        self._is_reading = False
        self._request.exchange.park()

        def caught_up(error: Exception | None) -> None:
            self._caught_up[led] = error
            self._wake()

        self._context.appender.catch_up(led, caught_up)

    def _wake(self) -> None:
        self._request.exchange.processor.call_soon(self.look)

    def _name(self, topic: str | UUID) -> str | None:
        return self._context.topics.last_name_of(topic) if isinstance(topic, UUID) else topic

    def _find(self) -> Sequence[LedPartition | Exception]:
        """Returns each partition, or why it cannot be read. Raises NotOpenError with all that are to be opened."""
        found = [self._led(each) for each in self._asked.partitions]
        unopened = {one for each in found if isinstance(each, NotOpenError) for one in each.partitions}
        if unopened:
            raise NotOpenError(unopened)
        return found

    def _led(self, each: FetchPartition) -> LedPartition | Exception:
        name = self._name(each.topic)
        if name is None:
            return RequestError(ErrorCode.unknown_topic_id)
        try:
            check_topic(self._request, self._context, Operation.READ, name)
        except RequestError as error:
            return error
        return self._context.partitions.look(name, each.partition)

    def _read(self, *, may_wait: bool) -> list[Fetched[Part]]:
        if self._context.is_remote:  # what was read is in memory until the client has taken it
            self._limit = min(self._max_bytes, self._context.answers.room())
        left, answers = self._limit, list[Fetched[Part]]()
        has_records, self._bytes = False, 0
        self._found = self._find()
        self._seen = [() if isinstance(each, Exception) else each.ends for each in self._found]
        if not may_wait and any(each.is_busy for each in self._found if isinstance(each, LedPartition)):
            raise _BusyError
        for each, led in zip(self._asked.partitions, self._found, strict=True):
            try:
                answer = self._read_one(each, led, left, min_one_batch=not has_records)
            except _BehindError:
                _release(answers)
                raise
            except Exception as error:
                answer = Fetched(each.topic, each.partition, self._context.code_of(error))
            has_records = has_records or bool(answer.size)
            left -= answer.size
            answers.append(answer)
        return answers

    def _read_one(
        self, each: FetchPartition, led: LedPartition | Exception, left: int, *, min_one_batch: bool
    ) -> Fetched[Part]:
        if isinstance(led, Exception):
            error = self._context.code_of(led)
            return Fetched(each.topic, each.partition, error, aborted=())  # not null, as in a broker's answer
        check_leader_epoch(led, max(each.leader_epoch, UNKNOWN_EPOCH), self._context)
        if each.offset > led.high_watermark and led.is_behind:
            if led not in self._caught_up:
                raise _BehindError(led)
            failure = self._caught_up[led]
            if failure is not None:  # the offset may be there, so the client must not begin elsewhere
                raise failure
        version = self._request.version
        if version < OLD_FORMATS_BELOW:
            most = self._context.config.commitlog_rewritten_max_decompressed_bytes
            old = fetch_old_format(led, each, left, version, most, min_one_batch=min_one_batch)
            self._bytes += old.size
            return old._replace(records=self._held(old.records))
        limit = min(each.max_bytes, left)
        found = led.slice(each.offset, limit, self._isolation, min_one_batch=min_one_batch)
        size = 0 if found.records is None else len(found.records)
        self._bytes += max(size, limit) if found.is_cut else size
        return Fetched(
            each.topic,
            each.partition,
            high_watermark=found.high_watermark,
            last_stable_offset=found.last_stable_offset,
            log_start_offset=found.log_start_offset,
            aborted=found.aborted,
            records=self._held(found.records),
        )

    def _held(self, records: Part | None) -> Part | None:
        if not self._context.is_remote or records is None or isinstance(records, FileSlice):
            return records
        return self._context.answers.hold(records)


def _release(answers: Sequence[Fetched[Part]]) -> None:
    """Releases files that were found but will not be sent."""
    for each in answers:
        if each.records is not None:
            release(each.records)
