"""Producer ids: one for each transactional id, from 2^40 upward, where a broker that mounts the directory never comes.

The next free one is kept in a file at the root of the log directory. Where that is missing or damaged, ids go on above
all that ``__transaction_state`` knows.
"""

from __future__ import annotations

import json
import logging

from pyspark_commitlog.storage.errors import CorruptionError
from pyspark_commitlog.storage.filesystem import read_file, write_atomically
from pyspark_commitlog.storage.transactions.states import TransactionStates

PRODUCER_IDS_FILE = "producer_ids.json"
FILE_BYTES_MAX = 1000
FIRST_PRODUCER_ID = 2**40  # a broker allots from 0, in blocks of 1000: the two never meet

logger = logging.getLogger(__name__)


def allot_producer_id(states: TransactionStates) -> int:
    """An id that nobody was given before; that it is given is durable."""
    manager = states.manager
    path = manager.path(PRODUCER_IDS_FILE)
    with manager.root_lock():
        producer_id = _read_next(states, path)
        content = {"version": 1, "next_producer_id": producer_id + 1}
        write_atomically(manager.filesystem, path, json.dumps(content).encode() + b"\n")
    return producer_id


def _read_next(states: TransactionStates, path: str) -> int:
    try:
        found = json.loads(read_file(states.manager.filesystem, path, FILE_BYTES_MAX))["next_producer_id"]
        if not isinstance(found, int) or found < FIRST_PRODUCER_ID:
            raise ValueError(f"next_producer_id {found!r}")
    except FileNotFoundError:
        return _next_unknown(states)
    except (ValueError, KeyError, TypeError, CorruptionError) as error:
        logger.warning("%s: %s; producer ids go on above those of all transactional ids", path, error)
        return _next_unknown(states)
    return found


def _next_unknown(states: TransactionStates) -> int:
    known = (value.producer_id for _, value in states.all())
    return max(FIRST_PRODUCER_ID, 1 + max(known, default=0))
