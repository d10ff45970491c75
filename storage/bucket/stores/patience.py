"""How long, and how often, requests to a store are repeated: a decorator of the port.

Two settings are taken from the environment, as credentials are, because it reaches every process of Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from random import Random, SystemRandom
from typing import NamedTuple, TypeVar

from ...clock import Clock, SystemClock
from ...errors import (
    CorruptionError,
    InvalidConfigError,
    ObjectMissingError,
    ObjectStoreError,
    StorageError,
    StoreAccessError,
)
from ...filesystem.locks import environment
from .port import ObjectFacts, ObjectStore, RangeStore

_Result = TypeVar("_Result")
DELIVERY_TIMEOUT = "COMMITLOG_DELIVERY_TIMEOUT_MS"  # Kafka's delivery.timeout.ms
RETRIES = "COMMITLOG_RETRIES"  # Kafka's retries
_MOST = 2**31 - 1
REFUSALS_MAX = 10  # consecutive refusals; with the pauses between them, some 10 s
_DAMAGED_READS = 3  # an object is read this often before it is called damaged: an answer may be cut short
_COMPARED_BYTES = 16  # the tail of a staged object, which has the checksums of all of it

logger = logging.getLogger(__name__)


class Patience(NamedTuple):
    """Limits of repeated requests, in ms."""

    deadline_ms: int = 120_000
    first_ms: int = 50  # the longest first pause; each next one may be twice as long
    most_ms: int = 5_000

    @classmethod
    def of_process(cls) -> Patience:
        """Returns the limits that the environment sets. Raises InvalidConfigError."""
        return cls(deadline_ms=_whole_number(DELIVERY_TIMEOUT, 120_000, least=1))


def retries_of_process() -> int:
    """Returns how often the client repeats a request before it reports an error. Raises InvalidConfigError."""
    return _whole_number(RETRIES, 3, least=0)


def _whole_number(name: str, default: int, *, least: int) -> int:
    text = environment(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and least <= int(text) <= _MOST):
        raise InvalidConfigError(f"{name} = {text!r} in the environment: must be a number from {least} to {_MOST}")
    return int(text)


class Attempts:
    """Pauses between attempts, of random lengths so that writers do not meet again, until a deadline."""

    def __init__(self, patience: Patience, clock: Clock, random: Random) -> None:
        self._patience, self._clock, self._random = patience, clock, random
        self._until_ms = clock.monotonic_ms() + patience.deadline_ms
        self._pause_ms = patience.first_ms
        self._refusals = 0

    def are_over(self) -> bool:
        return self._clock.monotonic_ms() >= self._until_ms

    def wait(self, failed: ObjectStoreError) -> bool:
        """Pauses after a failed attempt, and logs the first one, because a store may be silent until the deadline.

        Returns False, at once, if the deadline is over, or if the store has refused access :data:`REFUSALS_MAX` times
        in a row: a refusal may be temporary, but a lasting one needs an administrator.
        """
        self._refusals = self._refusals + 1 if isinstance(failed, StoreAccessError) else 0
        if self.are_over() or self._refusals == REFUSALS_MAX:
            return False
        if self._pause_ms == self._patience.first_ms:
            logger.warning("%s; trying again, for up to %d ms", failed, self._patience.deadline_ms)
        self._clock.sleep_ms(self._random.randint(1, self._pause_ms))
        self._pause_ms = min(2 * self._pause_ms, self._patience.most_ms)
        return True


def attempts_of_process() -> Attempts:
    """Returns the pauses between repeated requests, as long as the environment says. Raises InvalidConfigError."""
    return Attempts(Patience.of_process(), SystemClock(), SystemRandom())


class PatientRanges:
    """Repeats the requests to a store while it fails; each until a deadline of its own. For any thread.

    All operations raise the last error at the deadline; ObjectMissingError and StoreAccessError at once.
    """

    bare: RangeStore  # sends each request once

    def __init__(self, bare: RangeStore, attempts: Callable[[], Attempts] = attempts_of_process) -> None:
        """``attempts`` begins the pauses of one request."""
        self.bare, self._attempts = bare, attempts

    @property
    def url(self) -> str:
        return self.bare.url

    def repeated(self, request: Callable[[], _Result]) -> _Result:
        """Returns what ``request``, which asks :attr:`bare`, returns; repeats it a few times where it finds damage."""
        return _repeated(request, self._attempts())

    def head(self, key: str) -> ObjectFacts | None:
        return self.repeated(lambda: self.bare.head(key))

    def get_range(self, key: str, start: int, length: int) -> memoryview:
        return self.repeated(lambda: self.bare.get_range(key, start, length))

    def read_range(self, key: str, start: int, length: int, object_size: int) -> memoryview:
        """Returns bytes of an object. Raises CorruptionError if it has another size than ``object_size``."""
        attempts = self._attempts()
        try:
            return self.bare.get_range(key, start, length)
        except ObjectStoreError:
            _repeated(lambda: self._check_size(key, object_size), attempts)  # asks again before it calls it damaged
        return _repeated(lambda: self.bare.get_range(key, start, length), attempts)

    def _check_size(self, key: str, size: int) -> None:
        facts = self.bare.head(key)
        if facts is not None and facts.size != size:
            raise CorruptionError(
                f"the object has {facts.size} bytes, but what names it says {size}: restore it",
                path=f"{self.url}/{key}",
            )


class PatientStore(PatientRanges):
    """As :class:`PatientRanges`, for all operations of :class:`ObjectStore` that the log repeats."""

    bare: ObjectStore

    def __init__(self, bare: ObjectStore, attempts: Callable[[], Attempts] = attempts_of_process) -> None:
        super().__init__(bare, attempts)

    def get(self, key: str, *, limit: int) -> bytes:
        return self.repeated(lambda: self.bare.get(key, limit=limit))

    def read(self, key: str, limit: int, decode: Callable[[bytes], _Result]) -> _Result | None:
        """Returns what ``decode`` makes of an object of at most ``limit`` bytes; None if the store says there is none.

        Raises CorruptionError with the object's name.
        """

        def request() -> _Result:
            try:
                return decode(self.bare.get(key, limit=limit))
            except CorruptionError as error:
                raise error.located(f"{self.url}/{key}") from None

        try:
            return self.repeated(request)
        except ObjectMissingError:
            return None

    def put(self, key: str, data: bytes) -> None:
        self.repeated(lambda: self.bare.put(key, data))

    def delete(self, keys: Sequence[str]) -> None:
        self.repeated(lambda: self.bare.delete(keys))

    def put_unique(self, key: str, data: bytes) -> None:
        """Puts an object with a unique name. Raises StorageError if another object has the name.

        After a lost answer, its size and its last bytes tell whether the object is there.
        """
        self.put_or_find(key, data, lambda store: _is_there(store.bare, key, data) or None)

    def put_or_find(self, key: str, data: bytes, find: Callable[[PatientStore], _Result | None]) -> _Result | None:
        """Puts a new object until the store answers, or ``find`` returns what is there; it may be of this call.

        ``find`` reads it after each failure, within the same deadline; it returns None if there is no object yet.
        """
        attempts = self._attempts()
        within = PatientStore(self.bare, lambda: attempts)
        while True:
            try:
                self.bare.put_new(key, data)
                return None
            except ObjectStoreError as error:
                failed = error
            if (found := find(within)) is not None:
                return found
            if not attempts.wait(failed):
                raise failed


def _repeated(request: Callable[[], _Result], attempts: Attempts) -> _Result:
    damaged = 0
    while True:
        try:
            return request()
        except (ObjectMissingError, StoreAccessError):
            raise
        except CorruptionError:
            damaged += 1
            if damaged == _DAMAGED_READS:
                raise
        except ObjectStoreError as error:
            if not attempts.wait(error):
                raise


def _is_there(store: ObjectStore, key: str, data: bytes) -> bool:
    end = data[-_COMPARED_BYTES:]
    try:
        if (facts := store.head(key)) is None:
            return False
        is_same = facts.size == len(data)
        is_same = is_same and store.get_range(key, len(data) - len(end), len(end)) == end
    except ObjectStoreError:
        return False
    if not is_same:
        raise StorageError(f"{store.url}/{key}: another object has this name: two tasks have one attempt's number")
    return True
