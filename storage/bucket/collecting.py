"""The collector: deletes objects that the log does not need, after it has announced them in a commit.

An object is deleted if the log does not name it, and

- its write or segment was never committed, and is older than ``staged_retention_ms``; or
- a swap, retention or the deletion of a topic dropped the last of its write or segment, longer ago than
  ``delete_grace_ms``, so that readers of an older state are done.

Ages are measured by the store's clock only. They matter for slow writers and readers, not for correctness: a ``void``
commit names the writes to be deleted, and a void write can never be committed. So a writer that was too slow fails, and
writes again.

==================================  =====================================================================
Killed after                        What is there
==================================  =====================================================================
listing                             nothing has changed
the ``void`` commit was sent        garbage that no commit can name; the next run deletes it
some objects were deleted           the rest is such garbage
==================================  =====================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Self, TypeVar

from ..errors import InvalidConfigError, ObjectMissingError
from ..text import counted
from .clients.transactions import give_up
from .commit_log import CommitLog
from .commits.commit import ClientTransaction, VoidChange, commit_key
from .commits.state import OpenTransaction, State
from .loading import last_between
from .stores.port import ObjectFacts, ObjectStore

DAY_MS = 86_400_000
MS_DIGITS_MAX = 15
COLLECTOR_KEYS = ("staged.retention.ms", "delete.grace.ms")
CLOCK = "collector/clock"  # written to learn the store's time
IDS_AT_ONCE = 20_000  # of a commit
KEYS_AT_ONCE = 1000  # of a request
CHECKPOINTS_KEPT = 10

_Item = TypeVar("_Item")
_NAME = re.compile(
    r"staged/(?P<write>[0-9a-f]{32})/[^/]+\.data|segments/[^/]+/[0-9]+/[0-9]{20}-(?P<segment>[0-9a-f]{32})\.[a-z_]+"
)


class CollectLimits(NamedTuple):
    """How long objects that the log does not name are kept, in ms."""

    staged_retention_ms: int = DAY_MS
    delete_grace_ms: int = DAY_MS

    @classmethod
    def from_mapping(cls, settings: Mapping[str, str]) -> Self:
        """Returns the limits in ``settings``, by the names in :data:`COLLECTOR_KEYS`; ignores other keys.

        Raises InvalidConfigError.
        """
        return cls(*(_milliseconds(key, settings.get(key, str(DAY_MS))) for key in COLLECTOR_KEYS))


def _milliseconds(key: str, value: str) -> int:
    if not value.isdecimal() or len(value) > MS_DIGITS_MAX:
        raise InvalidConfigError(f"{key} = {value!r}: must be a number of ms, at least 0")
    return int(value)


class Collected(NamedTuple):
    """The objects that a run deleted, or would delete."""

    uncommitted: int = 0  # writes and segments that nobody committed
    dropped: int = 0  # writes and segments that the log had
    objects: int = 0
    bytes: int = 0
    checkpoints: int = 0  # old ones
    waiting: int = 0  # bytes of unnamed objects that are still too young to delete

    def __str__(self) -> str:
        return (
            f"{counted(self.objects, 'object')} with {self.bytes:,} bytes, of {self.uncommitted:,} writes and segments "
            f"that nobody committed and {self.dropped:,} that the log no longer has; "
            f"{counted(self.checkpoints, 'old checkpoint')}; "
            f"{self.waiting:,} bytes wait"
        )


class _Candidates(NamedTuple):
    """Writes and segments that the log did not name when their objects were listed."""

    objects: Mapping[str, Sequence[ObjectFacts]]  # by id; an id without objects is only to be forgotten
    now_ms: int
    limits: CollectLimits
    old_commit: int  # objects dropped by this commit or earlier ones are old enough

    def doomed(self, state: State) -> dict[str, bool]:
        """Returns the ids to delete now, and of each whether it was in the log."""
        return {each: each in state.dropped for each in self.objects if self._is_doomed(state, each)}

    def _is_doomed(self, state: State, each: str) -> bool:
        if each in state.uses:
            return False
        if each in state.void:
            return True
        if (dropped := state.dropped.get(each)) is not None:
            return dropped <= self.old_commit
        newest_ms = max((facts.modified_ms for facts in self.objects[each]), default=self.now_ms)
        return self.now_ms - newest_ms >= self.limits.staged_retention_ms


def collect(log: CommitLog, limits: CollectLimits | None = None, *, dry_run: bool = False) -> Collected:
    """Deletes objects that the log does not need. Several runs at once do no harm.

    Raises errors like :meth:`CommitLog.commit`, and ObjectStoreError; after an error, run it again.
    """
    limits, store = limits or CollectLimits(), log.store
    state = log.catch_up()
    now_ms = _store_time(log)
    found = _listed(store, state)
    old_commit = _newest_older(log, now_ms - limits.delete_grace_ms) if state.dropped else 0
    found = {**{each: [] for each, number in state.dropped.items() if number <= old_commit}, **found}
    total = Collected(checkpoints=_drop_checkpoints(log, dry_run=dry_run))
    for ids in _divided(sorted(found), IDS_AT_ONCE):
        candidates = _Candidates({each: found[each] for each in ids}, now_ms, limits, old_commit)
        doomed = candidates.doomed(log.state) if dry_run else _give_up(log, candidates)
        objects = [facts for each in doomed for facts in candidates.objects[each]]
        if not dry_run:
            log.check_current()  # another log may need them
            _delete(store, [facts.key for facts in objects])
        total = _added(total, candidates, doomed, objects)
    return total


def unnamed_objects(log: CommitLog) -> list[str]:
    """Returns the keys of writes and segments that the log does not name: dropped ones, and those of killed processes.

    This includes a write in progress until its commit.
    """
    return sorted(facts.key for found in _listed(log.store, log.catch_up()).values() for facts in found)


def abort_overdue(log: CommitLog, *, dry_run: bool = False) -> list[ClientTransaction]:
    """Aborts clients' transactions that have been open for longer than their timeouts, by the store's clock.

    Their gateways abort them, unless they were killed. Returns the transactions. Raises the errors of :func:`collect`.
    """
    opened = list(log.catch_up().open.values())
    now_ms = _store_time(log) if opened else 0
    late = [each.transaction for each in opened if now_ms - _begun_ms(log, each) >= each.transaction.timeout_ms]
    for each in () if dry_run else late:
        log.commit(partial(give_up, transaction=each))
    return late


def _begun_ms(log: CommitLog, opened: OpenTransaction) -> int:
    facts = log.patient_store.head(commit_key(opened.number))
    if facts is None:
        raise ObjectMissingError(f"{log.store.url}/{commit_key(opened.number)}: the log has lost a commit")
    return facts.modified_ms


def _give_up(log: CommitLog, candidates: _Candidates) -> dict[str, bool]:
    """Adds the ``void`` commit; returns the ids whose objects may be deleted."""
    doomed: dict[str, bool] = {}

    def propose(state: State) -> VoidChange | None:
        nonlocal doomed
        doomed = candidates.doomed(state)
        new = sorted(doomed.keys() - state.void)
        return VoidChange(new) if new else None

    log.commit(propose)
    return doomed


def _added(
    total: Collected, candidates: _Candidates, doomed: Mapping[str, bool], objects: Sequence[ObjectFacts]
) -> Collected:
    there = [each for each in doomed if candidates.objects[each]]
    of_log = sum(doomed[each] for each in there)
    size, listed = sum(facts.size for facts in objects), candidates.objects.values()
    return total._replace(
        uncommitted=total.uncommitted + len(there) - of_log,
        dropped=total.dropped + of_log,
        objects=total.objects + len(objects),
        bytes=total.bytes + size,
        waiting=total.waiting + sum(facts.size for each in listed for facts in each) - size,
    )


def _store_time(log: CommitLog) -> int:
    """Returns the store's time in ms since the epoch: the time of an object that was just written."""
    log.patient_store.put(CLOCK, b"")
    facts = log.patient_store.head(CLOCK)
    if facts is None:
        raise ObjectMissingError(f"{log.store.url}/{CLOCK}: the object was just written, but does not exist")
    return facts.modified_ms


def _listed(store: ObjectStore, state: State) -> dict[str, list[ObjectFacts]]:
    """Returns the objects of writes and segments that the log does not name, by their ids."""
    found: dict[str, list[ObjectFacts]] = {}
    for folder in ("staged", "segments"):
        for facts in store.list(folder):
            name = _NAME.fullmatch(facts.key)
            if name is not None and (each := name["write"] or name["segment"]) not in state.uses:
                found.setdefault(each, []).append(facts)
    return found


def _newest_older(log: CommitLog, than_ms: int) -> int:
    """Returns the last commit that is not newer than a time, by the store's clock; 0 if there is none."""

    def is_older(number: int) -> bool:
        facts = log.patient_store.head(commit_key(number))
        return facts is not None and facts.modified_ms <= than_ms

    return last_between(0, log.state.number + 1, is_older)


def _drop_checkpoints(log: CommitLog, *, dry_run: bool) -> int:
    """Deletes all but the newest checkpoints. A reader whose hint names a deleted one finds a newer one.

    Counts existing checkpoints only, because a writer may end before it has written its checkpoint.
    """
    head = log.state.number
    found = {facts.key: _number(facts.key) for facts in log.store.list("checkpoints")}
    keys = sorted((key for key, number in found.items() if 0 < number <= head), key=found.__getitem__)
    keys = keys[:-CHECKPOINTS_KEPT]
    if not dry_run:
        _delete(log.store, keys)
    return len(keys)


def _number(key: str) -> int:
    number = key.rpartition("/")[2]
    return int(number) if number.isdecimal() else 0


def _delete(store: ObjectStore, keys: Sequence[str]) -> None:
    for some in _divided(keys, KEYS_AT_ONCE):
        store.delete(some)


def _divided(items: Sequence[_Item], count: int) -> Iterator[Sequence[_Item]]:
    yield from (items[start : start + count] for start in range(0, len(items), count))
