"""The limits of all clients together, and the terms of the connections of one listener."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import NamedTuple

from .admission import Admission
from .memory import RequestMemory
from .pace import LeastRate
from .quota import Quota
from .untaken import UntakenBytes


class Limits(NamedTuple):
    """The limits of clients; one object counts for all threads."""

    request_bytes_max: int
    places_of: Callable[[memoryview, bool], Quota]  # of a request, and whether it comes before a login
    memory: RequestMemory  # for larger requests
    login_memory: RequestMemory  # the same, before a login
    admission: Admission
    least_rate: LeastRate  # of requests that arrive
    untaken: UntakenBytes  # of answers
    idle_s: float | None = None  # None: no limit
    login_s: float | None = None  # for handshake and login; None: no limit


class Terms(NamedTuple):
    """The security and the limits of a listener's connections."""

    listener: str  # its name
    tls: ssl.SSLContext | None = None  # None: bytes are sent as they are
    login_bytes_max: int | None = None  # of a request before the client has logged in; None: it need not
