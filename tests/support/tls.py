"""Certificates for a gateway with TLS, and a client of it that cuts what it sends anywhere."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from random import Random
from threading import Lock

import trustme

HOST = "127.0.0.1"


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Writes a gateway's key with its certificates; returns the file, and what its clients trust."""
    authority, trusted = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(trusted)
    path = folder / "server.pem"
    authority.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(str(path))
    return path, trusted


class CutTls:
    """The client's side of a connection, for a thread that sends and another one that receives.

    What is encrypted is sent in pieces, so that records of TLS arrive in pieces too.
    """

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, chance: Random) -> None:
        self._plain, self._chance = plain, chance
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=HOST)
        self._lock = Lock()  # Guards the state of TLS.
        while not self._has_shaken_hands():
            received = plain.recv(1 << 16)
            assert received, "closed before the end of the handshake"
            self._in.write(received)

    def _has_shaken_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._plain.sendall(self._out.read())
        return True

    def sendall(self, data: bytes) -> None:
        with self._lock:
            self._tls.write(data)
            encrypted = self._out.read()
        cut = self._chance.randrange(len(encrypted))
        self._plain.sendall(encrypted[:cut])
        self._plain.sendall(encrypted[cut:])

    def recv(self, size: int) -> bytes:
        while True:
            with self._lock:
                try:
                    return self._tls.read(size)
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLError:  # it ended without TLS's closing message
                    return b""
            data = self._plain.recv(1 << 16)
            with self._lock:
                self._in.write(data) if data else self._in.write_eof()
