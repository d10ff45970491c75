"""Acceptor: a thread that accepts connections and hands them to the processors in turn."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from itertools import cycle
from threading import Event

from ..listeners import canonical_host
from ..threads.counted import Counted
from ..threads.kept import KeptThread
from .limits.admission import Admission
from .limits.clients import Terms
from .processor import Processor

RETRY_S = 0.1  # after an error, such as too many open files

logger = logging.getLogger(__name__)


class Acceptor:
    """Listens on one address."""

    def __init__(
        self, listener: socket.socket, terms: Terms, processors: Sequence[Processor], admission: Admission
    ) -> None:
        """``listener``: listening already; :meth:`stop` closes it. ``admission``: that of all listeners."""
        self._listener, self.terms = listener, terms  # other terms hold for connections that come from then on
        self._processors = processors
        self._admission = admission
        self._counted = Counted(logger)
        self._stopped = Event()
        self._thread = KeptThread(f"gateway-acceptor-{terms.listener}", self._run)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Accepts no more connections."""
        self._stopped.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # ends the accept
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        for processor in cycle(self._processors):
            try:
                client, address = self._listener.accept()
            except OSError as error:
                if self._stopped.is_set():
                    return
                self._counted.warn(error.errno, f"a connection was not accepted: {error}")
                self._stopped.wait(RETRY_S)
                continue
            self._stopped.wait(self._admission.delay_s())
            host = canonical_host(str(address[0]))  # also of IPv4 clients at an address of IPv6
            limit = self._admission.refuses(host)
            if limit is not None:
                self._counted.warn((host, limit), f"{host}: closed, because the limit {limit} is reached")
                client.close()
                continue
            delay_s = self._admission.quota_delay_s(host)
            if delay_s > 0:
                self._counted.warn(
                    (host, "quota"), f"{host}: closed after {delay_s:.1f} s, by connection_creation_rate"
                )
                processor.close_later(client, host, delay_s)
                continue
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            processor.adopt(client, host, self.terms)


def listening(host: str, port: int, *, backlog: int, send_bytes: int, receive_bytes: int) -> socket.socket:
    """Returns a listening socket. Its connections have its buffer sizes, in bytes; -1: the system's default.

    Raises OSError, with the address as its file name, if the address is taken or not one of this machine.
    """
    try:
        return _listening(host, port, backlog, send_bytes, receive_bytes)
    except OSError as error:
        raise OSError(error.errno, f"cannot listen there: {error.strerror}", f"{host}:{port}") from None


def _listening(host: str, port: int, backlog: int, send_bytes: int, receive_bytes: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for option, size in ((socket.SO_SNDBUF, send_bytes), (socket.SO_RCVBUF, receive_bytes)):
            if size >= 0:
                listener.setsockopt(socket.SOL_SOCKET, option, size)
        listener.bind(address)
        listener.listen(backlog)
    except BaseException:
        listener.close()
        raise
    return listener
