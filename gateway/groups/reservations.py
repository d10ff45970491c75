"""Reservations: member ids that clients got but have not joined with yet.

A dynamic member first gets an id, and joins with it in its next request (KIP-394). An id begins with the client's own
id, and is kept for up to the session timeout. So the ids of one connection are limited in size, and end with the
connection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..threads.disk import Home
from ..threads.worker import Timer
from .group import Group
from .member import Client
from .store import run_later

CLIENT_BYTES_MAX = 64 << 10  # for the reservations of one connection: some 60 with ids of usual length
RESERVATION_BYTES = 1 << 10  # memory of one reservation, without its id
LOOK_MS = 1000


@dataclass(eq=False)
class Reservation:
    """A reserved id, with its timer and the other reservations of its client."""

    group: Group
    member_id: str
    timer: Timer
    of_client: dict[Reservation, None]

    def end(self) -> None:
        """Stops the timer; the id is free again."""
        self.timer.cancel()
        self.of_client.pop(self, None)

    @property
    def size(self) -> int:
        """The memory that it takes, in bytes."""
        return RESERVATION_BYTES + len(self.member_id)


class Reservations:
    """The reservations of all groups. Only for the coordinator's thread."""

    def __init__(self, home: Home, drop: Callable[[Group, str], None]) -> None:
        """``drop`` is called with a group and an id of it that is no longer reserved; it ends the reservation."""
        self._home, self._drop = home, drop
        self._of_clients: dict[Client, dict[Reservation, None]] = {}  # in the order in which they were reserved
        self._looks = False

    def give_out(self, group: Group, member_id: str, timeout_ms: int, client: Client | None) -> None:
        """Reserves an id, until the member joins with it, ``timeout_ms`` are over, or the client's connection ends.

        A client that has too many loses those that it got first. None: a client whose connection is not known.
        """
        mine: dict[Reservation, None] = {} if client is None else self._of_clients.setdefault(client, {})
        timer = run_later(self._home, timeout_ms, partial(self._drop, group, member_id))
        group.pending[member_id] = made = Reservation(group, member_id, timer, mine)
        mine[made] = None
        while len(mine) > 1 and sum(each.size for each in mine) > CLIENT_BYTES_MAX:
            first = next(iter(mine))
            self._drop(first.group, first.member_id)
        if not self._looks:
            self._look_later()

    def _look_later(self) -> None:
        self._looks = bool(self._of_clients)
        if self._looks:
            run_later(self._home, LOOK_MS, self._look)

    def _look(self) -> None:
        """Ends the reservations of clients whose connections have ended."""
        for client, mine in list(self._of_clients.items()):
            if client.is_closed:
                for each in list(mine):
                    self._drop(each.group, each.member_id)
            if not mine:
                del self._of_clients[client]
        self._look_later()
