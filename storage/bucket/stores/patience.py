"""How long, and how often, requests to a store are repeated.

Two settings are taken from the environment, as credentials are, because it reaches every process of Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random
from typing import NamedTuple, TypeVar

from ...clock import Clock
from ...errors import CorruptionError, InvalidConfigError, ObjectMissingError, ObjectStoreError, StoreAccessError
from ...filesystem.locks import environment
from .port import ObjectStore

_Result = TypeVar("_Result")
DELIVERY_TIMEOUT = "COMMITLOG_DELIVERY_TIMEOUT_MS"  # Kafka's delivery.timeout.ms
RETRIES = "COMMITLOG_RETRIES"  # Kafka's retries
_MOST = 2**31 - 1
REFUSALS_MAX = 10  # consecutive refusals; with the pauses between them, some 10 s
_DAMAGED_READS = 3  # an object is read this often before it is called damaged: an answer may be cut short

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


def patiently(attempts: Attempts, read: Callable[[], _Result]) -> _Result:
    """Returns the result of ``read``; repeats it while the store fails, and a few times if it finds damage.

    Raises the last error at the deadline; ObjectMissingError and StoreAccessError at once.
    """
    damaged = 0
    while True:
        try:
            return read()
        except (ObjectMissingError, StoreAccessError):
            raise
        except CorruptionError:
            damaged += 1
            if damaged == _DAMAGED_READS:
                raise
        except ObjectStoreError as error:
            if not attempts.wait(error):
                raise


def read_object(
    store: ObjectStore, key: str, limit: int, decode: Callable[[bytes], _Result], attempts: Attempts
) -> _Result | None:
    """Returns the decoded content of an object of at most ``limit`` bytes; None if the object does not exist.

    Raises CorruptionError with the object's name, and the errors of :func:`patiently`.
    """

    def read() -> _Result:
        try:
            return decode(store.get(key, limit=limit))
        except CorruptionError as error:
            raise error.located(f"{store.url}/{key}") from None

    try:
        return patiently(attempts, read)
    except ObjectMissingError:
        return None
