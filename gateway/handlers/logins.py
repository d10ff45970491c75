"""Logins: SaslHandshake, SaslAuthenticate, and the frames without headers that follow an old SaslHandshake.

A client that cannot prove who it is gets Kafka's answer after a while, and its connection is closed. Passwords are
checked in a thread of their own, because a check takes milliseconds on purpose. No part of a token is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from math import inf
from typing import Any

from ...protocol.apis import ApiKey
from ...protocol.bodies import ErrorCode
from ...protocol.reading import MalformedRequestError
from ..context import TEXT_CHARACTERS_MAX, Context
from ..network.exchange import Exchange
from ..request import Request
from ..security.scram import LoginError
from ..security.session import Session, Stage
from ..threads.fair import FairTask

_RAW_HANDSHAKE = 0  # the version after which tokens come without headers
_BEFORE_LOGIN = {  # what a client may ask at each stage
    Stage.HANDSHAKE: {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE},
    Stage.TOKENS: {ApiKey.SASL_AUTHENTICATE},
}
_AFTER_EXPIRY = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}

logger = logging.getLogger(__name__)


def check_login(request: Request) -> None:
    """Raises MalformedRequestError if the client must log in before it may send this request."""
    session = request.session
    if session.stage is not Stage.DONE and request.key not in _BEFORE_LOGIN.get(session.stage, ()):
        raise MalformedRequestError(f"a request of kind {request.key} came before a login")
    if session.has_expired and request.key not in _AFTER_EXPIRY:
        raise MalformedRequestError("the login has expired (connections.max.reauth.ms)")


def sasl_handshake(request: Request, context: Context) -> Mapping[str, Any] | None:
    """Begins a login by a mechanism; a mechanism that is not enabled ends the connection."""
    session, mechanism = request.session, request.body.mechanism
    enabled = tuple(session.mechanisms)
    is_raw = request.version == _RAW_HANDSHAKE
    if not session.may_log_in or (is_raw and session.stage is Stage.DONE):  # or there are no logins here
        return {"error_code": ErrorCode.illegal_sasl_state, "mechanisms": enabled}
    if session.begin(mechanism, is_raw=is_raw):
        return {"error_code": ErrorCode.none, "mechanisms": enabled}
    request.exchange.is_last = True
    return {"error_code": ErrorCode.unsupported_sasl_mechanism, "mechanisms": enabled}


def sasl_authenticate(request: Request, context: Context) -> Mapping[str, Any] | None:
    """Takes a token of the client, and answers with the server's next token."""
    session, exchange = request.session, request.exchange
    if session.stage is Stage.DONE:
        message = "SaslAuthenticate request received after successful authentication"
        return {"error_code": ErrorCode.illegal_sasl_state, "error_message": message}

    def refuse(error: LoginError) -> None:
        body = {"error_code": ErrorCode.sasl_authentication_failed, "error_message": str(error)}
        exchange.is_last = True
        request.answer(body)

    _in_thread(
        exchange,
        context,
        session,
        request.body.auth_bytes,
        lambda answer: request.answer({"auth_bytes": answer, "session_lifetime": _lifetime(session)}),
        refuse,
    )
    return None


def take_raw_token(exchange: Exchange, context: Context) -> None:
    """Takes a token that is a whole frame, and answers with one; if the login fails, closes the connection."""
    session: Session = exchange.connection.session

    def answer(token: bytes) -> None:
        exchange.answer([len(token).to_bytes(4, "big") + token])

    _in_thread(exchange, context, session, bytes(exchange.frame), answer, lambda _: exchange.close())


def _lifetime(session: Session) -> timedelta:
    """Returns how long a login that is complete is valid; 0: always, or it is not complete."""
    lasts = session.stage is Stage.DONE and session.lasts_s < inf
    return timedelta(seconds=session.lasts_s if lasts else 0)


def _in_thread(
    exchange: Exchange,
    context: Context,
    session: Session,
    token: bytes,
    answer: Callable[[bytes], None],
    refuse: Callable[[LoginError], None],
) -> None:
    """Checks a token in the thread of logins, or of passwords, then answers or refuses.

    A login does not count among the requests in progress: those that wait for a check have a limit of their own.
    """
    connection, processor = exchange.connection, exchange.processor
    exchange.park()

    def refuse_later(error: LoginError) -> None:
        host, user = connection.client_host, session.claimed_user[:TEXT_CHARACTERS_MAX]
        login = f"a login of {user!r}" if user else "a login"
        why = (error.why or str(error))[:TEXT_CHARACTERS_MAX]
        context.refusals.warn((host, user, why), f"{host}: {login} failed: {why}; the connection is closed")
        delay_s = context.config.connection_failed_authentication_delay_ms / 1000
        processor.call_soon(partial(_refuse_later, exchange, delay_s, partial(refuse, error)))

    def run(step: Callable[[], bytes | None]) -> None:
        if connection.is_closed:
            return
        try:
            reply = step()
        except LoginError as error:
            refuse_later(error)
        except Exception as error:  # the file of users is missing, say
            logger.error("logins cannot be checked: %s", error)
            refuse_later(LoginError("Authentication failed: the server cannot check it now"))
        else:
            if reply is None:
                context.workers.passwords.run(session.claimed_user, FairTask(partial(run, session.check), drop))
                return
            if session.stage is Stage.DONE:
                processor.call_soon(connection.trust)
            processor.call_soon(lambda: answer(reply))

    def drop() -> None:
        connection.send_away("too many passwords wait to be checked")

    context.workers.logins.run(lambda: run(lambda: session.answer(token)))


def _refuse_later(exchange: Exchange, delay_s: float, refuse: Callable[[], None]) -> None:
    exchange.later(delay_s, refuse)
