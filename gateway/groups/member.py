"""Member: a member of a group, its requests, and the answers to them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...protocol.bodies import ErrorCode
from ..threads.worker import Timer

Protocols = Sequence[tuple[str, bytes]]  # names of protocols in the order of preference, with the member's metadata

NO_GENERATION = -1
_ENTRY_BYTES = 200  # of Python's objects for one protocol
SMALL_BYTES = 64 << 10  # up to this size, the protocols of a member count for no limit


class Client(Protocol):
    """A client's connection, which is compared by its identity."""

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended. For any thread."""
        ...


@dataclass(frozen=True)
class Join:
    """A JoinGroup; timeouts in ms."""

    group: str
    member_id: str  # empty: none yet
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    requires_member_id: bool = True  # since version 4: a dynamic member first gets an id, and joins with it
    may_skip_assignment: bool = True  # from version 9 on
    reason: str | None = None
    client: Client | None = field(default=None, repr=False, compare=False)  # None: unknown


@dataclass(frozen=True)
class Sync:
    """A SyncGroup; fields that the request's version lacks are None."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]  # by member id; from the leader


@dataclass(frozen=True)
class Leaving:
    """A member that leaves. An empty member id: an administrator removes the static member."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True)
class JoinResult:
    """The answer to JoinGroup."""

    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: Sequence[tuple[str, str | None, bytes]] = ()  # member id, instance id, metadata; only for the leader


@dataclass(frozen=True)
class SyncResult:
    """The answer to SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


JoinDone = Callable[[JoinResult], None]
SyncDone = Callable[[SyncResult], None]


def large_bytes(protocols: Protocols) -> int:
    """Returns the bytes of a member's protocols and metadata, or 0 if they are few, as those of most members."""
    size = sum(_ENTRY_BYTES + 4 * len(name) + len(metadata) for name, metadata in protocols)
    return size if size > SMALL_BYTES else 0


@dataclass(eq=False)
class Member:
    """A member; timeouts in ms (Kafka's ``MemberMetadata``)."""

    id: str
    instance_id: str | None  # of a static member
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False  # waits for its first join, so that it sends no heartbeats yet
    join_done: JoinDone | None = field(default=None, repr=False)  # while its JoinGroup waits
    sync_done: SyncDone | None = field(default=None, repr=False)  # while its SyncGroup waits
    silence: Timer | None = field(default=None, repr=False)  # rings when the member has sent nothing for too long

    @property
    def is_expected(self) -> bool:
        """Whether the member's session can time out now: it cannot while one of its requests waits for an answer."""
        return self.is_new or (self.join_done is None and self.sync_done is None)

    @property
    def protocol_names(self) -> set[str]:
        """The names of the member's protocols, without duplicates."""
        return {name for name, _ in self.protocols}

    def metadata(self, protocol: str) -> bytes:
        """Returns the member's metadata for one of its protocols."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def matches(self, protocols: Protocols) -> bool:
        """Whether the member has the same protocols, in the same order, with the same metadata."""
        return tuple(self.protocols) == tuple(protocols)

    def vote(self, candidates: Collection[str]) -> str:
        """Returns the first of the member's protocols that is a candidate."""
        return next(name for name, _ in self.protocols if name in candidates)

    def answer_join(self, result: JoinResult) -> None:
        """Answers the member's JoinGroup, if one waits."""
        done, self.join_done = self.join_done, None
        if done is not None:
            done(result)

    def answer_sync(self, result: SyncResult) -> bool:
        """Answers the member's SyncGroup, if one waits; returns whether one did."""
        done, self.sync_done = self.sync_done, None
        if done is not None:
            done(result)
        return done is not None

    def stop_waiting(self) -> None:
        """Drops the timer."""
        if self.silence is not None:
            self.silence.cancel()
            self.silence = None
