"""SCRAM (RFC 5802, 7677), the server's side: the stored credential, and the exchange that proves the password."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Protocol

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS = ITERATIONS_MIN = 4096  # the minimum in RFC 7677 and Kafka; clients refuse fewer
SALT_BYTES = 20
NONCE_BYTES = 24
MESSAGE_BYTES_MAX = 8 << 10  # of a client; its name and nonce are kept until the proof comes, for many clients at once

WRONG = "Authentication failed during authentication due to invalid credentials with SASL mechanism"
OTHER_ID = "Authentication failed: Client requested an authorization id that is different from username"

_NONCE = r"r=(?P<nonce>[!-+\--~]+)"  # printable, without a comma
_FIRST = re.compile(rf"(?P<head>[ny],(?:a=(?P<authzid>[^,]+))?,)(?P<bare>n=(?P<name>[^,]+),{_NONCE}(?:,.*)?)")
_FINAL = re.compile(rf"(?P<without>c=(?P<binding>[A-Za-z0-9+/=]*),{_NONCE}(?:,.*)?),p=(?P<proof>[A-Za-z0-9+/=]+)")


class LoginError(Exception):
    """A login failed. The message is Kafka's; it has no secret and does not reveal whether the user exists."""

    def __init__(self, message: str, why: str = "") -> None:
        """``why``: details for the log alone."""
        super().__init__(message)
        self.why = why


@dataclass(frozen=True)
class Credential:
    """The stored form of a password for one mechanism. A client cannot log in with it."""

    salt: bytes = field(repr=False)
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    is_decoy: bool = False  # for a user that does not exist: no password fits it


class Finding(Protocol):
    """A function that returns the stored credential of a user for a mechanism; a decoy if there is none."""

    def __call__(self, user: str, mechanism: str) -> Credential: ...


def made_credential(mechanism: str, password: str, iterations: int = ITERATIONS) -> Credential:
    """Returns the credential to store for a password, with a new salt."""
    salt = secrets.token_bytes(SALT_BYTES)
    stored, server = _keys(mechanism, password, salt, iterations)
    return Credential(salt, iterations, stored, server)


def has_password(mechanism: str, credential: Credential, password: str) -> bool:
    """Whether a credential was made from this password. Takes milliseconds on purpose."""
    stored, _ = _keys(mechanism, password, credential.salt, credential.iterations)
    return hmac.compare_digest(stored, credential.stored_key)


def salted_credential(mechanism: str, salted_password: bytes, salt: bytes, iterations: int) -> Credential:
    """Returns the credential to store for a password that a client has salted and hashed itself."""
    return Credential(salt, iterations, *_keys_of_salted(mechanism, salted_password))


def _keys(mechanism: str, password: str, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
    return _keys_of_salted(mechanism, salted)


def _keys_of_salted(mechanism: str, salted: bytes) -> tuple[bytes, bytes]:
    """Returns the stored key and the server key."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    return hashlib.new(name, client_key).digest(), hmac.digest(salted, b"Server Key", name)


class ScramExchange:
    """One login by SCRAM: :meth:`answer` is called with each message of the client."""

    def __init__(self, mechanism: str, find: Finding) -> None:
        self.user: str | None = None  # once it has proved itself
        self._mechanism, self._find = mechanism, find
        self._name = self._head = self._nonce = self._said = ""
        self._credential: Credential | None = None

    @property
    def claimed_user(self) -> str:
        """The user that the client says it is."""
        return self._name

    def answer(self, message: bytes) -> bytes:
        """Returns the next message to the client. Raises LoginError if the login fails."""
        if len(message) > MESSAGE_BYTES_MAX:
            raise self._refused()
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise self._refused() from None
        return (self._first(text) if self._credential is None else self._final(text, self._credential)).encode()

    def _first(self, text: str) -> str:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise self._refused()
        self._name = _unescaped(found["name"])
        if found["authzid"] not in (None, found["name"]):
            raise LoginError(OTHER_ID)
        credential = self._find(self._name, self._mechanism)  # the proof refuses a decoy, like a wrong password
        self._head, self._nonce = found["head"], found["nonce"] + secrets.token_urlsafe(NONCE_BYTES)
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._credential, self._said = credential, f"{found['bare']},{answer}"
        return answer

    def _final(self, text: str, credential: Credential) -> str:
        found = _FINAL.fullmatch(text)
        if found is None or self.user is not None:
            raise self._refused()
        is_bound = _decoded(found["binding"]) == self._head.encode()
        if not is_bound or not hmac.compare_digest(found["nonce"], self._nonce):
            raise self._refused()
        name = HASHES[self._mechanism]
        said = f"{self._said},{found['without']}".encode()
        signature = hmac.digest(credential.stored_key, said, name)
        proof = _decoded(found["proof"])
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        is_proved = hmac.compare_digest(hashlib.new(name, client_key).digest(), credential.stored_key)
        if len(proof) != len(signature) or not is_proved:
            raise self._refused()
        self.user = self._name
        return "v=" + base64.b64encode(hmac.digest(credential.server_key, said, name)).decode()

    def _refused(self) -> LoginError:
        return LoginError(f"{WRONG} {self._mechanism}")


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
