"""Decoys: credentials for users that do not exist, so that a login does not show who does."""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Mapping

from .scram import HASHES, ITERATIONS, SALT_BYTES, Credential

SECRET_BYTES = 32
_HASH = "sha512"
_KEYS = ("stored key", "server key")


class Decoys:
    """Makes credentials that no password fits; like for a real user, a name always has the same one."""

    def __init__(self, secret: bytes, users: Mapping[str, Mapping[str, Credential]]) -> None:
        """``secret``: keeps others from distinguishing a made-up salt from a stored one. ``users``: the existing users.

        Made-up credentials have the number of iterations and the length of the salt that most users have: clients
        choose the salts when they set passwords, and choose different lengths.
        """
        self._secret = secret
        self._shapes = {mechanism: _most_common_shape(mechanism, users) for mechanism in HASHES}

    def credential(self, user: str, mechanism: str) -> Credential:
        """Returns the credential of a user that does not exist."""
        iterations, salt_bytes = self._shapes[mechanism]
        salt = self._bytes(salt_bytes, "salt", mechanism, user)
        stored, server = (self._bytes(_key_bytes(mechanism), key, mechanism, user) for key in _KEYS)
        return Credential(salt, iterations, stored, server, is_decoy=True)

    def _bytes(self, size: int, *about: str) -> bytes:
        """Returns ``size`` bytes that are always the same for the same texts."""
        made = hmac.digest(self._secret, "\0".join(about).encode(), _HASH)
        while len(made) < size:
            made += hmac.digest(self._secret, made, _HASH)
        return made[:size]


def _most_common_shape(mechanism: str, users: Mapping[str, Mapping[str, Credential]]) -> tuple[int, int]:
    """Returns the number of iterations, and of bytes of the salt, that most users have."""
    own = [each[mechanism] for each in users.values() if mechanism in each]
    times = Counter((each.iterations, len(each.salt)) for each in own)
    return max(times, key=lambda each: (times[each], each)) if times else (ITERATIONS, SALT_BYTES)


def _key_bytes(mechanism: str) -> int:
    return hashlib.new(HASHES[mechanism]).digest_size
