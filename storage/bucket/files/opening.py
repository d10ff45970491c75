"""Opens the log at a URL to read it as files. A process reads the commits of a log once, later only new ones."""

from __future__ import annotations

from threading import Lock

from ...clock import Clock
from ..root import open_root
from ..stores.port import ObjectStore
from ..stores.remote import open_store
from .filesystem import BucketFileSystem

LOGS_KEPT = 8

_lock = Lock()
_of_this_process: dict[str, BucketFileSystem] = {}  # by URL, in order of last use


def open_files(url: str, *, store: ObjectStore | None = None, clock: Clock | None = None) -> BucketFileSystem:
    """Returns the file system that shows the log at a URL, up to date.

    Takes two requests, at once, for a log that this process has opened before. Raises like :func:`open_root`.
    """
    if store is not None or clock is not None:
        return BucketFileSystem(open_root(url, store=store, clock=clock))
    store = open_store(url)
    with _lock:
        known = _of_this_process.pop(store.url, None)
        if known is None or not known.catch_up_if_current():
            known = BucketFileSystem(open_root(url, store=store))
        _of_this_process[store.url] = known
        while len(_of_this_process) > LOGS_KEPT:
            _of_this_process.pop(next(iter(_of_this_process)))
        return known
