"""The commit loop: adds commits to the log's sequence, whatever the store answers.

Rules that keep a commit from being lost or doubled:

- Commits are numbered without gaps, and none is ever deleted or replaced.
- After any answer but success, reading the object decides. While it is absent, the same bytes are put under the same
  number again: an earlier put may still arrive, but it has the same bytes.
- If another writer's commit has the number, ours can never get it. Then the proposal runs again, on the state with that
commit, and its result is encoded again.
- Before each put, the commit that it follows is read. If that is missing or different, the log was deleted, made again,
or set back to an older copy. Then nothing is put: the commit would be in another log, or after missing ones.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random, SystemRandom
from threading import RLock, Thread

from ..clock import Clock, SystemClock
from ..errors import (
    CorruptionError,
    LogReplacedError,
    ObjectExistsError,
    ObjectStoreError,
    OutcomeUnknownError,
    StorageError,
    StoreAccessError,
)
from ..filesystem.locks import this_process
from .commits.applying import apply, check
from .commits.checkpoints import EVERY, NEWEST, checkpoint_key, encode_checkpoint
from .commits.codec import decode_commit, encode_commit
from .commits.commit import Change, Commit, commit_key
from .commits.state import State
from .loading import IDENTITY, load_state, read_commit, read_identity
from .stores.patience import Attempts, Patience, PatientStore
from .stores.port import ObjectStore

Proposal = Callable[[State], Change | None]
"""Decides, on the state that a commit would follow, what it says; None if there is nothing to do. May refuse by an
error. Called again whenever another's commit came first, so it must not change anything."""

logger = logging.getLogger(__name__)


def in_a_thread(task: Callable[[], None]) -> None:
    """Runs a task in a thread; the process may end before it has finished."""
    Thread(target=task, name="commitlog checkpoint", daemon=True).start()


class CommitLog:
    """The commits of a log and the resulting state. For any thread; commits of one process wait for each other."""

    def __init__(
        self,
        store: ObjectStore,
        log_id: str,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        patience: Patience | None = None,
        background: Callable[[Callable[[], None]], None] = in_a_thread,
    ) -> None:
        """Reads the state. ``background`` runs the task that writes a checkpoint. Raises like :func:`load_state`."""
        self.store = store
        self._clock, self._random = clock or SystemClock(), random or SystemRandom()
        self._patience, self._background = patience or Patience.of_process(), background
        self._lock, self._by = RLock(), this_process()
        self._moving = RLock()  # held for moments only, within ``_lock``: readers do not wait for the store
        self._watchers: list[Callable[[], None]] = []
        self.is_replaced = False  # whether the store was found to have another log, or an older copy
        self._is_saving = False  # whether a checkpoint is being written
        self._state = load_state(self.patient_store, log_id)

    @property
    def patient_store(self) -> PatientStore:
        """The store with requests that are repeated while it fails."""
        return PatientStore(self.store, self._attempts)

    @property
    def state(self) -> State:
        """The state after the last commit that was read or written; changes with the next one."""
        return self._state

    @contextmanager
    def reading(self) -> Iterator[State]:
        """Yields the state, which does not change within the ``with`` block.

        Waits for no request to the store; nothing that sends one may be called within the block.
        """
        with self._moving:
            yield self._state

    def watch(self, watcher: Callable[[], None]) -> None:
        """Calls ``watcher`` after each commit that is read or written, in whatever thread: it must return at once."""
        self._watchers = [*self._watchers, watcher]

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Cancels :meth:`watch` for ``watcher``."""
        self._watchers = [each for each in self._watchers if each != watcher]

    def catch_up(self) -> State:
        """Reads the commits of others. One request if there are none. Raises CorruptionError and ObjectStoreError."""
        with self._lock:
            self._take(self._read(self._state.number + 1))
            return self._state

    def catch_up_if_current(self) -> bool:
        """Does what :meth:`catch_up` does, if :meth:`is_current`; returns whether it is. Two requests at once if so."""
        with self._lock, ThreadPoolExecutor(1) as thread:
            following = thread.submit(self._read, self._state.number + 1)
            if not self.is_current():
                return False
            self._take(following.result())
            return True

    def _read(self, number: int) -> Commit | None:
        return read_commit(self.patient_store, number)

    def _take(self, commit: Commit | None) -> None:
        """Applies the next commit, if there is one, and those that follow."""
        before = self._state.number
        while commit is not None:
            self._apply(commit)
            commit = self._read(self._state.number + 1)
        if self._state.number // EVERY > before // EVERY:
            with self._moving:
                self._state.forget_unnamed()  # otherwise the memory of a process that only reads would grow without end

    def _apply(self, commit: Commit) -> None:
        try:
            with self._moving:
                apply(self._state, commit)
        except CorruptionError:
            self.check_current()  # is it a commit of another log?
            raise
        for watcher in self._watchers:
            watcher()

    def is_current(self) -> bool:
        """Whether the store has the same log as before: not another one in its place, and not an older copy of it.

        Reads the state's last commit, or the log's identity if there is no commit yet. One request. Raises as
        :meth:`catch_up`.
        """
        try:
            self.check_current()
        except LogReplacedError:
            return False
        return True

    def check_current(self) -> None:
        """Raises LogReplacedError unless the store :meth:`is_current`."""
        with self._lock:
            self._check_current(self.patient_store)

    def _check_current(self, store: PatientStore) -> None:
        number = self._state.number
        if number:
            commit = read_commit(store, number)
            key, found = commit_key(number), None if commit is None else commit.uid
        else:
            identity = read_identity(store)
            key, found = IDENTITY, None if identity is None else identity.log_id
        if found != self._state.uid:
            self.is_replaced = True
            raise LogReplacedError(
                f"{self.store.url}/{key}: {'is missing' if found is None else 'is of another log'}: the log was "
                "deleted, made again, or set back to an older copy since this process opened it; nothing is written. "
                "Restore it, or start this process again to use the log that is there now"
            )

    def commit(self, propose: Proposal) -> Commit | None:
        """Adds a commit with the change that ``propose`` returns; returns it when all readers can see it, or None.

        Raises what ``propose`` raises, with nothing written; LogReplacedError unless the log :meth:`is_current`, which
        takes one request; OutcomeUnknownError if the store did not answer until the deadline, so that the commit may
        exist or appear later; StorageError if others' commits came first until then.
        """
        with self._lock:
            attempts = self._attempts()
            while (change := propose(self._state)) is not None:
                commit = self._signed(change)
                if self._is_written(commit, self._encoded(commit), attempts):
                    self._write_checkpoint()
                    return commit
                if attempts.are_over():
                    raise StorageError(f"{self.store.url}: other writers' commits came first; nothing was written")
            return None

    def _signed(self, change: Change) -> Commit:
        """Returns the next commit. Raises StorageError if it does not fit the state."""
        state = self._state
        uid = f"{self._random.getrandbits(128):032x}"
        commit = Commit(state.number + 1, uid, state.uid, self._clock.now_ms(), self._by, change)
        try:
            check(state, commit)
        except CorruptionError as error:
            raise self._wrong(error) from error
        return commit

    def _encoded(self, commit: Commit) -> bytes:
        """Returns a commit's bytes. Raises StorageError if readers would reject them, because commits stay for ever."""
        try:
            data = encode_commit(commit)
            decode_commit(data)
        except (CorruptionError, ValueError) as error:
            raise self._wrong(error) from error
        return data

    def _wrong(self, error: Exception) -> StorageError:
        return StorageError(f"{self.store.url}: an invalid commit was not written: {error}")

    def _is_written(self, commit: Commit, data: bytes, attempts: Attempts) -> bool:
        """Puts the commit until its number is taken, and applies the commit that has it.

        Returns whether that is this one.
        """
        while True:
            found = self._put(commit, data)
            if isinstance(found, Commit):
                self._apply(found)
                if found.uid == commit.uid:
                    return True
                self.catch_up()
                return False
            if not attempts.wait(found):
                raise self._unknown(commit, found)

    def _unknown(self, commit: Commit, failed: ObjectStoreError) -> OutcomeUnknownError:
        path = f"{self.store.url}/{commit_key(commit.number)}"
        if isinstance(failed, StoreAccessError):
            return OutcomeUnknownError(
                f"{path}: the store refuses access; the commit may be there, or come later: {failed}"
            )
        return OutcomeUnknownError(
            f"{path}: the store did not answer in {self._patience.deadline_ms} ms; the commit may be there, or come "
            f"later: {failed}"
        )

    def _put(self, commit: Commit, data: bytes) -> Commit | ObjectStoreError:
        """Puts the commit once; returns the commit that has the number, or an error if that is unknown."""
        try:
            self._check_current(self._once())
            self.store.put_new(commit_key(commit.number), data)
            return commit
        except ObjectStoreError as error:
            failed = error
        try:
            return read_commit(self._once(), commit.number) or failed
        except ObjectStoreError as error:
            return error

    def _write_checkpoint(self) -> None:
        """Writes a checkpoint after every 100th commit. A failure only makes the next opening of the log slower.

        While one is being written, the next ones are left out: each has a copy of the state, and a slow store would
        fill the memory with them.
        """
        number = self._state.number
        if number % EVERY:
            return
        with self._moving:
            self._state.forget_unnamed()
            if self._is_saving:
                return
            state = self._state.copy()  # encoding takes much longer, and must not keep other commits waiting
        self._is_saving = True
        try:
            self._background(lambda: self._save(state))
        except RuntimeError as error:  # there are too many threads; the commit is done
            self._is_saving = False
            logger.warning("no checkpoint of commit %s was written: %s", number, error)

    def _save(self, state: State) -> None:
        number = state.number
        try:
            try:
                self.store.put_new(checkpoint_key(number), encode_checkpoint(state))
            except ObjectStoreError as error:
                if not isinstance(error, ObjectExistsError):
                    logger.warning("no checkpoint of commit %s was written: %s", number, error)
            try:
                self.store.put(NEWEST, json.dumps({"n": number}).encode())
            except ObjectStoreError as error:
                logger.warning("the hint to checkpoint %s was not written: %s", number, error)
        finally:
            self._is_saving = False

    def _attempts(self) -> Attempts:
        return Attempts(self._patience, self._clock, self._random)

    def _once(self) -> PatientStore:
        """Returns the store with requests that are not repeated, except for reads that find damage."""
        patience = self._patience._replace(deadline_ms=0)
        return PatientStore(self.store, lambda: Attempts(patience, self._clock, self._random))
