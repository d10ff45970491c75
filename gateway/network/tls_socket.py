"""TlsSocket: an encrypted connection that does not block, with the methods of a socket that a connection uses."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

CHUNK_BYTES = 64 << 10  # encrypted at once
_SILENT = "the client speaks without TLS"
_CAUSES = {  # of OpenSSL's reasons
    "WRONG_VERSION_NUMBER": _SILENT,
    "HTTP_REQUEST": _SILENT,
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept the certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept the certificate",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client showed no certificate",
    "CERTIFICATE_VERIFY_FAILED": "the client's certificate is of no authority in ssl.truststore.location",
}


def tls_text(error: ssl.SSLError) -> str:
    """Returns OpenSSL's reason for an error, and the usual cause of it."""
    reason = error.reason or str(error)
    return f"{reason}: {_CAUSES[reason]}" if reason in _CAUSES else reason


class TlsSocket:
    """The server's side. The handshake is part of the first reads."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext) -> None:
        """``plain``: a non-blocking socket, which this object then owns."""
        self._tls = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        self.wants_to_write = False  # before it can read on
        self._failure: OSError | None = None  # found behind bytes that were read, and raised by the next read

    def recv_into(self, buffer: memoryview) -> int:
        """Reads as a socket does. Raises BlockingIOError if nothing has arrived, OSError if the bytes are not TLS."""
        self.wants_to_write = False
        if self._failure is not None:
            raise self._failure
        try:
            return self._tls.recv_into(buffer)
        except ssl.SSLWantReadError:
            raise BlockingIOError from None
        except ssl.SSLWantWriteError:
            self.wants_to_write = True
            raise BlockingIOError from None

    def fill(self, buffer: memoryview) -> int:
        """Reads all that has arrived, up to the room for it, where :meth:`recv_into` reads one record of TLS."""
        have = count = self.recv_into(buffer)
        while count and have < len(buffer):
            try:
                count = self.recv_into(buffer[have:])
            except BlockingIOError:
                break
            except OSError as error:
                self._failure = error
                break
            have += count
        return have

    def sendmsg(
        self, buffers: Sequence[bytes | bytearray | memoryview], ancillary: Sequence[object] = (), flags: int = 0
    ) -> int:
        """Sends some of the first bytes; returns how many. After a BlockingIOError, call it with the same bytes again.

        ``ancillary`` and ``flags`` are those of a plain socket, and do nothing here.
        """
        chunk = bytearray()
        for each in buffers:
            chunk += memoryview(each)[: CHUNK_BYTES - len(chunk)]
        try:
            return self._tls.send(chunk)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    @property
    def has_read_ahead(self) -> bool:
        """Whether decrypted bytes, or an error, have not been read yet; a selector does not report these."""
        return self._failure is not None or self._tls.pending() > 0

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The client's certificate, once the handshake is complete; None: it showed none."""
        return self._tls.getpeercert()

    def fileno(self) -> int:
        """The descriptor, for a selector."""
        return self._tls.fileno()

    def getsockname(self) -> Any:
        """The server's address."""
        return self._tls.getsockname()

    def close(self) -> None:
        """Sends TLS's closing message if the socket accepts it now, and closes."""
        with suppress(OSError, ValueError):
            self._tls.unwrap()
        self._tls.close()
