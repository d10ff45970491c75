"""Codes and messages of errors for clients."""

from __future__ import annotations

import errno
import os

import pytest

from pyspark_commitlog.protocol import ErrorCode, RequestError, code_of, message_of
from pyspark_commitlog.storage import LockHeldError, UnknownTopicOrPartitionError

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/secret/path")
ERRORS = [
    (FULL, ErrorCode.kafka_storage_error, "No space left on device"),
    (LockHeldError("held"), ErrorCode.request_timed_out, "held"),
    (UnknownTopicOrPartitionError(""), ErrorCode.unknown_topic_or_partition, None),
    (RequestError(ErrorCode.invalid_request, "why"), ErrorCode.invalid_request, "why"),
    (ValueError("of ours"), ErrorCode.unknown_server_error, None),
]


@pytest.mark.parametrize(("error", "code", "message"), ERRORS)
def test_a_client_gets_a_code_and_what_it_may_know(error: Exception, code: ErrorCode, message: str | None) -> None:
    assert (code_of(error), message_of(error)) == (code, message)
