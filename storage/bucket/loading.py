"""Opens a log on an object store: finds a checkpoint to begin at, and reads the commits after it.

A store's list of objects is not relied on, neither for order nor for completeness; objects are found by name.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from typing import NamedTuple

from ..errors import CorruptionError, ObjectMissingError
from .commits.applying import apply
from .commits.checkpoints import CHECKPOINT_BYTES_MAX, EVERY, NEWEST, checkpoint_key, decode_checkpoint
from .commits.codec import COMMIT_BYTES_MAX, decode_commit
from .commits.commit import Commit, commit_key
from .commits.fields import Fields
from .commits.state import State
from .stores.patience import PatientStore

IDENTITY = "commitlog.json"
IDENTITY_BYTES_MAX = 1 << 20
FORMAT = 1
AT_ONCE = 16  # commits that are read at the same time
HINT_BYTES_MAX = 1 << 10
CHECKPOINTS_TRIED = 4

logger = logging.getLogger(__name__)


class Identity(NamedTuple):
    """The content of ``commitlog.json``."""

    log_id: str  # 32 hex digits
    created_ms: int


def read_identity(store: PatientStore) -> Identity | None:
    """Returns the identity of the log; None if it is missing. Raises CorruptionError, also for a newer format."""
    return store.read(IDENTITY, IDENTITY_BYTES_MAX, _decode_identity)


def _decode_identity(data: bytes) -> Identity:
    fields = Fields.of(data)
    if (version := fields.integer("format")) != FORMAT:
        raise CorruptionError(f"the log is of format {version}; this version reads {FORMAT}: use a newer one")
    return Identity(fields.uid("logId"), fields.integer("createdMs"))


def load_state(store: PatientStore, log_id: str) -> State:
    """Returns the state after the last commit.

    Raises CorruptionError if a commit is damaged, does not follow its predecessor, or is missing before others:
    an expiry rule of the bucket may have deleted it. Raises ObjectStoreError.
    """
    state = _newest_checkpoint(store, log_id) or State(log_id)
    _replay(store, state)
    _check_end(store, state)
    return state


def read_commit(store: PatientStore, number: int) -> Commit | None:
    """Returns a commit; None if the store says that there is none. Raises CorruptionError with its name."""
    return store.read(commit_key(number), COMMIT_BYTES_MAX, decode_commit)


def lists_commits(store: PatientStore, after: str = "") -> str | None:
    """Returns the name of a commit's object, above the name ``after``, that the store lists; None if it lists none.

    Reads the first page of the list only.
    """
    return store.repeated(lambda: next((each.key for each in store.bare.list("commits", after=after)), None))


def find_head(exists: Callable[[int], bool], known: int) -> int:
    """Returns the last number for which ``exists`` is true, by steps that double and then halve.

    All numbers from ``known`` up to it must exist; ``known`` itself is not tested. One call if ``known`` is the last.
    """
    low, step = known, 1
    while exists(low + step):
        low, step = low + step, 2 * step
    return last_between(low, low + step, exists)


def last_between(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Returns the last number between ``low`` and ``high`` for which ``holds`` is true, in steps that halve.

    Returns ``low`` if there is none. If ``holds`` is false for a number, it must be false for all later ones.
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _exists(store: PatientStore, number: int) -> bool:
    return store.head(commit_key(number)) is not None


def _newest_checkpoint(store: PatientStore, log_id: str) -> State | None:
    """Returns the newest valid checkpoint's state, or None; searches for a newer one if the hint is old."""
    hint = read_hint(store)
    state = next(_believed(store, log_id, hint), None)
    known = 0 if state is None else state.number
    if _exists(store, known + EVERY):
        head = find_head(lambda number: _exists(store, number), known + EVERY)
        newer = next(_believed(store, log_id, head // EVERY * EVERY, down_to=known), None)
        state = newer or state
    return state


def read_hint(store: PatientStore) -> int:
    """Returns the checkpoint number in the hint, 0 without a hint. It may be wrong."""
    try:
        number = json.loads(store.get(NEWEST, limit=HINT_BYTES_MAX))["n"]
    except (ObjectMissingError, CorruptionError, ValueError, KeyError, TypeError, RecursionError):
        return 0
    return number if type(number) is int and 0 <= number < 10**18 else 0


def _believed(store: PatientStore, log_id: str, newest: int, down_to: int = 0) -> Iterator[State]:
    """Yields the states of checkpoint ``newest`` and of some earlier ones, if they are valid."""
    last = max(down_to, newest - CHECKPOINTS_TRIED * EVERY)
    for number in range(newest, last, -EVERY):
        state = _checkpoint(store, number)
        commit = None if state is None else read_commit(store, number)
        if state and commit and (state.log_id, state.number, state.uid) == (log_id, number, commit.uid):
            yield state
        elif state:
            logger.warning("checkpoint %s of %s is not used: it is of another log or commit", number, store.url)


def _checkpoint(store: PatientStore, number: int) -> State | None:
    """Returns the state in a checkpoint; None, with a warning, if there is none or it is damaged."""
    key = checkpoint_key(number)
    try:
        return store.repeated(lambda: decode_checkpoint(store.bare.get(key, limit=CHECKPOINT_BYTES_MAX)))
    except ObjectMissingError:
        return None
    except CorruptionError as error:
        logger.warning("%s is not used: %s", f"{store.url}/{key}", error)
        return None


def _replay(store: PatientStore, state: State) -> None:
    """Applies the commits that follow, up to the first missing one; reads one, then two at once, then four, and so on.

    So a long sequence takes few round trips, and a current state takes one request.
    """
    at_once = 1
    with ThreadPoolExecutor(AT_ONCE) as threads:
        while True:
            numbers = range(state.number + 1, state.number + 1 + at_once)
            found = [*threads.map(lambda number: read_commit(store, number), numbers)]
            for commit in takewhile(lambda each: each is not None, found):
                assert commit is not None
                apply(state, commit)
            behind = found[state.number + 1 - numbers.start :]
            if behind and not any(behind):
                return
            if behind and read_commit(store, state.number + 1) is None:
                raise _hole(store, state)  # it was not written just now, between the two requests
            at_once = min(2 * at_once, AT_ONCE)


def _check_end(store: PatientStore, state: State) -> None:
    """Raises CorruptionError if commits exist after missing ones, because nothing must be written into the hole.

    If many are missing, only a list finds the later ones. A name in the list is checked, and an incomplete list does no
    harm.
    """
    are_more = _exists(store, state.number + 2)
    if not are_more:
        listed = lists_commits(store, commit_key(state.number + 1))
        are_more = listed is not None and store.head(listed) is not None
    if are_more and read_commit(store, state.number + 1) is None:
        raise _hole(store, state)


def _hole(store: PatientStore, state: State) -> CorruptionError:
    return CorruptionError(
        "the commit is missing, but commits after it are there: a rule of the bucket may have deleted it, or it was "
        "restored in part; nothing is written until it is back",
        path=f"{store.url}/{commit_key(state.number + 1)}",
    )
