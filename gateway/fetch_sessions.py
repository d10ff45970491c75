"""FetchSessions: remembers what a consumer fetches, so that requests and answers only have what changed.

As in KIP-227 and Kafka's ``FetchSessionCache``, a consumer's first request names all of its partitions
and begins a session, which the answer numbers. Later requests name the partitions that it adds, drops, or wants from
another offset; answers leave out partitions without records, errors and moved ends. Where a broker would serve any
client that knows a session's number, here it belongs to its user.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from secrets import randbelow
from threading import Lock
from typing import NamedTuple
from uuid import UUID

from ..protocol.bodies import ErrorCode
from ..protocol.errors import RequestError
from ..protocol.fetch import NO_SESSION, FetchRequest
from ..storage import TOPIC_LENGTH_MAX
from .resting import Answer, Asked, Kept, OfSession, Watch, of_request

INITIAL, FINAL = 0, -1  # epochs of requests that name all partitions: to begin a session, or to have none
EVICTION_S = 120.0  # ``min.incremental.fetch.session.eviction.ms`` of Kafka's ``FetchSession``
INT32_MAX = 2**31 - 1
PARTITIONS_MAX = 200_000  # of all sessions together, some 60 MB

Key = tuple[str | UUID, int]  # topic, by name or id, and partition


class Sent(NamedTuple):
    """The part of all partitions' answers that is sent to the client."""

    answers: Sequence[Answer]
    session_id: int = NO_SESSION


@dataclass(slots=True, eq=False)
class _Session:
    id: int
    owner: str
    by_topic_id: bool
    created_s: float
    used_s: float
    partitions: dict[Key, Kept]
    watch: Watch
    epoch: int = 1  # the epoch that the next request must have

    def end(self) -> None:
        """Its partitions wake nothing from now on; a fetch that still waits is woken to check again."""
        for each in self.partitions.values():
            each.end()
        self.watch.moved()


class Fetching(NamedTuple):
    """A request, all the partitions that it stands for, and the function that chooses which answers to send."""

    request: FetchRequest
    asked: Asked
    send: Callable[[Sequence[Answer]], Sent]


class FetchSessions:
    """The sessions of one node. For any thread."""

    def __init__(self, slots: int, now_s: Callable[[], float] = time.monotonic) -> None:
        """``slots``: sessions at most (``max.incremental.fetch.session.cache.slots``); 0: none are begun."""
        self._slots, self._now_s = slots, now_s
        self._sessions: OrderedDict[int, _Session] = OrderedDict()  # in order of their last use
        self._partitions = 0  # of all
        self._guard = Lock()  # Guards the sessions and the count.

    def __len__(self) -> int:
        return len(self._sessions)

    def resolve(self, asked: FetchRequest, owner: str, *, by_topic_id: bool) -> Fetching:
        """Returns what a request of the user ``owner`` asks for.

        Raises RequestError for a session that the user does not have.
        """
        with self._guard:
            if asked.session_epoch in (INITIAL, FINAL):
                self._end(asked.session_id, owner)
                if asked.session_epoch == FINAL or not self._slots:
                    return Fetching(asked, of_request(asked.partitions), Sent)
                begin = partial(self._begin, asked, owner, by_topic_id=by_topic_id)
                return Fetching(asked, of_request(asked.partitions), begin)
            return self._go_on(asked, owner, by_topic_id=by_topic_id)

    def _go_on(self, asked: FetchRequest, owner: str, *, by_topic_id: bool) -> Fetching:
        session = self._sessions.get(asked.session_id)
        if session is None or session.owner != owner:
            raise RequestError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != asked.session_epoch:
            raise RequestError(ErrorCode.invalid_fetch_session_epoch)
        if session.by_topic_id != by_topic_id:
            raise RequestError(ErrorCode.fetch_session_topic_id_error)
        if _has_impossible_names(asked):
            self._end(session.id, owner)
            raise RequestError(ErrorCode.fetch_session_id_not_found)
        self._update(session, asked)
        if not session.partitions:
            self._end(session.id, owner)
            return Fetching(asked, Asked(()), Sent)
        if self._partitions > PARTITIONS_MAX:
            self._end(session.id, owner)  # its client begins again with a whole request
            raise RequestError(ErrorCode.fetch_session_id_not_found)
        session.epoch = 1 if session.epoch == INT32_MAX else session.epoch + 1
        session.used_s = self._now_s()
        self._sessions.move_to_end(session.id)
        of_session = OfSession(session.watch, [*session.partitions.values()])
        return Fetching(asked, of_session, partial(self._changed, session))

    def _update(self, session: _Session, asked: FetchRequest) -> None:
        before = len(session.partitions)
        for each in asked.partitions:
            key = each.topic, each.partition
            known = session.partitions.get(key)
            session.partitions[key] = Kept(each, session.watch) if known is None else known.asked_again(each)
        for gone in asked.forgotten:
            if (known := session.partitions.pop(gone, None)) is not None:
                known.end()
        if asked.partitions or asked.forgotten:
            session.watch.moved()  # an earlier fetch that still waits checks again
        self._partitions += len(session.partitions) - before

    def _begin(
        self,
        asked: FetchRequest,
        owner: str,
        answers: Sequence[Answer],
        *,
        by_topic_id: bool,
    ) -> Sent:
        """Begins a session if there is room, and sends everything."""
        watch = Watch()
        partitions = {(each.topic, each.partition): Kept(each, watch) for each in asked.partitions}
        for answer in answers:
            partitions[answer.topic, answer.partition].has_changed(answer)
        with self._guard:
            if _has_impossible_names(asked) or not self._has_room(len(partitions)):
                return Sent(answers)
            now_s, number = self._now_s(), self._new_id()
            self._sessions[number] = _Session(number, owner, by_topic_id, now_s, now_s, partitions, watch)
            self._partitions += len(partitions)
            return Sent(answers, number)

    def _changed(self, session: _Session, answers: Sequence[Answer]) -> Sent:
        """Sends what has changed; partitions with records move to the end of the order, so that each has its turn."""
        found = []
        with self._guard:
            for answer in answers:
                key = answer.topic, answer.partition
                kept = session.partitions.get(key)
                if kept is None or not kept.has_changed(answer):
                    continue
                found.append(answer)
                if answer.size:
                    session.partitions[key] = session.partitions.pop(key)
        return Sent(found, session.id)

    # Room

    def _end(self, number: int, owner: str) -> None:
        session = self._sessions.get(number)
        if session is not None and session.owner == owner:
            self._drop(session)

    def _drop(self, session: _Session) -> None:
        del self._sessions[session.id]
        self._partitions -= len(session.partitions)
        session.end()

    def _has_room(self, partitions: int) -> bool:
        """Whether a session of this many partitions may begin; makes room by ending an idle or an old, smaller one."""
        if len(self._sessions) >= self._slots and (evicted := self._evictable(partitions)) is not None:
            self._drop(evicted)
        return len(self._sessions) < self._slots and self._partitions + partitions <= PARTITIONS_MAX

    def _evictable(self, partitions: int) -> _Session | None:
        since_s = self._now_s() - EVICTION_S
        oldest = next(iter(self._sessions.values()))
        if oldest.used_s < since_s:
            return oldest
        old: Iterable[_Session] = (each for each in self._sessions.values() if each.created_s < since_s)
        smallest = min(old, key=lambda each: len(each.partitions), default=None)
        return None if smallest is None or len(smallest.partitions) >= partitions else smallest

    def _new_id(self) -> int:
        while (number := 1 + randbelow(INT32_MAX)) in self._sessions:
            pass
        return number


def _has_impossible_names(asked: FetchRequest) -> bool:
    """Whether there are names that no topic can have: clients may choose long ones, and a session would keep them."""
    return any(isinstance(each.topic, str) and len(each.topic) > TOPIC_LENGTH_MAX for each in asked.partitions)
