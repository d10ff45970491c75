"""The keys whose records are to be erased: read from a file, found among records, and named in a certificate."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from ..errors import CorruptionError, InvalidConfigError
from ..filesystem.local import LocalFileSystem
from ..filesystem.operations import read_file
from ..format.compaction_view import Keyed, Uint64s
from ..format.tables import BinaryColumn, Bools
from ..kernels.compaction import offset_map as maps

KEYS_FILE_BYTES_MAX = 256 * 1024 * 1024
SALT_BYTES = 16
KEY_FORMS: Mapping[str, Callable[[bytes], bytes]] = {
    "text": bytes,
    "hex": lambda line: binascii.unhexlify(line.strip()),
    "base64": lambda line: base64.b64decode(line.strip(), validate=True),
}
_ABOVE_ALL = 2**62  # an offset that no record has, so that no record is the latest of a requested key
_LOAD_FACTOR = 0.5


@dataclass(frozen=True)
class AskedKeys:
    """Keys by their bytes. Can be pickled."""

    keys: frozenset[bytes]

    @classmethod
    def read(cls, path: str, form: str = "text") -> Self:
        """Reads a file with a key on each line; empty lines are skipped. ``form``: one of :data:`KEY_FORMS`.

        Raises InvalidConfigError, with the line, for a key that is not of this form, for a file without keys, and for
        one of more than 256 MiB.
        """
        try:
            data = read_file(LocalFileSystem(), path, KEYS_FILE_BYTES_MAX)
        except CorruptionError:
            limit = f"{KEYS_FILE_BYTES_MAX:,} bytes"
            raise InvalidConfigError(f"--keys-file {path}: has more than {limit}; erase its keys in parts") from None
        found = frozenset(_parsed(path, form, data.split(b"\n")))
        if not found:
            raise InvalidConfigError(f"--keys-file {path}: has no keys; it needs one on each line")
        return cls(found)

    def among(self, keys: Collection[bytes | None]) -> set[bytes]:
        """Returns the requested ones among ``keys``."""
        return {key for key in self.keys.intersection(keys) if key is not None}

    def salted(self, salt: bytes | None = None) -> SaltedKeys:
        """Returns the keys as salted hashes; ``salt`` None: a new one."""
        salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
        return SaltedKeys(salt, frozenset(_digest(salt, key) for key in self.keys))


@dataclass(frozen=True)
class SaltedKeys:
    """Keys of which only the salted SHA-256 is known. Can be pickled."""

    salt: bytes
    digests: frozenset[bytes]

    def among(self, keys: Collection[bytes | None]) -> set[bytes]:
        """Returns the ``keys`` that have one of the hashes."""
        return {key for key in keys if key is not None and _digest(self.salt, key) in self.digests}

    def to_json(self) -> dict[str, Any]:
        return {"salt": self.salt.hex(), "sha256": sorted(each.hex() for each in self.digests)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError for content that is not from :meth:`to_json`."""
        return cls(bytes.fromhex(content["salt"]), frozenset(map(bytes.fromhex, content["sha256"])))


class RecordFinder(Protocol):
    """Finds the records to erase."""

    @property
    def secret(self) -> Uint64s | None:
        """The secret for hashing keys; None: no hashes are needed."""
        ...

    def find(self, records: Keyed) -> Bools:
        """Returns which records to erase, shape (records,). Their keys were hashed with :attr:`secret`."""
        ...


class KeyFinder:
    """Finds records with the requested keys by hashes, as compaction finds equal keys."""

    def __init__(self, asked: AskedKeys) -> None:
        keys = sorted(asked.keys)
        slots = int((len(keys) + 2) / _LOAD_FACTOR)
        self._map = maps.OffsetMap(slots * maps.SLOT_BYTES, _LOAD_FACTOR)
        hashes = maps.hash_all(BinaryColumn.from_list([*keys]), self._map.secret)
        self._map.put_all(hashes, np.ones(len(keys), np.bool_), np.full(len(keys), _ABOVE_ALL), 0)
        self.secret = self._map.secret

    def find(self, records: Keyed) -> Bools:
        """Returns which records have a requested key, shape (records,). Their keys were hashed with :attr:`secret`."""
        found: Bools = records.has_key & ~self._map.are_latest(records.hashes, records.has_key, records.offsets)
        return found


def _parsed(path: str, form: str, lines: Iterable[bytes]) -> Iterable[bytes]:
    parse = KEY_FORMS[form]
    for number, line in enumerate(lines, 1):
        if line := line.removesuffix(b"\r"):
            try:
                yield parse(line)
            except (binascii.Error, ValueError) as error:
                raise InvalidConfigError(f"--keys-file {path}, line {number}: is not {form}: {error}") from None


def _digest(salt: bytes, key: bytes) -> bytes:
    return hashlib.sha256(salt + key).digest()
