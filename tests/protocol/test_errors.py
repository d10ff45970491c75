"""Codes and messages of errors for clients."""

from __future__ import annotations

import errno
import os

import pytest

from pyspark_commitlog import storage
from pyspark_commitlog.protocol import errors
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.protocol.errors import ABOUT_REQUESTS, RequestError, code_of, is_fault, message_of

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/secret/path")
UNKNOWN = "there is no such topic or partition"
HELD = "another process on the node holds a lock; is it paused? Try again"
ERRORS = [
    (FULL, ErrorCode.kafka_storage_error, "No space left on device"),
    (storage.LockHeldError("/a/lock is held"), ErrorCode.request_timed_out, HELD),
    (
        storage.UnknownTopicOrPartitionError(""),
        ErrorCode.unknown_topic_or_partition,
        "there is no such topic or partition",
    ),
    (RequestError(ErrorCode.invalid_request, "why"), ErrorCode.invalid_request, "why"),
    (ValueError("of ours"), ErrorCode.unknown_server_error, None),
]


@pytest.mark.parametrize(("error", "code", "message"), ERRORS)
def test_a_client_gets_a_code_and_what_it_may_know(error: Exception, code: ErrorCode, message: str | None) -> None:
    assert (code_of(error), message_of(error)) == (code, message)


def errors_of_storage() -> list[type[Exception]]:
    """All kinds of errors of the engine, and some of Python's."""
    found, seen = [storage.LogStoreError], set()
    while found:
        kind = found.pop()
        seen.add(kind)
        found += [each for each in kind.__subclasses__() if each.__module__ == storage.LogStoreError.__module__]
    return sorted({*seen, OSError, FileNotFoundError, ValueError, KeyError}, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", [each for each in errors_of_storage() if not issubclass(each, ABOUT_REQUESTS)])
def test_no_error_shows_a_path_or_the_names_of_others(kind: type[Exception]) -> None:
    path = "/srv/the log/t-0/00000000000000000000.log"
    text = f"{path}: no topic 'x' in /srv/the log (did you mean 'secret'?)"
    made = kind(text, path=path, position=3) if issubclass(kind, storage.CorruptionError) else kind(text)
    shown = message_of(made) or ""
    assert "/srv" not in shown
    assert "secret" not in shown


def test_an_error_of_the_disk_shows_what_it_was() -> None:
    assert message_of(OSError(errno.ENOSPC, "write: /srv/log is full", "/srv/log/t-0")) == "No space left on device"


def test_what_a_client_sent_is_explained_to_it() -> None:
    assert message_of(storage.RecordTooLargeError("the batch has 9 bytes")) == "the batch has 9 bytes"
    assert message_of(storage.CorruptRecordError("the checksum is wrong", position=0)) == "the checksum is wrong"
    assert message_of(storage.InvalidConfigError("x" * 9000)) == "x" * 8000


def test_an_error_of_which_clients_get_only_the_code_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "_logged_s", {})

    def fail(number: int) -> None:
        raise ImportError(f"half of a library, {number}")

    for number in range(3):
        with pytest.raises(ImportError) as raised:
            fail(number)
        assert code_of(raised.value) is ErrorCode.unknown_server_error
    code_of(ImportError("elsewhere"))
    code_of(FULL)
    assert [each.getMessage().partition(": ")[2] for each in caplog.records] == [
        "ImportError('half of a library, 0')",
        "ImportError('elsewhere')",
    ]
    assert "raise ImportError" in caplog.text  # with its place


@pytest.mark.parametrize(("error", "is_ours"), [(FULL, True), (ValueError(), True), (storage.LockHeldError(""), False)])
def test_faults_are_those_of_who_runs_the_server(error: Exception, is_ours: bool) -> None:
    assert is_fault(error) is is_ours
    assert not is_fault(RequestError(ErrorCode.unknown_topic_or_partition))
