"""PLAIN (RFC 4616): the client sends its password, which is checked against the credential stored for SCRAM."""

from __future__ import annotations

from .scram import OTHER_ID, Finding, LoginError, has_password

WRONG = "Authentication failed: Invalid username or password"
_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")


class PlainExchange:
    """One login by PLAIN, which consists of one message."""

    def __init__(self, find: Finding) -> None:
        self.user: str | None = None  # once it has proved itself
        self._find = find

    def answer(self, message: bytes) -> bytes:
        """Returns the answer to the client, which is empty. Raises LoginError if user or password is wrong."""
        try:
            authorization_id, user, password = message.decode().split("\0")
        except ValueError:
            raise LoginError("Invalid SASL/PLAIN response: expected 3 tokens") from None
        if not user or not password:
            raise LoginError(f"Authentication failed: {'password' if user else 'username'} not specified")
        if not self._is_right(user, password):
            raise LoginError(WRONG)
        if authorization_id not in ("", user):
            raise LoginError(OTHER_ID)
        self.user = user
        return b""

    def _is_right(self, user: str, password: str) -> bool:
        found = [(each, self._find(user, each)) for each in _MECHANISMS]
        stored = [(mechanism, credential) for mechanism, credential in found if not credential.is_decoy]
        mechanism, credential = (stored or found)[0]  # a decoy is compared, too, which takes as long
        return has_password(mechanism, credential, password)
