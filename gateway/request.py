"""Request: one request of a client, and its answer."""

from __future__ import annotations

import logging
import math
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import get_ident
from typing import Any, ParamSpec

from ..protocol.bodies import ErrorCode, has_error, read_request, write_answer
from ..protocol.errors import RequestError, code_of, message_of
from ..protocol.headers import RequestHeader, answer_header
from .figures import Figures
from .network.exchange import Exchange
from .network.file_slice import Part
from .security.acls import Client
from .security.session import Session

P = ParamSpec("P")
_LENGTH = struct.Struct(">i")

INT32_MAX = 2**31 - 1

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RequestLimits:
    """Limits of one request."""

    entries_here: int = INT32_MAX  # entries of its arrays; a request with more is read and served in another thread
    entries_max: int = INT32_MAX  # with more it is refused
    answer_bytes_max: int = INT32_MAX


class Request:
    """A request whose header was read. It is answered once, at once or later, from any thread.

    Every request ends: if a handler or a thread has lost it through a bug, it closes its connection and no longer
    counts as in progress.
    """

    def __init__(
        self,
        exchange: Exchange,
        header: RequestHeader,
        figures: Figures,
        limits: RequestLimits | None = None,
        *,
        charge: Callable[[Request, float], float] | None = None,
    ) -> None:
        """``charge``: counts the time of threads, in seconds, and returns how long the client must wait.

        None: the time is not counted, which saves a system call to read a thread's clock.
        """
        self._is_ended = False
        self._charge = charge  # None once it was called
        self._spent_s = 0.0
        self._working_since: tuple[int, float] | None = None  # the thread, and its time then
        self._throttled_s = 0.0
        self.exchange = exchange
        self.limits = limits or RequestLimits()
        self._body: Any = None
        self._answer_bytes = 0  # the size of the answer, as far as handlers have built it
        self._figures, self._began_s = figures, time.perf_counter()
        self.key, self.version, self.client_id = header.key, header.version, header.client_id
        self.is_guarded = False  # whether the rules were asked
        self.amend: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None  # adds to the handler's answer
        self._header = header

    @property
    def body(self) -> Any:
        """The body, by kio's names of fields. Raises MalformedRequestError."""
        if self._body is None:
            self.read_body(self.limits.entries_max)
        return self._body

    @body.setter
    def body(self, body: Any) -> None:
        self._body = body

    def read_body(self, entries_max: int) -> None:
        """Reads the body. Raises MalformedRequestError, and TooManyEntriesError if it has more entries."""
        self._body = read_request(self.key, self.version, self.exchange.frame, self._header.body_at, entries_max)

    @property
    def body_at(self) -> int:
        """The position of the body in the frame."""
        return self._header.body_at

    @property
    def session(self) -> Session:
        """The login of the connection."""
        session: Session = self.exchange.connection.session
        return session

    @property
    def principal(self) -> str:
        """The user of the connection, such as ``User:alice``."""
        return self.session.principal

    @property
    def client(self) -> Client:
        """The user of the connection, and its address."""
        return self.session.client

    @property
    def payer(self) -> tuple[str, str]:
        """The user and the client id whose quotas the request counts for."""
        return self.principal.removeprefix("User:"), self.client_id or ""

    @property
    def client_host(self) -> str:
        """The address of the client."""
        return self.exchange.connection.client_host

    @property
    def listener(self) -> str:
        """The name of the listener that the client connected to."""
        return self.exchange.connection.terms.listener

    @property
    def local_host(self) -> str:
        """The server's address that the client connected to."""
        return self.exchange.connection.local_host

    def park_parsed(self) -> None:
        """Lets the request wait for others, as :meth:`Exchange.park_parsed`; keeps no bytes or body in the meantime."""
        self.exchange.park_parsed()
        self._body = None

    def mute(self, delay_s: float) -> None:
        """Serves no more requests of the connection for a time; this one may be answered before. For any thread."""
        exchange = self.exchange
        exchange.processor.call(partial(exchange.connection.mute, delay_s))

    @contextmanager
    def working(self) -> Iterator[None]:
        """Counts the time that this thread works for the request, until it is answered."""
        if self._charge is None:
            yield
            return
        self._working_since = get_ident(), time.thread_time()
        try:
            yield
        finally:
            self._spent_s, self._working_since = self._spent(), None

    def _spent(self) -> float:
        since = self._working_since
        running_s = time.thread_time() - since[1] if since is not None and since[0] == get_ident() else 0.0
        return self._spent_s + running_s

    def throttle(self, delay_s: float) -> None:
        """Makes the answer ask the client to wait, and serves nothing more of the client until then."""
        self._throttled_s = max(self._throttled_s, delay_s)

    def charged_s(self) -> float:
        """Counts the time that was spent, once; returns how long the client must wait, by all of its quotas."""
        if (charge := self._charge) is not None:
            self._charge = None
            self.throttle(charge(self, self._spent()))
        return self._throttled_s

    def reserve(self, size: int) -> None:
        """Counts about ``size`` bytes of the answer before they are built.

        Raises RequestError if there are too many.
        """
        self._answer_bytes += size
        if self._answer_bytes > self.limits.answer_bytes_max:
            raise self._too_large()

    def _too_large(self) -> RequestError:
        return RequestError(
            ErrorCode.policy_violation,
            f"the answer would be larger than {self.limits.answer_bytes_max} bytes: ask for less at a time, or raise "
            "commitlog.answer.max.bytes",
        )

    def answer(self, body: Mapping[str, Any]) -> None:
        """Answers with a body by kio's names; fields that the version lacks are left out.

        If the body cannot be encoded, for example because a text is too long for the version, closes the connection, as
        a broker does; otherwise the request would stay in progress for ever.
        """
        try:
            if self.amend is not None:
                body = self.amend(body)
            encoded = write_answer(self.key, self.version, self._throttled(body))
            if len(encoded) > self.limits.answer_bytes_max:
                raise self._too_large()
            self.answer_parts([encoded])
        except RequestError as error:
            self.fail(error)
        except Exception:
            logger.exception("the answer to a request of kind %s cannot be written", self.key)
            self.close()

    def _throttled(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the body with the time for which the client must wait, if it must, and serves nothing until then."""
        delay_s = self.charged_s()
        if delay_s <= 0:
            return body
        self.mute(delay_s)
        return {**body, "throttle_time": math.ceil(delay_s * 1000)}

    def answer_parts(self, parts: Sequence[Part]) -> None:
        """Answers with the bytes of a body. Raises struct.error if there are more than an answer can have."""
        header = answer_header(self._header)
        length = _LENGTH.pack(len(header) + sum(map(len, parts)))
        self._end([length + header, *parts])

    def answer_oldest(self, body: bytes) -> None:
        """Answers with a body of version 0, for a client whose version is not known."""
        self.answer_parts([body])

    def answer_nothing(self) -> None:
        """Ends a request whose client expects no answer."""
        self._end(())

    def close(self) -> None:
        """Closes the connection instead of answering."""
        self._is_ended = True
        self.exchange.close()

    def _end(self, parts: Sequence[Part]) -> None:
        if self._is_ended:  # the error came after the answer
            return
        self._is_ended = True
        self._figures.answered(self.key, time.perf_counter() - self._began_s)
        self.exchange.answer(parts)

    def __del__(self) -> None:
        if self._is_ended:
            return
        exchange = self.exchange
        if not (exchange.connection.is_closed or exchange.is_stopping):
            logger.error("a request of kind %s was lost by an error; its connection is closed", self.key)
        exchange.processor.call_soon(exchange.close)  # not in this thread, which may hold any lock

    def or_fail(self, task: Callable[P, None]) -> Callable[P, None]:
        """Returns ``task``, which answers the request at once or later; an error that it raises is the answer."""

        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                task(*args, **kwargs)
            except Exception as error:  # a bug here
                self.fail(error)

        return run

    def fail(self, error: Exception) -> None:
        """Answers with an error for the whole request if the answer has a field for it; else closes the connection."""
        if code_of(error) is ErrorCode.unknown_server_error:
            logger.error("a request of kind %s failed", self.key, exc_info=error)
        if self._is_ended:
            return
        try:
            body = self._throttled({"error_code": code_of(error), "error_message": message_of(error)})
            if has_error(self.key, self.version):
                self.answer_parts([write_answer(self.key, self.version, body)])
            else:
                self.close()
        except Exception:
            logger.exception("the error of a request of kind %s cannot be written", self.key)
            self.close()
