"""Session: the user of a connection, and the stage of its login."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import Enum, auto
from math import inf

from .acls import Client
from .oauth.exchange import BearerExchange, Tokens
from .plain import PlainExchange, RememberedPasswords
from .scram import Finding, LoginError, ScramExchange

ANONYMOUS = "User:ANONYMOUS"
PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"


class Stage(Enum):
    """The stages of a login."""

    HANDSHAKE = auto()  # the client is to name a mechanism
    TOKENS = auto()  # it proves itself by SaslAuthenticate requests
    RAW_TOKENS = auto()  # tokens come in frames without headers, as after version 0 of SaslHandshake
    DONE = auto()


class Session:
    """The login of one connection. Its methods must not be called at the same time."""

    def __init__(
        self,
        principal: str | None,
        mechanisms: Sequence[str] = (),
        find: Finding | None = None,
        remembered: RememberedPasswords | None = None,
        *,
        tokens: Tokens | None = None,
        host: str = "",
        lasts_s: float = inf,
    ) -> None:
        """``principal``: the user, if no login is needed; None: the client must log in by one of ``mechanisms``.

        ``find`` finds passwords, ``tokens`` checks tokens. ``host``: the client's address. ``lasts_s``: how long a
        login is valid; a login by a token also ends with the token.
        """
        self.client = Client(ANONYMOUS if principal is None else principal, host)
        self.stage = Stage.HANDSHAKE if principal is None else Stage.DONE
        self.mechanisms, self.lasts_s = mechanisms, lasts_s  # how long this login is valid, once it is complete
        self._longest_s, self._tokens = lasts_s, tokens
        self._find, self._remembered = find, remembered or RememberedPasswords()
        self._exchange: PlainExchange | ScramExchange | BearerExchange | None = None
        self._expires_s = inf
        self._is_again = False  # the client has logged in before

    @property
    def principal(self) -> str:
        """The user, such as ``User:alice``; ``User:ANONYMOUS`` before it has logged in."""
        return self.client.principal

    @property
    def has_expired(self) -> bool:
        """Whether the client must log in again before it may ask for anything else."""
        return time.monotonic() > self._expires_s

    @property
    def may_log_in(self) -> bool:
        """Whether a login may begin: the first always may, later ones only if logins expire."""
        return self.stage is Stage.HANDSHAKE or (self.stage is Stage.DONE and self._expires_s < inf)

    @property
    def claimed_user(self) -> str:
        """The user that the client claims to be, whose password :meth:`check` checks; empty before it has named one."""
        return "" if self._exchange is None else self._exchange.claimed_user

    def begin(self, mechanism: str, *, is_raw: bool) -> bool:
        """Begins a login; returns False if the mechanism is not enabled."""
        exchange = self._exchange_by(mechanism) if mechanism in self.mechanisms else None
        if exchange is None:
            return False
        self._exchange = exchange
        self._is_again = self.stage is Stage.DONE
        self.stage = Stage.RAW_TOKENS if is_raw else Stage.TOKENS
        return True

    def _exchange_by(self, mechanism: str) -> PlainExchange | ScramExchange | BearerExchange | None:
        if mechanism == OAUTHBEARER:
            return None if self._tokens is None else BearerExchange(self._tokens)
        if self._find is None:
            return None
        is_plain = mechanism == PLAIN
        return PlainExchange(self._find, self._remembered) if is_plain else ScramExchange(mechanism, self._find)

    def answer(self, token: bytes) -> bytes | None:
        """Returns the answer to a client's token, None if :meth:`check` must answer.

        After the last token, :attr:`stage` is DONE. Raises LoginError.
        """
        if self._exchange is None:
            raise LoginError("the login has not begun: no mechanism was chosen")
        answer = self._exchange.answer(token)
        self._end()
        return answer

    def check(self) -> bytes:
        """Returns the answer after a check that takes milliseconds; :attr:`stage` is DONE then. Raises LoginError."""
        if not isinstance(self._exchange, PlainExchange):
            raise LoginError("the login has not begun: no password was sent")
        answer = self._exchange.check()
        self._end()
        return answer

    def _end(self) -> None:
        """Ends the login if the client has proved who it is."""
        user = None if self._exchange is None else self._exchange.user
        if user is None:
            return
        principal = f"User:{user}"
        if self._is_again and principal != self.principal:
            raise LoginError(f"Cannot change principals during re-authentication from {self.principal}")
        self.client = self.client._replace(principal=principal)
        expires_s = self._exchange.expires_s if isinstance(self._exchange, BearerExchange) else None
        token_s = inf if expires_s is None else max(0.0, expires_s - time.time())
        self.stage, self._exchange = Stage.DONE, None
        self.lasts_s = min(self._longest_s, token_s)
        self._expires_s = time.monotonic() + self.lasts_s
