"""Checks whether an object store behaves as a log needs it; call :func:`check_store` before the first write.

Works in a folder of its own below the URL, and deletes what it wrote there. It cannot prove that the store always
behaves so, on every server behind its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple
from uuid import uuid4

import numpy as np

from ...errors import ObjectExistsError, ObjectMissingError, ObjectStoreError
from ...verdicts import Finding, Verdict
from .port import ObjectStore
from .race import UNKNOWN, Contenders, Outcome, race
from .remote import open_store

TIMES = 20  # each check of reads after writes
LARGE = 5 << 20  # bytes of the object whose ranges are read
_LIMIT = 1 << 20

Racing = Callable[[ObjectStore, str, Contenders], list[Outcome]]


class _BrokenError(Exception):
    """The store does not do what a check requires; the text states what it does."""


class _Tested(NamedTuple):
    """The store and the folder in which one check creates its objects."""

    store: ObjectStore
    folder: str
    contenders: Contenders
    racing: Racing

    def key(self, number: int) -> str:
        return f"{self.folder}/{number}"


def check_store(
    url: str,
    contenders: Contenders | None = None,
    *,
    store: ObjectStore | None = None,
    racing: Racing = race,
) -> list[Finding]:
    """Checks the properties that a log needs of an object store; returns a Finding for each, with counts.

    The checks are ``creates only if absent``, ``one of many wins``, ``read after write``, ``read after 404``,
    ``overwrites``, ``ranges``, ``deletes`` and ``lists``. A check during which the store reports an error has failed.
    ``store`` defaults to that at ``url``, with no request repeated.

    Raises ObjectStoreError if the store cannot be reached or refuses access, so that nothing can be checked.
    """
    store = store or open_store(url, retries=0)
    root = f"fs-check-{uuid4().hex}"
    contenders = contenders or Contenders()
    store.put(f"{root}/begun", b"")
    try:
        return [_checked(name, check, store, root, contenders, racing) for name, check in _CHECKS.items()]
    finally:
        _clean(store, root)


def _checked(
    name: str, check: _Check, store: ObjectStore, root: str, contenders: Contenders, racing: Racing
) -> Finding:
    tested = _Tested(store, f"{root}/{name.replace(' ', '-')}", contenders, racing)
    try:
        verdict, detail = check(tested)
    except (_BrokenError, ObjectStoreError) as error:
        return Finding(name, Verdict.FAILED, str(error))
    return Finding(name, verdict, detail)


def _clean(store: ObjectStore, root: str) -> None:
    """Deletes the objects of the check; objects that the store does not list or delete stay."""
    with suppress(ObjectStoreError):
        store.delete([facts.key for facts in store.list(root)])


_Answer = tuple[Verdict, str]
_Check = Callable[[_Tested], _Answer]


def _expect(wrong: int, of: int, what: str) -> None:
    if wrong:
        raise _BrokenError(f"{wrong} of {of} {what}")


def _check_creation(tested: _Tested) -> _Answer:
    """Checks that a second creation is refused and changes nothing."""
    replaced = accepted = 0
    for number in range(TIMES):
        tested.store.put_new(tested.key(number), b"first")
        try:
            tested.store.put_new(tested.key(number), b"second")
            accepted += 1
        except ObjectExistsError:
            pass
        replaced += tested.store.get(tested.key(number), limit=_LIMIT) != b"first"
    _expect(accepted, TIMES, "objects that existed were created again: the store ignores the condition")
    _expect(replaced, TIMES, "objects were replaced by a creation that was refused")
    return Verdict.PASSED, f"{TIMES} of {TIMES} second creations were refused"


def _check_race(tested: _Tested) -> _Answer:
    outcomes = tested.racing(tested.store, tested.folder, tested.contenders)
    rounds, count = len(outcomes), tested.contenders.total
    wrong = [outcome for outcome in outcomes if not outcome.is_right()]
    if wrong:
        counts = Counter(len(outcome.winners) for outcome in wrong)
        winners = ", ".join(f"{times} with {number} winners" for number, times in sorted(counts.items()))
        raise _BrokenError(
            f"{len(wrong)} of {rounds} rounds of {count} contenders did not have one winner whose object is there "
            f"({winners}): commits would be lost"
        )
    unknown = sum(outcome.answers.count(UNKNOWN) for outcome in outcomes)
    said = f"one winner in each of {rounds} rounds of {count} contenders in {tested.contenders.processes} processes"
    decided = sum(bool(outcome.winners) for outcome in outcomes)
    if unknown or decided < rounds:
        return Verdict.WARNING, f"{said}, at most; {unknown} of {rounds * count} puts were not answered"
    return Verdict.PASSED, said


def _check_reads(tested: _Tested) -> _Answer:
    """Checks that a new object is visible at once: its content by name, and its facts."""
    stale = 0
    for number in range(TIMES):
        body = f"body {number}".encode()
        tested.store.put_new(tested.key(number), body)
        facts = tested.store.head(tested.key(number))
        stale += _read(tested, number) != body or facts is None or facts.size != len(body)
    _expect(stale, TIMES, "objects were not read as they had just been written")
    return Verdict.PASSED, f"{TIMES} of {TIMES} new objects were read at once"


def _check_404(tested: _Tested) -> _Answer:
    """Checks that a new object is visible even if a cache may remember that it was missing."""
    stale = 0
    for number in range(TIMES):
        is_early = _read(tested, number) is not None or tested.store.head(tested.key(number)) is not None
        if is_early:
            raise _BrokenError("an object is there that nobody wrote")
        tested.store.put_new(tested.key(number), b"body")
        stale += _read(tested, number) != b"body" or tested.store.head(tested.key(number)) is None
    _expect(stale, TIMES, "objects were not found right after they were written, since they had been asked for before")
    return Verdict.PASSED, f"{TIMES} of {TIMES} objects were found that had been missing before"


def _check_overwrites(tested: _Tested) -> _Answer:
    stale = 0
    for number in range(TIMES):
        body = f"body {number}".encode()
        tested.store.put(tested.key(0), body)
        stale += _read(tested, 0) != body
    if stale:  # the hint to the newest checkpoint is the only object that is overwritten
        return Verdict.WARNING, f"{stale} of {TIMES} overwritten objects were read as they were before"
    return Verdict.PASSED, f"{TIMES} of {TIMES} overwritten objects were read as they are"


def _check_ranges(tested: _Tested) -> _Answer:
    body = np.arange(LARGE // 4, dtype=">u4").tobytes()
    tested.store.put_new(tested.key(0), body)
    ranges = [(0, 1), (1, 70_000), (LARGE // 2 - 3, 7), (LARGE - 5, 5), (0, LARGE)]
    wrong = sum(tested.store.get_range(tested.key(0), at, size) != body[at : at + size] for at, size in ranges)
    found = tested.store.get_ranges(tested.key(0), ranges)
    wrong += sum(part != body[at : at + size] for part, (at, size) in zip(found, ranges, strict=True))
    _expect(wrong, 2 * len(ranges), "ranges had other bytes than the object")
    try:
        tested.store.get_range(tested.key(0), LARGE - 5, 6)
    except ObjectStoreError:
        return Verdict.PASSED, f"{2 * len(ranges)} of {2 * len(ranges)} ranges were right, one past the end was refused"
    raise _BrokenError("a range past the end of an object was answered as if it were there")


def _check_deletes(tested: _Tested) -> _Answer:
    keys = [tested.key(number) for number in range(TIMES)]
    for key in keys:
        tested.store.put_new(key, b"body")
    tested.store.delete([*keys, tested.key(TIMES)])
    kept = sum(tested.store.head(key) is not None for key in keys)
    if kept:
        return Verdict.WARNING, f"{kept} of {TIMES} deleted objects are still there: garbage would be kept, at a price"
    return Verdict.PASSED, f"{TIMES} of {TIMES} objects were deleted, and one that was missing"


def _check_lists(tested: _Tested) -> _Answer:
    keys = {tested.key(number) for number in range(TIMES)}
    for key in keys:
        tested.store.put_new(key, b"body")
    missing = len(keys - set(_listed(tested)))
    if missing:
        return Verdict.WARNING, f"{missing} of {TIMES} objects are not listed: garbage may be found late"
    return Verdict.PASSED, f"{TIMES} of {TIMES} objects are listed"


def _listed(tested: _Tested) -> Iterable[str]:
    return (facts.key for facts in tested.store.list(tested.folder))


def _read(tested: _Tested, number: int) -> bytes | None:
    try:
        return tested.store.get(tested.key(number), limit=_LIMIT)
    except ObjectMissingError:
        return None


_CHECKS: dict[str, _Check] = {
    "creates only if absent": _check_creation,
    "one of many wins": _check_race,
    "read after write": _check_reads,
    "read after 404": _check_404,
    "overwrites": _check_overwrites,
    "ranges": _check_ranges,
    "deletes": _check_deletes,
    "lists": _check_lists,
}
