"""Kafka's error codes for the errors of ``storage``, and the error of a request that is refused."""

from __future__ import annotations

import logging
import os
import time
from traceback import walk_tb

from .. import storage
from .bodies import ErrorCode

logger = logging.getLogger(__name__)

LOG_AGAIN_S, LOGGED_MAX = 600.0, 1000
_logged_s: dict[object, float] = {}  # unexpected errors by class and place, and when they were logged

MESSAGE_CHARACTERS_MAX = 8_000  # each at most 4 bytes: older versions have room for 32767 bytes
_CODES: dict[type[Exception], ErrorCode] = {
    storage.InvalidConfigError: ErrorCode.invalid_config,
    storage.StorageError: ErrorCode.kafka_storage_error,
    storage.CorruptionError: ErrorCode.kafka_storage_error,  # of a commit, or a file beside a log
    storage.CorruptRecordError: ErrorCode.corrupt_message,
    storage.MissingSegmentError: ErrorCode.corrupt_message,
    storage.InvalidRecordError: ErrorCode.invalid_record,
    storage.OffsetOutOfRangeError: ErrorCode.offset_out_of_range,
    storage.RecordTooLargeError: ErrorCode.message_too_large,
    storage.RecordBatchTooLargeError: ErrorCode.record_list_too_large,
    storage.RecordValidationError: ErrorCode.invalid_record,
    storage.InvalidTimestampError: ErrorCode.invalid_timestamp,
    storage.OutOfOrderSequenceError: ErrorCode.out_of_order_sequence_number,
    storage.InvalidProducerEpochError: ErrorCode.invalid_producer_epoch,
    storage.InvalidTxnStateError: ErrorCode.invalid_txn_state,
    storage.GroupChangedError: ErrorCode.not_coordinator,
    storage.TransactionCoordinatorFencedError: ErrorCode.transaction_coordinator_fenced,
    storage.TransactionRefusedError: ErrorCode.invalid_txn_state,
    storage.OutcomeUnknownError: ErrorCode.request_timed_out,
    storage.ProducerFencedError: ErrorCode.producer_fenced,
    storage.UnsupportedCompressionTypeError: ErrorCode.unsupported_compression_type,
    storage.UnsupportedForMessageFormatError: ErrorCode.unsupported_for_message_format,
    storage.UnknownTopicOrPartitionError: ErrorCode.unknown_topic_or_partition,
    storage.TopicExistsError: ErrorCode.topic_already_exists,
    storage.InvalidTopicError: ErrorCode.invalid_topic_exception,
    storage.PolicyViolationError: ErrorCode.policy_violation,
    storage.LogDirLockedError: ErrorCode.kafka_storage_error,
    storage.NotALogDirError: ErrorCode.kafka_storage_error,
    storage.LockHeldError: ErrorCode.request_timed_out,
    OSError: ErrorCode.kafka_storage_error,
}


_FAULTS = (storage.UnknownTopicOrPartitionError, storage.CorruptionError, storage.StorageError, OSError)


class RequestError(Exception):
    """A request, or a part of it, is refused with one of Kafka's codes; ``str`` of it is the message for the client."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        self.code = code
        super().__init__(message)


def code_of(error: Exception) -> ErrorCode:
    """Returns the code for an error, by its nearest known class; for unexpected errors, UNKNOWN_SERVER_ERROR.

    For an unexpected error, clients get only this code, so the error is logged here: once, and again if it persists.
    """
    if isinstance(error, RequestError):
        return error.code
    found = (_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)
    code = next(found, ErrorCode.unknown_server_error)
    if code is ErrorCode.unknown_server_error:
        _log_unexpected(error)
    return code


def _log_unexpected(error: Exception) -> None:
    kind, now_s = (type(error), _raised_at(error)), time.monotonic()
    if now_s - _logged_s.get(kind, -LOG_AGAIN_S) >= LOG_AGAIN_S:
        if len(_logged_s) >= LOGGED_MAX:
            _logged_s.clear()
        _logged_s[kind] = now_s
        logger.error("a request failed with UNKNOWN_SERVER_ERROR: %r", error, exc_info=error)


def _raised_at(error: Exception) -> tuple[str, int]:
    """Returns the place in the code where an error was raised."""
    place = "", 0
    for frame, line in walk_tb(error.__traceback__):
        place = frame.f_code.co_filename, line
    return place


def is_fault(error: Exception) -> bool:
    """Whether an error concerns the server's operator (damage, a disk, a missing partition, a bug), not the request."""
    return isinstance(error, _FAULTS) or code_of(error) is ErrorCode.unknown_server_error


# Errors about what a client sent; their texts name no file. All others are about the server's files.
ABOUT_REQUESTS = (
    RequestError,
    storage.InvalidConfigError,
    storage.AppendError,
    storage.UnsupportedCompressionTypeError,
    storage.InvalidTopicError,
    storage.PolicyViolationError,
)
_OF_BATCHES = (storage.CorruptRecordError, storage.InvalidRecordError)
_MESSAGES = {  # used where an error's own text would show names or paths
    ErrorCode.unknown_topic_or_partition: "there is no such topic or partition",
    ErrorCode.topic_already_exists: "the topic exists",
    ErrorCode.kafka_storage_error: "the node could not read or write its files",
    ErrorCode.request_timed_out: "another process on the node holds a lock; is it paused? Try again",
    ErrorCode.offset_out_of_range: "the log does not have this offset",
    ErrorCode.corrupt_message: "the log is damaged: `commitlog verify` on the node shows where",
}


def shortened(message: str) -> str:
    """Returns a message that may contain what a client sent, cut to the length that each version has room for."""
    return message[:MESSAGE_CHARACTERS_MAX]


def message_of(error: Exception) -> str | None:
    """Returns the message about an error for a client; None for unexpected errors: the client only gets the code.

    The message never shows a path of the server, or a name that the client did not give: only errors about the request
    keep their text, truncated, because it may contain data that the client sent. Others get the text of their code.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    if isinstance(error, _OF_BATCHES) and error.path is None:  # the client sent it; in a file, it has a path
        return shortened(error.reason) or None
    if isinstance(error, ABOUT_REQUESTS):
        return shortened(str(error)) or None
    return _MESSAGES.get(code_of(error))
