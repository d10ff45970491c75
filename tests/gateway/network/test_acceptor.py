"""Acceptor: whose limits a connection counts for."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from pyspark_commitlog.gateway.network.acceptor import Acceptor
from pyspark_commitlog.gateway.network.limits.admission import Admission, AdmissionLimits
from pyspark_commitlog.gateway.network.limits.clients import Terms


class Listener:
    """Accepts one connection, whose client has an address of the caller's choice."""

    def __init__(self, address: tuple[Any, ...]) -> None:
        self._address = address
        self.client, self._accepted = socket.socketpair()
        self._is_over = False

    def accept(self) -> tuple[socket.socket, tuple[Any, ...]]:
        if self._is_over:
            raise OSError
        self._is_over = True
        return self._accepted, self._address

    def shutdown(self, how: int) -> None: ...

    def close(self) -> None:
        self.client.close()


@pytest.mark.parametrize("address", [("10.0.0.1", 1), ("::ffff:10.0.0.1", 1, 0, 0)])
def test_the_limit_of_an_address_also_holds_where_ipv6_is_listened_to(address: tuple[Any, ...]) -> None:
    listener = Listener(address)
    admission = Admission(AdmissionLimits(of_addresses={"10.0.0.1": 0}))
    acceptor = Acceptor(listener, Terms("PLAINTEXT"), [None], admission)  # type: ignore[arg-type, list-item]
    acceptor.start()
    listener.client.settimeout(20)
    assert listener.client.recv(1) == b""
    acceptor.stop()
