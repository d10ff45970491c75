"""What a client gets for a batch that was refused, or whose append failed."""

from __future__ import annotations

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError, code_of, message_of
from ...protocol.produce import Produced
from ...storage import RecordValidationError
from ..partitions.led_partition import LedPartition

_NO_OFFSET = -1
_BEFORE_THE_LOG = frozenset(  # errors without the log start offset (``ReplicaManager.appendToLocalLog``)
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.corrupt_message,
        ErrorCode.kafka_storage_error,
    }
)


def refused(topic: str, partition: int, error: Exception, led: LedPartition | None = None) -> Produced:
    """Returns the answer for a batch that was refused; ``led``: the partition, if its log was asked.

    A RequestError came before the log, such as one of the transaction.
    """
    code, start = code_of(error), _NO_OFFSET
    if led is not None and not isinstance(error, RequestError) and code not in _BEFORE_THE_LOG:
        start = led.log_start_offset
    return Produced(
        topic,
        partition,
        code,
        log_start_offset=start,
        record_errors=error.record_errors if isinstance(error, RecordValidationError) else (),
        message=message_of(error),
    )
