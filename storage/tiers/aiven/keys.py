"""Keys of encrypted segments: each has one of its own, encrypted with a pair of RSA keys that the brokers have.

By Aiven's ``RsaEncryptionProvider`` (OAEP with SHA3-512) and ``AesEncryptionProvider`` (AES-256 in GCM, 12 bytes of
initialization vector before each chunk, a tag of 16 bytes behind it). Needs the extra ``[encryption]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha3_512
from threading import Lock
from typing import TYPE_CHECKING

from ...errors import CorruptionError, InvalidConfigError
from ...extras import needs_extra
from ...filesystem.local import LocalFileSystem
from ...filesystem.operations import read_file
from ...paths import local_path
from .manifest import Encryption

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateNumbers

IV_BYTES = 12
HASH_BYTES = 64  # of SHA3-512
KEY_FILE_BYTES_MAX = 1 << 20


class Keys:
    """Private keys from files. For any thread."""

    def __init__(self, files: Sequence[str] = ()) -> None:
        """``files``: the plugin's private keys, in PEM; any of them may fit a segment. They are read when needed."""
        self._files = tuple(map(local_path, files))
        self._found: dict[bytes, bytes] = {}  # the keys of segments, by the encrypted one
        self._lock = Lock()  # Guards the keys that were found.

    def key_of(self, encryption: Encryption) -> bytes:
        """Returns the key of a segment. Raises InvalidConfigError if no key file fits, or the extra is missing."""
        with self._lock:
            found = self._found.get(encryption.encrypted_key)
        if found is None:
            found = self._decrypted(encryption)
            with self._lock:
                self._found[encryption.encrypted_key] = found
        return found

    def _decrypted(self, encryption: Encryption) -> bytes:
        for path in self._files:
            found = _unpadded(_private_key(path), encryption.encrypted_key)
            if found is not None:
                return found
        given = f"none of {', '.join(self._files)} fits" if self._files else "give the file with the private key"
        raise InvalidConfigError(f"segments are encrypted with the key pair {encryption.key_id!r}: {given}")


def _private_key(path: str) -> RSAPrivateNumbers:
    with needs_extra("an encrypted tier"):
        from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415 - the extra is needed only here
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415
    try:
        key = load_pem_private_key(read_file(LocalFileSystem(), path, KEY_FILE_BYTES_MAX), None)
    except (ValueError, TypeError) as error:
        raise InvalidConfigError(f"{path}: this is no private key in PEM without a password: {error}") from None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise InvalidConfigError(f"{path}: this is no key of RSA")
    return key.private_numbers()


def _unpadded(key: RSAPrivateNumbers, encrypted: bytes) -> bytes | None:
    """Decrypts bytes with a key pair; None if they were encrypted with another pair.

    OAEP with SHA3-512 for both hashes (RFC 8017, 7.1.2), which OpenSSL 3 refuses.
    """
    modulus, size = key.public_numbers.n, -(-key.public_numbers.n.bit_length() // 8)
    number = int.from_bytes(encrypted, "big")
    if len(encrypted) != size or number >= modulus or size < 2 * HASH_BYTES + 2:
        return None
    data = pow(number, key.d, modulus).to_bytes(size, "big")
    seed = _xor(data[1 : 1 + HASH_BYTES], _mask(data[1 + HASH_BYTES :], HASH_BYTES))
    block = _xor(data[1 + HASH_BYTES :], _mask(seed, size - HASH_BYTES - 1))
    padding, one, message = block[HASH_BYTES:].partition(b"\x01")
    is_ours = data[0] == 0 and block[:HASH_BYTES] == sha3_512(b"").digest() and one and not any(padding)
    return message if is_ours else None


def _mask(seed: bytes, length: int) -> bytes:
    """MGF1 (RFC 8017, B.2.1)."""
    blocks = range(-(-length // HASH_BYTES))
    return b"".join(sha3_512(seed + each.to_bytes(4, "big")).digest() for each in blocks)[:length]


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(left, right, strict=True))


def decrypted(key: bytes, aad: bytes, data: memoryview) -> bytes:
    """Returns the decrypted bytes. Raises CorruptionError, without the path, if they have changed."""
    with needs_extra("an encrypted tier"):
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - the extra is needed only here
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
    try:
        return AESGCM(key).decrypt(bytes(data[:IV_BYTES]), bytes(data[IV_BYTES:]), aad)
    except (InvalidTag, ValueError):
        raise CorruptionError("the encrypted bytes are not those that were written: restore the object") from None
