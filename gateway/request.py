"""Request: one request of a client, and its answer."""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from ..protocol import ErrorCode, RequestHeader, answer_header, code_of, message_of, read_request, write_answer
from .figures import Figures
from .network import Exchange, Part
from .security import Session

C = TypeVar("C")
_LENGTH = struct.Struct(">i")

logger = logging.getLogger(__name__)


class Request:
    """A request whose header was read. It is answered once, at once or later, from any thread."""

    def __init__(self, exchange: Exchange, header: RequestHeader, figures: Figures) -> None:
        self.exchange = exchange
        self._figures, self._began_s = figures, time.perf_counter()
        self.key, self.version, self.client_id = header.key, header.version, header.client_id
        self.is_guarded = False  # whether the rules were asked
        self.amend: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None  # adds to the handler's answer
        self._header = header

    @cached_property
    def body(self) -> Any:
        """The body, by kio's names of fields. Raises MalformedRequestError."""
        return read_request(self.key, self.version, self.exchange.frame, self._header.body_at)

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

    def answer(self, body: Mapping[str, Any]) -> None:
        """Answers with a body by kio's names; fields that the version lacks are left out.

        If the body cannot be encoded, for example because a text is too long for the version, closes the connection, as
        a broker does; otherwise the request would stay in progress for ever.
        """
        try:
            if self.amend is not None:
                body = self.amend(body)
            parts = [write_answer(self.key, self.version, body)]
        except Exception:
            logger.exception("the answer to a request of kind %s cannot be written", self.key)
            self.exchange.close()
        else:
            self.answer_parts(parts)

    def answer_parts(self, parts: Sequence[Part]) -> None:
        """Answers with the bytes of a body."""
        header = answer_header(self._header)
        size = len(header) + sum(map(len, parts))
        self._figures.answered(self.key, time.perf_counter() - self._began_s)
        self.exchange.answer([_LENGTH.pack(size) + header, *parts])

    def answer_oldest(self, body: bytes) -> None:
        """Answers with a body of version 0, for a client whose version is not known."""
        self.answer_parts([body])

    def answer_nothing(self) -> None:
        """Ends a request whose client expects no answer."""
        self._figures.answered(self.key, time.perf_counter() - self._began_s)
        self.exchange.answer(())

    def or_fail(self, task: Callable[[C], None]) -> Callable[[C], None]:
        """Returns ``task``, which answers the request at once or later; an error that it raises is the answer."""

        def run(given: C) -> None:
            try:
                task(given)
            except Exception as error:  # of ours
                self.fail(error)

        return run

    def fail(self, error: Exception) -> None:
        """Answers with an error for the whole request if the answer has a field for it; else closes the connection."""
        if code_of(error) is ErrorCode.unknown_server_error:
            logger.error("a request of kind %s failed", self.key, exc_info=error)
        try:
            parts = [write_answer(self.key, self.version, _error_body(self.key, self.version, error))]
        except KeyError:
            self.exchange.close()
        else:
            self.answer_parts(parts)


def _error_body(key: int, version: int, error: Exception) -> Mapping[str, Any]:
    if key not in WITH_ERROR or version < WITH_ERROR[key]:
        raise KeyError(key)
    return {"error_code": code_of(error), "error_message": message_of(error)}


# Kinds of requests whose answers have an error of the whole, and the first version with it.
WITH_ERROR: Mapping[int, int] = {10: 0, 11: 0, 12: 0, 13: 0, 14: 0, 16: 0, 18: 0, 22: 0, 35: 3, 47: 0, 60: 0}
