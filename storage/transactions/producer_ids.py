"""Assigns producer ids, from 2^40 upward: far above the ids that a broker on the same directory would assign.

``producer_ids.json`` at the root of the log directory stores the next free id. The file may be lost, torn or restored
from a backup, and a partition may come from another log directory, so an id counts as free only if none of the
partitions to be written to knows it.

Idempotent producers of Kafka's clients get ids from 2^45 upward, transactional ones from 2^50 upward. So a batch that
a client sends cannot have an id of ours (``is_of_driver``), and a driver that has the transactional id of a client
writes under another producer id, and its progress is compared with its own records only (``counted``).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection

from ..errors import CorruptionError, LogStoreError
from ..filesystem.operations import read_file, write_atomically
from ..writing.log import Log
from .states import TransactionStates

PRODUCER_IDS_FILE = "producer_ids.json"
FIRST_IDEMPOTENT_ID = 2**45
FIRST_CLIENT_ID = 2**50
FILE_BYTES_MAX = 1000
FIRST_PRODUCER_ID = 2**40  # a broker assigns ids from 0, in blocks of 1000, so the ranges never meet
_END = FIRST_IDEMPOTENT_ID  # no id from here on was ever assigned: such an id is damage

logger = logging.getLogger(__name__)


def client_producer_id(free_id: int) -> int:
    """Returns the producer id for a transactional client, given a free id."""
    return free_id + FIRST_CLIENT_ID


def idempotent_producer_id(free_id: int) -> int:
    """Returns the producer id for an idempotent client, given a free id; one on an object store has its range."""
    return free_id if free_id >= FIRST_IDEMPOTENT_ID else free_id + FIRST_IDEMPOTENT_ID


def is_of_driver(producer_id: int) -> bool:
    """Whether the id is one of ours, of a writer that opens the log, such as Spark's; no client gets such an id."""
    return FIRST_PRODUCER_ID <= producer_id < FIRST_IDEMPOTENT_ID


def is_of_transactional_client(producer_id: int) -> bool:
    """Whether a transactional client got the id."""
    return FIRST_CLIENT_ID <= producer_id < 2 * FIRST_CLIENT_ID


def is_known(producer_id: int, logs: Collection[Log]) -> bool:
    """Whether one of the partitions has seen a producer with this id."""
    return any(log.producers.last_entry(producer_id) is not None for log in logs)


def allot_producer_id(states: TransactionStates, logs: Collection[Log], *, count: int = 1) -> int:
    """Returns the next free id that no partition in ``logs`` knows: the partitions to be written to.

    With ``count``, the caller gets this many consecutive ids, beginning with the returned one. Durable on return: no
    later call returns the same id, unless the file is lost or restored.
    """
    manager = states.manager
    path = manager.path(PRODUCER_IDS_FILE)
    with manager.root_lock():
        producer_id = _read_next(states, path)
        while is_known(producer_id, logs):
            producer_id += 1
        content = {"version": 1, "next_producer_id": producer_id + count}
        write_atomically(manager.filesystem, path, json.dumps(content).encode() + b"\n")
    return producer_id


def _read_next(states: TransactionStates, path: str) -> int:
    try:
        found = json.loads(read_file(states.manager.filesystem, path, FILE_BYTES_MAX))["next_producer_id"]
        if not isinstance(found, int) or not FIRST_PRODUCER_ID <= found < _END:
            raise ValueError(f"next_producer_id is {found!r}, not a number from {FIRST_PRODUCER_ID} up")
    except FileNotFoundError:
        return _next_unknown(states)
    except (ValueError, KeyError, TypeError, RecursionError, CorruptionError) as error:
        logger.warning("%s: damaged (%s); producer ids continue above those of all transactional ids", path, error)
        return _next_unknown(states)
    return found


def _next_unknown(states: TransactionStates) -> int:
    """Returns an id above the producer ids of all transactional ids, ignoring ids so large that they must be damage.

    Also ignores the ids in a damaged partition of ``__transaction_state``: the caller asks the partitions to be written
    to whether they know the id.
    """
    unreadable: list[LogStoreError] = []
    found = (value.producer_id for _, value in states.all(unreadable))
    known = [each - FIRST_CLIENT_ID if is_of_transactional_client(each) else each for each in found]
    for error in unreadable:
        logger.warning("%s; producer ids in this partition are ignored when a free one is searched for", error)
    return max(FIRST_PRODUCER_ID, 1 + max((each for each in known if each < _END), default=0))
