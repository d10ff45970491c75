"""BearerExchange: one login by OAUTHBEARER, as ``OAuthBearerSaslServer`` answers it."""

from __future__ import annotations

import json
import re
from typing import NamedTuple, Protocol

from ..scram import LoginError

REFUSED = json.dumps({"status": "invalid_token"}, separators=(",", ":"))  # RFC 7628, section 3.2.2

_NAME = r"(?:[\x01-\x7F](?<![=,])|=2C|=3D)+"
_PAIRS = r"(?:[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01)*"
_FIRST = re.compile(rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>{_PAIRS})\x01")
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)", re.ASCII)
_INVALID = "Invalid OAUTHBEARER client first message"


class TokenError(Exception):
    """A token is not accepted. The message gives the reason, without the token, and is for the log."""


class Token(NamedTuple):
    """The content of a valid token."""

    user: str
    expires_s: float  # since 1970


class Tokens(Protocol):
    """Checks tokens. For any thread."""

    def check(self, token: str) -> Token:
        """Returns the content of a token. Raises TokenError unless it is valid now."""
        ...

    def start(self) -> None:
        """Reads the keys, and starts to follow their changes."""
        ...

    def stop(self) -> None:
        """Stops following the keys."""
        ...


class BearerExchange:
    """One login: one message with a token. If that is refused, the client sends a second one to get the reason."""

    def __init__(self, tokens: Tokens) -> None:
        self.user: str | None = None  # once it has proved itself
        self.expires_s: float | None = None  # when the login expires, with the token; in seconds since 1970
        self.claimed_user = ""
        self._tokens = tokens
        self._problem = ""

    def answer(self, message: bytes) -> bytes:
        """Returns the answer to a message: nothing for a good token, an error in JSON for another.

        Raises LoginError if the message is malformed, and for every message after a refused token.
        """
        if self._problem:
            raise LoginError(REFUSED, self._problem)
        authorization_id, token = _parsed(message)
        try:
            found = self._tokens.check(token)
        except TokenError as error:
            self._problem = str(error)
            return REFUSED.encode()
        if authorization_id not in ("", found.user):
            raise LoginError(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({found.user})"
            )
        self.user, self.expires_s = found.user, found.expires_s
        return b""


def _parsed(message: bytes) -> tuple[str, str]:
    """Returns the authorization id, "" for none, and the token. Raises LoginError."""
    first = _FIRST.fullmatch(message.decode("utf-8", "replace"))
    if first is None:
        raise LoginError(_INVALID)
    pairs = dict(each.split("=", 1) for each in first["pairs"].split("\x01") if each)
    if "auth" not in pairs:
        raise LoginError(f"{_INVALID}: 'auth' not specified")
    auth = _AUTH.fullmatch(pairs["auth"])
    if auth is None:
        raise LoginError(f"{_INVALID}: invalid 'auth' format")
    if auth["scheme"].lower() != "bearer":
        raise LoginError("Invalid scheme in OAUTHBEARER client first message")
    return first["authzid"] or "", auth["token"]
