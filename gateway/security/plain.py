"""PLAIN (RFC 4616): the client sends its password, which is checked against the credential stored for SCRAM."""

from __future__ import annotations

import hmac
import secrets
from typing import NamedTuple

from .scram import MESSAGE_BYTES_MAX, OTHER_ID, Credential, Finding, LoginError, has_password

WRONG = "Authentication failed: Invalid username or password"
_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")  # the first takes half the time


class RememberedPasswords:
    """The last correct password of each user, so that the next login need not hash it thousands of times.

    It is remembered as a hash with a key that only this object has, and only as long as the stored credential stays.
    For any thread.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._found: dict[str, tuple[Credential, bytes]] = {}

    def knows(self, user: str, credential: Credential, password: str) -> bool:
        """Whether this password is remembered as correct for the credential; if not, it may still be correct."""
        stored, digest = self._found.get(user, (None, b""))
        return stored == credential and hmac.compare_digest(digest, self._hashed(password))

    def remember(self, user: str, credential: Credential, password: str) -> None:
        """Remembers that a password is correct."""
        self._found[user] = credential, self._hashed(password)

    def _hashed(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode(), "sha256")


class _Claim(NamedTuple):
    user: str
    password: str
    authorization_id: str


class PlainExchange:
    """One login by PLAIN, which consists of one message."""

    def __init__(self, find: Finding, remembered: RememberedPasswords) -> None:
        self.user: str | None = None  # once it has proved itself
        self._find, self._remembered = find, remembered
        self._claim = _Claim("", "", "")

    @property
    def claimed_user(self) -> str:
        """The user that the client says it is."""
        return self._claim.user

    def answer(self, message: bytes) -> bytes | None:
        """Returns the answer to the client, which is empty; None if :meth:`check` must answer.

        Raises LoginError if the message is wrong.
        """
        if len(message) > MESSAGE_BYTES_MAX:  # it is kept while it waits for the check
            raise LoginError(WRONG)
        try:
            authorization_id, user, password = message.decode().split("\0")
        except ValueError:
            raise LoginError("Invalid SASL/PLAIN response: expected 3 tokens") from None
        if not user or not password:
            raise LoginError(f"Authentication failed: {'password' if user else 'username'} not specified")
        self._claim = _Claim(user, password, authorization_id)
        return self._accepted() if self._is_remembered(self._stored()[1]) else None

    def check(self) -> bytes:
        """Returns the answer after a check of the password, which takes milliseconds on purpose.

        Raises LoginError if user or password is wrong.
        """
        (mechanism, credential), (user, password, _) = self._stored(), self._claim
        if not self._is_remembered(credential):
            if not has_password(mechanism, credential, password):  # a decoy takes the same time
                raise LoginError(WRONG)
            self._remembered.remember(user, credential, password)
        return self._accepted()

    def _stored(self) -> tuple[str, Credential]:
        """Returns the user's first stored credential; a decoy for a user that does not exist."""
        found = [(mechanism, self._find(self._claim.user, mechanism)) for mechanism in _MECHANISMS]
        return next((each for each in found if not each[1].is_decoy), found[0])

    def _is_remembered(self, credential: Credential) -> bool:
        return self._remembered.knows(self._claim.user, credential, self._claim.password)

    def _accepted(self) -> bytes:
        if self._claim.authorization_id not in ("", self._claim.user):
            raise LoginError(OTHER_ID)
        self.user = self._claim.user
        return b""
