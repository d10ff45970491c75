"""Free ports of this machine, for servers that tests start."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from functools import cache
from itertools import cycle

_PORTS = range(20_000, 32_000)  # below those that Linux gives to outgoing connections
_SHARES = 8


def free_port() -> int:
    """Returns a port of 127.0.0.1 that nobody uses now, nor soon.

    A server listens a while after its port was chosen. So that nobody else is given the port in between, each process
    of pytest-xdist has its share of the ports, and gives each of them again only after all the others.
    """
    return next(port for port in _ports_in_turn() if _is_free(port))


@cache
def _ports_in_turn() -> Iterator[int]:
    """This process's share over and over. The first one is chosen by chance: the tests may be run twice at a time."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    share = _PORTS[worker % _SHARES :: _SHARES]
    # Not the shared generator: test tools seed it, and two processes would begin with the same port.
    first = random.SystemRandom().randrange(len(share))
    return cycle((*share[first:], *share[:first]))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
