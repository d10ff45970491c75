"""Keys: the public keys that tokens may be signed with, from a file or a URL (JWKS, RFC 7517).

Only keys of RSA (2048 bits or more), elliptic curves, Ed25519 and Ed448 are used, each for its own algorithms; so no
token can name ``none``, or use a public key as a secret.
"""

from __future__ import annotations

import json
import logging
import ssl
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from threading import Event
from typing import Any, NamedTuple, Protocol
from urllib.error import URLError

from jwt import PyJWK
from jwt.exceptions import PyJWTError

from ....storage import InvalidConfigError
from ...threads.kept import KeptThread
from ..whole_file import Watched

BYTES_MAX = 1 << 20  # of a JWKS
KEYS_MAX = 1_000
TIMEOUT_S = 10.0  # of a request
HURRY_S = 10.0  # an unknown key causes a new read of the URL, at most so often
RSA_BITS_MIN = 2048

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",), "secp256k1": ("ES256K",)}
_EDWARDS = {"Ed25519": ("EdDSA",), "Ed448": ("EdDSA",)}

logger = logging.getLogger(__name__)


class Key(NamedTuple):
    """A public key."""

    id: str | None
    algorithms: Sequence[str]  # that it may be used with
    key: Any  # as PyJWT takes it


class Keys(Protocol):
    """The keys of an issuer. For any thread."""

    def start(self) -> None:
        """Starts to follow changes."""
        ...

    def stop(self) -> None:
        """Stops following changes."""
        ...

    def find(self, key_id: str | None, algorithm: str) -> Sequence[Key]:
        """Returns the keys that a token may be signed with; ``key_id`` None: the token names none."""
        ...


def parse_keys(text: str | bytes) -> Sequence[Key]:
    """Returns the keys of a JWKS, without those that no token may be signed with. Raises ValueError."""
    try:
        given = json.loads(text)["keys"]
    except (ValueError, TypeError, KeyError):
        raise ValueError("not a set of keys in JSON (JWKS)") from None
    if not isinstance(given, list) or len(given) > KEYS_MAX:
        raise ValueError(f"not a list of at most {KEYS_MAX} keys")
    found = [key for each in given if isinstance(each, dict) and (key := _key(each)) is not None]
    if not found:
        raise ValueError("it has no public key of RSA, of a curve, or of Ed25519")
    return found


def _key(given: Mapping[str, Any]) -> Key | None:
    """Returns a key; None if no token may be signed with it."""
    fitting = _algorithms(given)
    if given.get("use", "sig") != "sig" or not fitting:
        return None
    named = given.get("alg")
    algorithms = fitting if named is None else tuple(each for each in fitting if each == named)
    key: Any
    try:
        key = PyJWK(dict(given), algorithm=algorithms[0]).key if algorithms else None
    except (PyJWTError, ValueError, TypeError, KeyError):
        key = None
    key = key.public_key() if hasattr(key, "public_key") else key  # a private key has no place in such a set
    if key is None or (getattr(key, "key_size", RSA_BITS_MIN) < RSA_BITS_MIN and given["kty"] == "RSA"):
        logger.warning("a key of the JWKS cannot be used: kid %r, kty %r", given.get("kid"), given.get("kty"))
        return None
    return Key(given.get("kid"), algorithms, key)


def _algorithms(given: Mapping[str, Any]) -> Sequence[str]:
    if given.get("kty") == "RSA":
        return _RSA
    curves = {"EC": _CURVES, "OKP": _EDWARDS}.get(str(given.get("kty")), {})
    return curves.get(str(given.get("crv")), ())


def _fitting(keys: Sequence[Key], key_id: str | None, algorithm: str) -> Sequence[Key]:
    return [each for each in keys if algorithm in each.algorithms and key_id in (None, each.id)]


class FileKeys:
    """Keys in a file, which is read again when it has changed."""

    def __init__(self, setting: str, path: str) -> None:
        """``setting``: the name of the setting, for errors.

        Raises InvalidConfigError if the file has no keys, or cannot be read.
        """
        self._setting, self._path = setting, path
        self._file: Watched[Sequence[Key]] = Watched(path, self._read, "keys of OAUTHBEARER")

    def start(self) -> None:
        """Does nothing: each login checks the file."""

    def stop(self) -> None:
        """Does nothing."""

    def find(self, key_id: str | None, algorithm: str) -> Sequence[Key]:
        """Returns the keys that a token may be signed with."""
        self._file.look()
        return _fitting(self._file.content, key_id, algorithm)

    def _read(self) -> Sequence[Key]:
        try:
            with open(self._path, "rb") as file:
                return parse_keys(file.read(BYTES_MAX))
        except OSError as error:
            raise InvalidConfigError(f"{self._setting} = {self._path!r}: {error.strerror}") from None
        except ValueError as error:
            raise InvalidConfigError(f"{self._setting} = {self._path!r}: {error}") from None


class UrlKeys:
    """Keys that a thread reads from a URL: at the start, at intervals, and when a token names an unknown key."""

    def __init__(
        self,
        url: str,
        *,
        refresh_s: float,
        retry_s: float,
        retry_max_s: float,
        fetch: Callable[[str], bytes] | None = None,
    ) -> None:
        """``retry_s``: the pause after a failure, which doubles up to ``retry_max_s``. ``fetch`` reads a URL."""
        self._url, self._refresh_s, self._retry_s, self._retry_max_s = url, refresh_s, retry_s, retry_max_s
        self._fetch = fetch or fetched
        self._keys: Sequence[Key] = ()
        self._failures = 0
        self._hurried_s = -HURRY_S
        self._wanted, self._stopped = Event(), False
        self._thread = KeptThread("gateway-jwks", self._run)

    def start(self) -> None:
        """Reads the keys, and starts the thread. If they cannot be read, this is logged and tried again."""
        self._refresh()
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._stopped = True
        self._wanted.set()
        self._thread.join()

    def find(self, key_id: str | None, algorithm: str) -> Sequence[Key]:
        """Returns the keys that a token may be signed with; if there is none, schedules a new read of the URL."""
        found = _fitting(self._keys, key_id, algorithm)
        now_s = time.monotonic()
        if not found and now_s - self._hurried_s >= HURRY_S:
            self._hurried_s = now_s
            self._wanted.set()
        return found

    def _run(self) -> None:
        while not self._stopped:
            self._wanted.wait(self._pause_s())
            self._wanted.clear()
            if not self._stopped:
                self._refresh()

    def _pause_s(self) -> float:
        if not self._failures:
            return self._refresh_s
        return min(self._retry_s * float(1 << min(self._failures - 1, 30)), self._retry_max_s)

    def _refresh(self) -> None:
        try:
            self._keys = parse_keys(self._fetch(self._url))
            self._failures = 0
        except (OSError, ValueError, HTTPException) as error:
            if not self._failures:
                reason = error.reason if isinstance(error, URLError) else error
                logger.error("%s: the keys for OAUTHBEARER cannot be read, the old ones stay: %s", self._url, reason)
            self._failures += 1


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: they could lead to a place without TLS."""

    def redirect_request(self, *_: Any) -> None:
        return None


def fetched(url: str) -> bytes:
    """Returns the content of a URL, of at most BYTES_MAX. Raises OSError, and ValueError if it is larger."""
    handlers = (_NoRedirects(), urllib.request.HTTPSHandler(context=ssl.create_default_context()))
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    with urllib.request.build_opener(*handlers).open(request, timeout=TIMEOUT_S) as answer:
        data: bytes = answer.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise ValueError(f"more than {BYTES_MAX} bytes")
    return data
