"""Takes the maintenance lock of a log without opening the log.

Opening it for writing would repair one segment after the other what tasks are to repair in parallel.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import LogDirLockedError
from ..filesystem.port import Lock
from ..segment.walk import LogContext
from ..writing.locks import MAINTENANCE_LOCK_FILE, take_maintenance_lock, wait_for_lock, write_holder

logger = logging.getLogger(__name__)


@contextmanager
def maintenance_lock(context: LogContext, holder: str, *, wait: bool) -> Iterator[None]:
    """A context that holds the lock; other processes show ``holder`` in their errors.

    If another process holds the lock, waits with ``wait``, else raises LogDirLockedError.
    """
    with _locked(context, wait=wait):
        write_holder(context, holder)
        yield


def _locked(context: LogContext, *, wait: bool) -> Lock:
    try:
        return take_maintenance_lock(context)
    except LogDirLockedError as error:
        if not wait:
            raise
        logger.warning("%s; waiting for it", error)
        return wait_for_lock(context, MAINTENANCE_LOCK_FILE)
