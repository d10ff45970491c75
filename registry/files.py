"""FileRegistry: a registry in files beside the log, for nodes that share its directory.

``.commitlog.registry`` has the nodes (:mod:`.journal`); a process writes it only while it holds a lock on
``.commitlog.registry.lock``. A session holds a lock on ``.commitlog.session-<name>`` as long as it exists. The kernel
releases the lock when the process ends for any reason; another session that finds it free deletes the nodes of the
ended session. A paused process (SIGSTOP) keeps its lock and its nodes, and others log a warning about it. A session
never expires while its process lives.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, RLock, Thread, current_thread
from typing import NamedTuple, Self
from uuid import uuid4

from ..storage import FileSystem, LocalFileSystem, Lock, LogStoreError, lock_holders, this_process
from .calls import Calls
from .errors import ConnectionLossError, NoNodeError, SessionExpiredError
from .journal import Journal
from .port import (
    ANY_VERSION,
    TIMEOUT_MS,
    Change,
    Listener,
    Node,
    SessionState,
    Watch,
    checked_data,
    checked_path,
    parent_path,
)
from .tree import Mark, Tree

FILE = ".commitlog.registry"
LOCK = f"{FILE}.lock"
SESSION = ".commitlog.session-"
LOOK_S = 0.1
SIGN_S, SILENT_S = 1.0, 4.0  # how often a session with watches gives a sign of life; without one it is reported
_HOLDER_BYTES_MAX = 1000

logger = logging.getLogger(__name__)


class _Watched(NamedTuple):
    path: str
    of_children: bool
    mark: Mark  # when it was read
    watch: Watch

    def change(self, tree: Tree) -> Change | None:
        """Returns the change since the watch was set; None: nothing has changed."""
        mark = tree.children_mark(self.path) if self.of_children else tree.mark(self.path)
        if mark == self.mark:
            return None
        if mark is None:
            return Change.DELETED
        if self.mark is None:
            return Change.CREATED
        if mark[0] != self.mark[0]:
            return Change.DELETED  # and created since
        return Change.CHILDREN if self.of_children else Change.DATA


class _Sign(NamedTuple):
    """The last sign of life of another session."""

    modified_ms: int
    since_s: float
    is_reported: bool


class FileRegistry:
    """A session of the registry of a log directory; implements :class:`.port.Registry`.

    If it has watches, it checks the file and the locks of other sessions every ``look_s`` seconds. Raises StorageError
    if the disk fails, and CorruptionError for damage.
    """

    def __init__(
        self,
        directory: str,
        *,
        filesystem: FileSystem | None = None,
        timeout_ms: int = TIMEOUT_MS,
        look_s: float = LOOK_S,
    ) -> None:
        """``directory``: the log directory. ``timeout_ms``: how long an operation may wait for other processes."""
        self._filesystem: FileSystem = filesystem or LocalFileSystem()
        self._directory, self._timeout_ms, self._look_s = directory, timeout_ms, look_s
        self._session = uuid4().hex[:16]
        self._guard = RLock()  # Guards the journal, the watches and the listeners.
        self._journal = Journal(self._filesystem, self._path(FILE))
        self._watched: list[_Watched] = []
        self._calls = Calls("registry-watches")
        self._looking = Thread(target=self._look, name="registry-look", daemon=True)
        self._listeners: list[Listener] = []
        self._closed = Event()
        self._signs: dict[str, _Sign] = {}  # the last signs of life of the sessions that own a node
        self._lock = self._session_lock()
        self._remove_left_sessions()

    @property
    def session(self) -> str:
        return self._session

    def create(self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequential: bool = False) -> str:
        checked_data(checked_path(path), data)
        with self._writing() as tree:
            if sequential:
                parent = parent_path(path)
                number = tree.node(parent).children_version if parent in tree else 0
                path = f"{path}{number:010d}"
            if path in tree:
                self._bury(tree.node(path).owner)
            operations = tree.plan_create(path, data, self._session if ephemeral else None)
            self._journal.append(operations)
            return path

    def get(self, path: str, watch: Watch | None = None) -> Node:
        checked_path(path)
        with self._reading() as tree:
            if path in tree:
                self._skip_dead(tree.node(path).owner)
            found = self._journal.tree.node(path)
            self._watch(path, watch, of_children=False)
            return found

    def find(self, path: str, watch: Watch | None = None) -> Node | None:
        with self._guard:
            try:
                return self.get(path, watch)
            except NoNodeError:
                self._watch(path, watch, of_children=False)
                return None

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> int:
        checked_data(checked_path(path), data)
        with self._writing() as tree:
            self._journal.append(tree.plan_set(path, data, version))
            return tree.node(path).version

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        checked_path(path)
        with self._reading() as tree:
            prefix = path if path == "/" else f"{path}/"
            for owner in {tree.node(prefix + name).owner for name in tree.children(path)}:
                self._skip_dead(owner)
            found = self._journal.tree.children(path)
            self._watch(path, watch, of_children=True)
            return found

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        checked_path(path)
        with self._writing() as tree:
            self._journal.append(tree.plan_delete(path, version))

    def listen(self, listener: Listener) -> None:
        with self._guard:
            self._listeners.append(listener)
            self._start_threads()

    def close(self) -> None:
        if self._closed.is_set():
            return
        try:
            with self._writing() as tree:
                self._delete_owned(tree, self._session)
        finally:
            self._closed.set()
            if self._looking.ident is not None and self._looking is not current_thread():
                self._looking.join()
            self._calls.stop()
            self._filesystem.remove(self._path(SESSION + self._session))
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # Reading and writing the file

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    @contextmanager
    def _reading(self) -> Iterator[Tree]:
        with self._guard:
            self._check_open()
            self._catch_up()
            yield self._journal.tree

    @contextmanager
    def _writing(self) -> Iterator[Tree]:
        """Holds the lock for writing, so no other session writes."""
        with self._guard:
            self._check_open()
            lock = self._write_lock()
            try:
                self._catch_up()
                yield self._journal.tree
            finally:
                lock.release()
                self._call_watches()

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise SessionExpiredError(f"{self._path(FILE)}: this session was closed")

    def _write_lock(self) -> Lock:
        """Takes the lock for writing. Raises ConnectionLossError after ``timeout_ms``; then nothing has changed."""
        path, deadline_s = self._path(LOCK), time.monotonic() + self._timeout_ms / 1000
        pause_s = 0.0005
        while (lock := self._filesystem.lock(path, wait=False)) is None:
            if time.monotonic() > deadline_s:
                raise ConnectionLossError(
                    f"{path}: another process has held this lock for {self._timeout_ms} ms, and may be stopped; "
                    f"it is {self._holder(path) or 'unknown'}. Let it continue, or end it{lock_holders(path)}"
                )
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.02)
        _name_holder(lock)
        return lock

    def _holder(self, path: str) -> str:
        """Returns the text that the holder of a lock has written into its file."""
        with self._filesystem.open(path, "read") as file:
            return bytes(file.read(0, _HOLDER_BYTES_MAX)).decode(errors="replace")

    def _catch_up(self) -> None:
        if self._journal.catch_up():
            self._call_watches()

    # Sessions

    def _session_lock(self) -> Lock:
        """Takes the lock by which others know that this session lives."""
        lock = self._filesystem.lock(self._path(SESSION + self._session))
        assert lock is not None  # since it waits
        _name_holder(lock)
        return lock

    def _begin_again(self) -> None:
        """Takes the lock again, whose file somebody has removed: others have deleted this session's nodes since."""
        logger.warning("%s was removed; this session begins again", self._path(SESSION + self._session))
        self._lock.release()
        self._lock = self._session_lock()
        for listener in list(self._listeners):
            self._calls.put(partial(listener, SessionState.EXPIRED))

    def _lock_of_dead(self, session: str) -> Lock | None:
        """Takes and returns the lock of a session whose process has ended; None if it is still alive."""
        return None if session == self._session else self._filesystem.lock(self._path(SESSION + session), wait=False)

    def _skip_dead(self, owner: str | None) -> None:
        """Deletes the nodes of the session ``owner``, if its process has ended."""
        if owner is None:
            return
        lock = self._lock_of_dead(owner)
        if lock is not None:
            lock.release()  # writers take the locks in the other order
            with self._writing():
                self._bury(owner)

    def _bury(self, owner: str | None) -> None:
        """Like :meth:`_skip_dead`, while this session holds the lock for writing."""
        lock = None if owner is None else self._lock_of_dead(owner)
        if owner is None or lock is None:
            return
        with lock:
            logger.info("%s: session %s ended with its process", self._directory, owner)
            self._delete_owned(self._journal.tree, owner)
            self._filesystem.remove(self._path(SESSION + owner))

    def _delete_owned(self, tree: Tree, session: str) -> None:
        owned = tree.owned_by(session)
        if owned:
            self._journal.append([["delete", path] for path in owned])

    def _remove_left_sessions(self) -> None:
        """Removes the files of sessions that own no nodes and whose processes have ended."""
        names = [name for name in self._filesystem.list(self._directory) if name.startswith(SESSION)]
        with self._reading() as tree:
            owners = set(tree.owners())
        for session in {name.removeprefix(SESSION) for name in names} - owners:
            lock = self._lock_of_dead(session)
            if lock is not None:
                with lock:
                    self._filesystem.remove(self._path(SESSION + session))

    # Watches

    def _watch(self, path: str, watch: Watch | None, *, of_children: bool) -> None:
        if watch is None:
            return
        tree = self._journal.tree
        mark = tree.children_mark(path) if of_children else tree.mark(path)
        watched = _Watched(path, of_children, mark, watch)
        if watched not in self._watched:
            self._watched.append(watched)
        self._start_threads()

    def _call_watches(self) -> None:
        """Queues the watches of changed nodes. They are queued before the change can be read."""
        kept = []
        for each in self._watched:
            change = each.change(self._journal.tree)
            if change is None:
                kept.append(each)
            else:
                self._calls.put(partial(each.watch, change, each.path))
        self._watched = kept

    def _start_threads(self) -> None:
        if self._looking.ident is None:
            self._calls.start()
            self._looking.start()

    def _look(self) -> None:
        is_lost, signed_s = False, 0.0
        while not self._closed.wait(self._look_s):
            try:
                with self._reading() as tree:
                    owners = tree.owners()
                    for owner in owners:
                        self._skip_dead(owner)
                if time.monotonic() - signed_s >= SIGN_S:
                    signed_s = time.monotonic()
                    self._give_sign(owners)
                state, was_lost, is_lost = SessionState.CONNECTED, is_lost, False
            except SessionExpiredError:
                return
            except (LogStoreError, OSError) as error:
                logger.warning("%s", error)
                state, was_lost, is_lost = SessionState.SUSPENDED, is_lost, True
            except Exception:  # a bug must not end this thread, which renews the session
                logger.exception("%s: looking at the registry failed", self._path(FILE))
                continue
            if is_lost != was_lost:
                for listener in list(self._listeners):
                    self._calls.put(partial(listener, state))

    def _give_sign(self, owners: Sequence[str]) -> None:
        """Shows others that this process is running, and logs paused sessions, which keep nodes and locks."""
        if self._filesystem.status(self._path(SESSION + self._session)) is None:
            self._begin_again()
        self._filesystem.set_modified(self._path(SESSION + self._session), time.time_ns() // 1_000_000)
        now_s, before = time.monotonic(), self._signs
        self._signs = {}
        for owner in {*owners} - {self._session}:
            status = self._filesystem.status(self._path(SESSION + owner))
            sign = before.get(owner)
            if status is None:
                continue
            if sign is None or sign.modified_ms != status.modified_ms:
                if sign is not None and sign.is_reported:
                    logger.warning("%s is running again", self._process(owner))
                sign = _Sign(status.modified_ms, now_s, is_reported=False)
            elif not sign.is_reported and now_s - sign.since_s >= SILENT_S:
                logger.warning(
                    "%s has done nothing for %.0f s, and keeps its nodes and locks, so others wait for it; let it "
                    "continue, or end it",
                    self._process(owner),
                    now_s - sign.since_s,
                )
                sign = sign._replace(is_reported=True)
            self._signs[owner] = sign

    def _process(self, session: str) -> str:
        try:
            return self._holder(self._path(SESSION + session)) or f"session {session}"
        except FileNotFoundError:
            return f"session {session}"


def _name_holder(lock: Lock) -> None:
    """Writes into the file of a lock which process has it, for messages of others; not if the disk is full."""
    with suppress(OSError):  # raised, it would leave the lock taken: the registry reports errors of the disk itself
        lock.write(this_process().encode())
