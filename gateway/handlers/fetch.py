"""Fetch: answers at once if there is enough data, and waits for more otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from uuid import UUID

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError
from ...protocol.fetch import Fetched, FetchPartition, encode_fetched, is_by_topic_id, parse_fetch
from ...storage import Isolation, TopicPartition
from ..context import Context
from ..fetch_sessions import Fetching
from ..network.file_slice import FileSlice, Part, release
from ..network.loop import Timer
from ..partitions.led_partition import InTierError, LedPartition
from ..partitions.open_partitions import NotOpenError
from ..quotas.entities import CONSUMER_BYTE_RATE
from ..request import Request
from ..security.rules import Operation
from ..threads.fair import FairTask
from .access.guards import check_topic
from .epochs import UNKNOWN_EPOCH, check_leader_epoch
from .old.fetch import OLD_FORMATS_BELOW, fetch_old_format
from .tiers.fetch import InTier, TierReading

WAIT_MAX_MS = 30_000  # an answer may always be early, so no fetch is kept for days
STORAGE_ERROR_FROM = 6  # the first version whose clients know KAFKA_STORAGE_ERROR
ZSTD_FROM = 10  # the first version whose clients can read zstd


class _BehindError(Exception):
    """A client asks for an offset above the log end that this node knows so far."""

    def __init__(self, led: LedPartition) -> None:
        self.led = led


class _TierError(Exception):
    """Some partitions must be read from the tier; the others have left ``left`` bytes unused."""

    def __init__(self, asked: Sequence[InTier], left: int) -> None:
        self.asked, self.left = asked, left


class _BusyError(Exception):
    """Another thread uses a partition, perhaps for long, and this thread must not wait."""


def fetch(request: Request, context: Context) -> None:
    """Answers when there are ``min_bytes``, when a partition has an error, or after ``max_wait_ms``."""
    frame, limits = request.exchange.frame, request.limits
    asked = parse_fetch(frame, request.body_at, request.version, limits.entries_max)
    try:
        fetching = context.sessions.resolve(asked, request.principal, by_topic_id=is_by_topic_id(request.version))
    except RequestError as error:
        throttle_ms = context.throttled_ms(request, CONSUMER_BYTE_RATE, 0)
        request.answer_parts(encode_fetched((), request.version, error.code, throttle_ms=throttle_ms))
        return
    _Fetching(request, context, fetching).look()


class _Fetching:
    """A fetch in progress. Its methods run in the thread of its connection, except for :meth:`_wake`.

    :meth:`_try_read` runs in another thread if it waits for an object store, or for a thread that uses the partition,
    and while the conversion to an old format takes long.
    """

    def __init__(self, request: Request, context: Context, fetching: Fetching) -> None:
        self._request, self._context, (asked, self._asked, self._send) = request, context, fetching
        self._isolation = Isolation.READ_COMMITTED if asked.is_committed_only else Isolation.READ_UNCOMMITTED
        self._max_bytes = min(asked.max_bytes, context.config.fetch_max_bytes)
        self._min_bytes = min(asked.min_bytes, self._max_bytes)
        self._limit = self._max_bytes
        self._deadline_s = time.monotonic() + min(asked.max_wait_ms, WAIT_MAX_MS) / 1000
        self._is_done = self._is_reading = False
        self._timer: Timer | None = None  # of the deadline, once this waits
        self._bytes = 0  # the bytes that a broker would have read; it fills its limits with parts of batches
        self._partitions: Sequence[FetchPartition] = ()  # the partitions to read now, without those that rest
        self._found: Sequence[LedPartition | Exception] = ()  # for each asked partition
        self._seen: Sequence[tuple[int, ...]] = ()  # the ends of each partition before the read
        self._waits_on: list[LedPartition] = []
        self._caught_up: dict[LedPartition, Exception | None] = {}  # with the error, if one could not catch up
        self._tiered: TierReading | None = None  # once the tier was asked

    def look(self) -> None:
        """Answers if there is enough to send or the time is over; otherwise waits."""
        self._request.or_fail(self._look)()

    def _look(self) -> None:
        if self._is_done or self._is_reading:
            return
        self._stop_waiting()
        self._partitions = self._asked.awake(self._terms())
        is_large = len(self._partitions) > self._request.limits.entries_here
        if self._request.version < OLD_FORMATS_BELOW:
            self._convert_aside()
        elif self._context.is_remote or is_large:
            self._read_aside()
        else:
            self._try_read(may_wait=False)()

    def _terms(self) -> tuple[object, ...]:
        """Returns what answers depend on besides the partitions; if it changes, no partition rests."""
        rules = None if self._context.rules is None else self._context.rules.current()
        return rules, self._context.cluster.view, self._context.topics.known, self._request.client, self._isolation

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
        except _TierError as error:
            return partial(self._ask_tier, error.asked, error.left)
        except Exception as error:  # a bug here
            return partial(self._request.fail, error)

    def _open(self, partitions: Collection[TopicPartition]) -> None:
        self._is_reading = False
        self._context.partitions.open_then(partitions, self._wake)

    def _take(self, answers: Sequence[Fetched[Part]]) -> None:
        """Answers with what was read if that is enough or the time is over, else waits."""
        self._is_reading = False
        left_s = self._deadline_s - time.monotonic()
        is_due = left_s <= 0 or not self._asked.partitions or any(each.error for each in answers)
        if is_due or self._bytes >= min(self._min_bytes, max(self._limit, 1)) or self._request.exchange.is_stopping:
            self._is_done = True
            if self._timer is not None:
                self._timer.cancel()
            whole = self._asked.whole(answers)
            self._count(whole)
            sent, session_id = self._send(whole)
            self._settle(answers, self._asked.finish)
            size = sum(each.size for each in sent)
            throttle_ms = self._context.throttled_ms(self._request, CONSUMER_BYTE_RATE, size)
            self._request.answer_parts(
                encode_fetched(sent, self._request.version, session_id=session_id, throttle_ms=throttle_ms)
            )
        else:
            _release(answers)
            self._settle(answers, self._asked.settle)
            self._wait(left_s)

    def _settle(self, answers: Sequence[Fetched[Part]], settle: Callable[..., None]) -> None:
        settle(answers, self._found, self._seen, is_committed=self._isolation is Isolation.READ_COMMITTED)

    def _count(self, answers: Sequence[Fetched[Part]]) -> None:
        resting = map(self._name, self._asked.resting_topics())
        sizes = {name: 0 for name in resting if name is not None}
        for each in answers:
            name = self._name(each.topic)
            if name is not None and not each.error:
                sizes[name] = sizes.get(name, 0) + each.size
        self._context.figures.fetched(sizes)
        failed = sum(1 for each in answers if each.error)
        if failed:
            self._context.figures.failed(fetches=failed)

    def _wait(self, left_s: float) -> None:
        self._request.park_parsed()
        if self._timer is None:
            self._timer = self._request.exchange.later(left_s, self.look)
        if not self._has_registered():
            self._wake()  # something moved since it was read
            return
        self._context.partitions.waits.add(self._wake, [*self._waits_on, *self._asked.resting()])

    def _has_registered(self) -> bool:
        """Registers to be woken when a partition moves; returns False if one has moved since it was read."""
        if not self._asked.wait(self._wake):
            return False
        for index, (led, seen) in enumerate(zip(self._found, self._seen, strict=True)):
            if self._asked.is_awaited(index):
                continue
            if isinstance(led, Exception) or not led.wait(seen, self._wake):
                return False
            self._waits_on.append(led)
        return True

    def _stop_waiting(self) -> None:
        self._context.partitions.waits.discard(self._wake)
        self._asked.unwait(self._wake)
        for led in self._waits_on:
            led.unwait(self._wake)
        self._waits_on = []

    def _catch_up(self, led: LedPartition) -> None:
        """Reads what other processes appended, such as the previous leader, then tries the fetch again."""
        self._is_reading = False
        self._request.exchange.park()

        def caught_up(error: Exception | None) -> None:
            self._caught_up[led] = error
            self._wake()

        self._context.appender.catch_up(led, caught_up)

    def _ask_tier(self, asked: Sequence[InTier], left: int) -> None:
        """Reads what the tier has, in its threads and for a limited time, then tries the fetch again."""

        def answered() -> None:
            self._is_reading = False
            self.look()

        self._is_reading = True
        self._tiered = TierReading(self._request, self._context, self._isolation)
        self._tiered.ask(asked, left, answered)

    def _wake(self) -> None:
        self._request.exchange.processor.call_soon(self.look)

    def _name(self, topic: str | UUID) -> str | None:
        return self._context.topics.last_name_of(topic) if isinstance(topic, UUID) else topic

    def _find(self) -> Sequence[LedPartition | Exception]:
        """Returns each partition, or why it cannot be read. Raises NotOpenError with all that must be opened."""
        found = [self._led(each) for each in self._partitions]
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
        if self._context.is_remote:  # the data stays in memory until the client has received it
            self._limit = min(self._max_bytes, self._context.answers.room())
        left, answers = self._limit, list[Fetched[Part]]()
        has_records, self._bytes = False, 0
        self._found = self._find()
        self._seen = [() if isinstance(each, Exception) else each.ends for each in self._found]
        if not may_wait and any(each.is_busy for each in self._found if isinstance(each, LedPartition)):
            raise _BusyError
        in_tier = list[InTier]()
        for each, led in zip(self._partitions, self._found, strict=True):
            try:
                answer = self._read_one(each, led, left, min_one_batch=not has_records)
            except InTierError:
                assert isinstance(led, LedPartition)
                if self._tiered is None:
                    in_tier.append(InTier(each, led))
                    continue
                answer = self._from_tier(self._tiered, InTier(each, led), left, min_one_batch=not has_records)
            except _BehindError:
                _release(answers)
                raise
            except Exception as error:
                answer = Fetched(each.topic, each.partition, self._code_of(error))
            has_records = has_records or bool(answer.size)
            left -= answer.size
            answers.append(answer)
        if in_tier:
            _release(answers)
            raise _TierError(in_tier, left)
        return answers

    def _from_tier(self, tiered: TierReading, asked: InTier, left: int, *, min_one_batch: bool) -> Fetched[Part]:
        self._bytes += self._min_bytes  # forces an answer now: the tier is read only once
        try:
            return tiered.answer(asked, left, min_one_batch=min_one_batch)
        except Exception as error:
            return Fetched(asked.each.topic, asked.each.partition, self._code_of(error))

    def _code_of(self, error: Exception) -> ErrorCode:
        """Returns the code for the error of a partition; an older client gets one after which it asks again.

        It would take KAFKA_STORAGE_ERROR, which it does not know, for an error that ends it
        (``KafkaApis.maybeDownConvertStorageError``).
        """
        code = self._context.code_of(error)
        is_unknown = code is ErrorCode.kafka_storage_error and self._request.version < STORAGE_ERROR_FROM
        return ErrorCode.not_leader_or_follower if is_unknown else code

    def _read_one(
        self, each: FetchPartition, led: LedPartition | Exception, left: int, *, min_one_batch: bool
    ) -> Fetched[Part]:
        if isinstance(led, Exception):
            error = self._code_of(led)
            return Fetched(each.topic, each.partition, error, aborted=())  # not null, as in a broker's answer
        check_leader_epoch(led, max(each.leader_epoch, UNKNOWN_EPOCH), self._context)
        if each.offset > led.high_watermark and led.is_behind:
            if led not in self._caught_up:
                raise _BehindError(led)
            failure = self._caught_up[led]
            if failure is not None:  # the offset may exist, so the client must not reset to another one
                raise failure
        version = self._request.version
        if version < ZSTD_FROM and led.config.compression_type == "zstd":  # whatever its batches have, as on a broker
            return Fetched(each.topic, each.partition, ErrorCode.unsupported_compression_type, aborted=())
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
