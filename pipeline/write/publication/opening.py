"""Chooses the implementation: an object store for its URLs, a log directory otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

from pyspark.sql import SparkSession

from ....storage import (
    TRANSACTION_TIMEOUT_MS,
    InvalidConfigError,
    TopicDescription,
    TransactionRefusedError,
    is_store_url,
    this_process,
)
from ..exactly_once.progress import Run
from ..targets import Targets
from . import bucket, transactions
from .bucket import StagingTicket
from .port import Publication, Ticket
from .transactions import TransactionTicket


def prepared(targets: Targets, before_creating: Callable[[], None] = lambda: None) -> dict[str, TopicDescription]:
    """Returns the topics by name, including the topic for bad records; creates the log, and them, if missing.

    ``before_creating`` is called before anything is created in an empty place. Raises the errors of
    :meth:`Targets.prepare`.
    """
    if is_store_url(targets.directory):
        return bucket.prepared(targets, before_creating)
    return transactions.prepared(targets, before_creating)


def kept(directory: str, run: Run) -> Publication:
    """Returns the driver's writer of a query, which has its name until another one takes over.

    Raises LogDirLockedError while another process writes to a directory under the name.
    """
    if is_store_url(directory):
        return bucket.taken(directory, run)
    return transactions.taken(
        directory, run.app_id, timeout_ms=TRANSACTION_TIMEOUT_MS, holder=this_process(), keep_lock_file=True
    )


@contextmanager
def taken(directory: str, app_id: str, timeout_ms: int, *, is_named: bool) -> Iterator[Publication]:
    """Yields a writer that begins one write; another process ends it. ``is_named``: whether the writer has progress."""
    publication: Publication
    if is_store_url(directory):
        publication = bucket.taken(directory, Run(app_id, "", ""), is_named=is_named)
    else:
        publication = transactions.taken(directory, app_id, timeout_ms=timeout_ms, is_named=is_named)
    with closing(publication):
        yield publication


@contextmanager
def resumed(directory: str, ticket: Ticket, *, is_named: bool = False) -> Iterator[Publication]:
    """Yields a writer that can commit or abort a write that another process began."""
    publication: Publication
    if isinstance(ticket, StagingTicket):
        publication = bucket.resumed(directory, ticket)
    else:
        assert isinstance(ticket, TransactionTicket)
        publication = transactions.resumed(directory, ticket, is_named=is_named)
    with closing(publication):
        yield publication


def abort(directory: str, ticket: Ticket) -> None:
    """Ends a write that another process began, unless it is decided already."""
    if isinstance(ticket, StagingTicket):
        return  # there is nothing to end, and the store may not answer
    with suppress(TransactionRefusedError), resumed(directory, ticket) as publication:
        publication.abort(ticket)


def check_session(session: SparkSession, directory: str) -> None:
    """Raises InvalidConfigError under ``spark.speculation``, unless the log is on an object store."""
    if not is_store_url(directory) and session.conf.get("spark.speculation", "false") == "true":
        raise InvalidConfigError(
            "spark.speculation=true starts a task twice, and both would append: set it to false for a query that "
            "writes to a log directory"
        )
