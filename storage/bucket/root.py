"""Opens the log at a URL. ``commitlog.json`` has its id, and is written once, after the store passed the check."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from random import Random, SystemRandom

from ..clock import Clock, SystemClock
from ..errors import CorruptionError, NotALogDirError, StorageError
from ..verdicts import Finding, Verdict
from .commit_log import CommitLog
from .loading import FORMAT, IDENTITY, Identity, lists_commits, read_identity
from .stores.apart import check_store_apart
from .stores.patience import Attempts, Patience, PatientStore
from .stores.port import ObjectStore
from .stores.remote import open_store

logger = logging.getLogger(__name__)


def open_root(
    url: str,
    *,
    create: bool = False,
    store: ObjectStore | None = None,
    check: Callable[[str], Sequence[Finding]] = check_store_apart,
    clock: Clock | None = None,
    random: Random | None = None,
    patience: Patience | None = None,
) -> CommitLog:
    """Returns the log at a URL, with its state read.

    ``create``: makes an empty log if there is none, after :func:`check_store` passed, which takes a minute once.
    Raises NotALogDirError if there is none, StorageError, with the counts, if the store must not hold a log,
    CorruptionError if there are commits but no identity, and ObjectStoreError.
    """
    store = store or open_store(url)
    clock, random, patience = clock or SystemClock(), random or SystemRandom(), patience or Patience.of_process()
    patient = PatientStore(store, lambda: Attempts(patience, clock, random))
    identity = read_identity(patient)
    if identity is None:
        _check_empty(patient)
        if not create:
            raise NotALogDirError(f"{store.url}: there is no log here")
        _check_word(store.url, check)
        identity = _create_identity(patient, clock, random)
    return CommitLog(store, identity.log_id, clock=clock, random=random, patience=patience)


def _check_empty(store: PatientStore) -> None:
    """Raises CorruptionError if there are commits: a log that lost its identity must not get a new one."""
    if lists_commits(store) is not None:
        raise CorruptionError("is missing, but commits are there: restore it", path=f"{store.url}/{IDENTITY}")


def _check_word(url: str, check: Callable[[str], Sequence[Finding]]) -> None:
    logger.info("testing the store before the first log there, once; this takes up to a minute")
    if failed := [str(each) for each in check(url) if each.verdict is Verdict.FAILED]:
        raise StorageError(f"{url}: this store must not hold a log: {'; '.join(failed)}")


def _create_identity(store: PatientStore, clock: Clock, random: Random) -> Identity:
    """Writes the identity of a new log; returns that of another process if it was faster."""
    created = Identity(f"{random.getrandbits(128):032x}", clock.now_ms())
    data = json.dumps({"format": FORMAT, "logId": created.log_id, "createdMs": created.created_ms}).encode()
    return store.put_or_find(IDENTITY, data, read_identity) or created
