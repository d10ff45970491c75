"""Decoys: credentials for users that do not exist, so that a login does not show who does."""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Mapping

from .scram import HASHES, ITERATIONS, SALT_BYTES, Credential

SECRET_BYTES = 32
_HASH = "sha512"  # its 64 bytes are enough for a key of any mechanism


class Decoys:
    """Makes credentials that no password fits: always the same one for a name, as for a user that exists."""

    def __init__(self, secret: bytes, users: Mapping[str, Mapping[str, Credential]]) -> None:
        """``secret``: without it, nobody can tell a made-up salt from a stored one. ``users``: those that exist.

        Made-up credentials have the number of iterations that most users have.
        """
        self._secret = secret
        self._iterations = {mechanism: _most_common_iterations(mechanism, users) for mechanism in HASHES}

    def credential(self, user: str, mechanism: str) -> Credential:
        """Returns the credential of a user that does not exist."""
        salt, stored, server = (self._bytes(what, mechanism, user) for what in ("salt", "stored key", "server key"))
        size = _key_bytes(mechanism)
        return Credential(salt[:SALT_BYTES], self._iterations[mechanism], stored[:size], server[:size], is_decoy=True)

    def _bytes(self, *about: str) -> bytes:
        return hmac.digest(self._secret, "\0".join(about).encode(), _HASH)


def _most_common_iterations(mechanism: str, users: Mapping[str, Mapping[str, Credential]]) -> int:
    times = Counter(each[mechanism].iterations for each in users.values() if mechanism in each)
    return max(times, key=lambda each: (times[each], each)) if times else ITERATIONS


def _key_bytes(mechanism: str) -> int:
    return hashlib.new(HASHES[mechanism]).digest_size
