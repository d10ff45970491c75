"""Places: which limit counts a request while it is in progress.

Each sort of requests has ``queued.max.requests`` places of its own, because requests of one sort wait for the same
threads. So those that wait for the disk of topics, say, never keep others from being read.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..protocol.apis import ApiKey
from .network.connection import Connection
from .network.quota import Quota

_SORTS = (
    (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
    (ApiKey.PRODUCE,),
    (ApiKey.FETCH,),
    (ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH),
    (ApiKey.METADATA,),
    (ApiKey.INIT_PRODUCER_ID,),
    (
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.OFFSET_DELETE,
    ),
    (
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
    ),
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
    ),
)


class Places:
    """The places of all requests in progress."""

    def __init__(self, limit: int) -> None:
        """``limit``: of each sort."""
        self._others, self._before_login = Quota(limit), Quota(limit)
        sorts = [(keys, Quota(limit)) for keys in _SORTS]
        self._of_kinds: Mapping[bytes, Quota] = {key.to_bytes(2, "big"): quota for keys, quota in sorts for key in keys}

    def of(self, frame: memoryview, connection: Connection) -> Quota:
        """Returns where a request is counted."""
        if connection.is_newcomer:
            return self._before_login
        return self._of_kinds.get(bytes(frame[:2]), self._others)
