"""Transactional ids: which ones are valid, and the lock that one process at a time holds on each."""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress
from typing import Self

from ..directory.manager import LogManager
from ..errors import InvalidConfigError, LogDirLockedError
from ..filesystem.holders import lock_holders
from ..filesystem.port import Lock

HOLDER_BYTES_MAX = 1000
ID_BYTES_MAX = 2**15 - 1  # Kafka writes the length as an int16, as for a group's name

logger = logging.getLogger(__name__)


def check_transactional_id(text: str, name: str = "transactional id") -> None:
    """Raises InvalidConfigError for an id that no key of ``__transaction_state`` can hold.

    ``name`` is the id's name in the error, for example the option that set it.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidConfigError(f"{name} {text!r} cannot be encoded as UTF-8: {error}") from error
    if not 1 <= size <= ID_BYTES_MAX:
        shown = f"{text[:50]}…" if size else ""
        raise InvalidConfigError(f"{name} {shown!r} has {size:,} bytes; it must have 1 to {ID_BYTES_MAX:,}")


class TransactionalIdLock:
    """The lock of a transactional id: a file at the root of the log directory."""

    def __init__(self, manager: LogManager, path: str, lock: Lock) -> None:
        """Use :meth:`take` instead."""
        self._manager = manager
        self._path = path
        self._lock = lock

    @classmethod
    def take(cls, manager: LogManager, transactional_id: str, holder: str = "") -> Self:
        """Takes the lock without waiting, and writes ``holder`` to the lock file, for other processes to show.

        Raises LogDirLockedError, with the holder if that is known, while another process holds the lock.
        """
        path = _path_of(manager, transactional_id)
        taken = cls(manager, path, _take(manager, path, transactional_id))
        try:  # the lock must not outlive an error, or this process would keep all others out
            with manager.filesystem.open(path, "create") as file:
                file.truncate(0)
                file.write(0, (holder or "unnamed").encode()[:HOLDER_BYTES_MAX])
        except BaseException:
            taken.release()
            raise
        return taken

    @classmethod
    def check_free(cls, manager: LogManager, transactional_id: str) -> None:
        """Raises LogDirLockedError as :meth:`take`; otherwise has the lock for a moment only, and writes nothing."""
        path = _path_of(manager, transactional_id)
        if manager.filesystem.status(path) is not None:
            _take(manager, path, transactional_id).release()

    def release(self, *, keep_file: bool = False) -> None:
        """Releases the lock. Removes the file unless ``keep_file``; a remaining file does no harm."""
        try:
            # A process that waits for it notices that the name is another file's. A child leaves it to its parent.
            if not (keep_file or self._lock.is_inherited):
                self._manager.filesystem.remove(self._path)
        except OSError as error:
            logger.warning("the lock file of a transactional id stays, which does no harm: %s", error)
        finally:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def _path_of(manager: LogManager, transactional_id: str) -> str:
    """Returns the path of the lock file of a transactional id. Raises InvalidConfigError for an invalid id."""
    check_transactional_id(transactional_id)
    digest = hashlib.sha256(transactional_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return manager.path(f".transaction-{digest}.lock")


def _take(manager: LogManager, path: str, transactional_id: str) -> Lock:
    lock = manager.filesystem.lock(path, wait=False)
    if lock is None:
        raise LogDirLockedError(
            f"{path}: transactional id {transactional_id!r} is in use{_by_holder(manager, path)}; stop that query, "
            f"or use another transactional id: each running query needs one of its own{lock_holders(path)}"
        )
    return lock


def _by_holder(manager: LogManager, path: str) -> str:
    with suppress(FileNotFoundError), manager.filesystem.open(path, "read") as file:
        return f" by {bytes(file.read(0, HOLDER_BYTES_MAX)).decode(errors='replace')}"
    return ""
