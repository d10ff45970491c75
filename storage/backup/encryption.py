"""Backups that are encrypted with a key: AES-256 in GCM, from the library ``cryptography``.

Each file of the backup is ``FORM``, the key's id (8 bytes), a random nonce (12) and the encrypted content with its tag
(16). The name of the file is authenticated with the content, which reveals swapped files; a list, which is such a file,
states which piece is at which position of a file of the log. Pieces are small, so memory is bounded. They are named by
a keyed hash (HMAC-SHA-256) instead of SHA-256: each is stored once, and nobody without the key can test whether a known
piece is there. Keys for names and content are derived from the one that is given (HKDF).
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import CorruptionError, InvalidConfigError
from ..extras import needs_extra
from ..filesystem.local import LocalFileSystem
from ..filesystem.operations import read_file
from ..filesystem.port import Buffer
from .cuts import CUT_BYTES_MAX, file_of, list_cuts
from .places import BackupPlace, Stored

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FORM = b"CLB\x01"  # no JSON begins so
KEY_BYTES, ID_BYTES, NONCE_BYTES, TAG_BYTES = 32, 8, 12, 16
OVERHEAD = len(FORM) + ID_BYTES + NONCE_BYTES + TAG_BYTES
_KEY_FILE_BYTES_MAX = 4096


@dataclass(frozen=True)
class BackupKey:
    """The keys that are derived from the one in a file."""

    content: bytes = field(repr=False)
    names: bytes = field(repr=False)
    id: bytes  # tells nothing of the others

    @classmethod
    def read(cls, path: str) -> BackupKey:
        """Reads a file with 64 hexadecimal digits. Raises InvalidConfigError for other content, and OSError."""
        try:
            text = read_file(LocalFileSystem(), path, _KEY_FILE_BYTES_MAX).decode().strip()
            key = bytes.fromhex(text)
        except (CorruptionError, ValueError):
            key = b""
        if len(key) != KEY_BYTES:
            raise InvalidConfigError(
                f"--key-file {path}: must have {2 * KEY_BYTES} hexadecimal digits and nothing else; "
                f"make one with: openssl rand -hex {KEY_BYTES}"
            )
        return cls.derived(key)

    @classmethod
    def derived(cls, key: bytes) -> BackupKey:
        """Returns the keys that are derived from 32 random bytes. Raises MissingExtraError without cryptography."""
        with needs_extra("--key-file"):
            from cryptography.hazmat.primitives import hashes  # noqa: PLC0415  an extra
            from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand  # noqa: PLC0415

        def expand(purpose: bytes, length: int) -> bytes:
            return HKDFExpand(hashes.SHA256(), length, b"commitlog backup: " + purpose).derive(key)

        return cls(expand(b"content", KEY_BYTES), expand(b"names", KEY_BYTES), expand(b"id", ID_BYTES))


def unlock_backup(place: BackupPlace, key: BackupKey | None) -> BackupPlace:
    """Returns the place as its readers see it; the first backup decides whether all backups there are encrypted.

    Raises InvalidConfigError if it is encrypted and there is no key, if the key is another one, and if there is a key
    and it is not encrypted.
    """
    cuts = [each.name for each in reversed(list_cuts(place))]  # the newest first; most often it tells
    forms = (form for each in cuts if (form := _form(place, each)) is not None)
    if key is None:
        if next(forms, None):
            raise InvalidConfigError(f"{place.path}: this backup is encrypted: give its key with --key-file")
        return place
    first = next(forms, key.id)
    if first == b"":
        raise InvalidConfigError(
            f"{place.path}: this backup is not encrypted: leave --key-file out, or begin an encrypted one in another "
            "place"
        )
    if key.id != first and key.id not in forms:
        raise InvalidConfigError(
            f"{place.path}/{file_of(cuts[0])}: is encrypted with another key than that in --key-file, or damaged"
        )
    return EncryptedPlace(place, key)


def _form(place: BackupPlace, cut: str) -> bytes | None:
    """Returns the id of the key of a list, empty if it is not encrypted, or None if that is unclear."""
    try:
        data = bytes(memoryview(place.get(file_of(cut), CUT_BYTES_MAX))[: len(FORM) + ID_BYTES])
    except CorruptionError:
        return None
    if data.startswith(FORM):
        return data[len(FORM) :]
    return b"" if data.startswith(b"{") else None


class EncryptedPlace:
    """A place whose files are encrypted on their way to another one, and decrypted on their way back."""

    def __init__(self, place: BackupPlace, key: BackupKey) -> None:
        with needs_extra("--key-file"):
            from cryptography.exceptions import InvalidTag  # noqa: PLC0415  an extra
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
        self._place, self._key = place, key
        self._cipher: AESGCM = AESGCM(key.content)
        self._invalid: type[Exception] = InvalidTag

    @property
    def path(self) -> str:
        return self._place.path

    def digest(self, data: Buffer) -> str:
        return hmac.digest(self._key.names, data, "sha256").hex()

    def put(self, name: str, data: Buffer) -> None:
        self._place.put(name, self._encrypted(name, data))

    def sync(self) -> None:
        self._place.sync()

    def publish(self, name: str, data: bytes) -> None:
        self._place.publish(name, self._encrypted(name, data))

    def get(self, name: str, limit: int) -> Buffer:
        """Raises CorruptionError also for a file that was not stored under this name with this key."""
        data = memoryview(self._place.get(name, limit + OVERHEAD))
        head = len(FORM) + ID_BYTES
        try:
            if data[:head] != FORM + self._key.id:
                raise self._invalid
            return self._cipher.decrypt(data[head : head + NONCE_BYTES], data[head + NONCE_BYTES :], name.encode())
        except (self._invalid, ValueError):
            raise CorruptionError(
                "the file is not what was stored under this name with this key", path=f"{self.path}/{name}"
            ) from None

    def list_files(self, folder: str) -> list[Stored]:
        """Sizes are those of the decrypted content."""
        return [each._replace(size=each.size - OVERHEAD) for each in self._place.list_files(folder)]

    def delete(self, names: Sequence[str]) -> None:
        self._place.delete(names)

    def list_abandoned(self, folder: str) -> list[Stored]:
        return self._place.list_abandoned(folder)

    def locked(self) -> AbstractContextManager[None]:
        return self._place.locked()

    def _encrypted(self, name: str, data: Buffer) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return FORM + self._key.id + nonce + self._cipher.encrypt(nonce, data, name.encode())
