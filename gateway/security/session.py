"""Session: the user of a connection, and the stage of its login."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from .plain import PlainExchange
from .scram import Finding, LoginError, ScramExchange

ANONYMOUS = "User:ANONYMOUS"
PLAIN = "PLAIN"


class Stage(Enum):
    """The stages of a login."""

    HANDSHAKE = auto()  # the client is to name a mechanism
    TOKENS = auto()  # it proves itself by SaslAuthenticate requests
    RAW_TOKENS = auto()  # it does so by frames without headers, as after version 0 of SaslHandshake
    DONE = auto()


class Session:
    """The login of one connection. Its methods must not be called at the same time."""

    def __init__(self, principal: str | None, mechanisms: Sequence[str], find: Finding | None) -> None:
        """``principal``: the user, if no login is needed; None: the client must log in by one of ``mechanisms``."""
        self.principal = ANONYMOUS if principal is None else principal
        self.stage = Stage.HANDSHAKE if principal is None else Stage.DONE
        self.mechanisms = mechanisms
        self._find = find
        self._exchange: PlainExchange | ScramExchange | None = None

    def begin(self, mechanism: str, *, is_raw: bool) -> bool:
        """Begins a login; returns False if the mechanism is not enabled."""
        if mechanism not in self.mechanisms or self._find is None:
            return False
        self._exchange = PlainExchange(self._find) if mechanism == PLAIN else ScramExchange(mechanism, self._find)
        self.stage = Stage.RAW_TOKENS if is_raw else Stage.TOKENS
        return True

    def answer(self, token: bytes) -> bytes:
        """Returns the answer to a client's token; after the last one :attr:`stage` is DONE. Raises LoginError."""
        if self._exchange is None:
            raise LoginError("the login has not begun: no mechanism was chosen")
        answer = self._exchange.answer(token)
        if self._exchange.user is not None:
            self.principal, self.stage, self._exchange = f"User:{self._exchange.user}", Stage.DONE, None
        return answer
