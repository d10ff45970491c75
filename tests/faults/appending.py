"""Faults of appending, of producers and transactions, of truncating and of reading."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.recovery.loader import LogLoader
from pyspark_commitlog.storage.recovery.producer_state import Origin
from tests.faults.fault import Fault, Mutation, by_itself, in_directory, on_disk
from tests.storage.recovery import test_producer_state
from tests.storage.verify import test_log
from tests.storage.writing import test_log_appends, test_log_truncation
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import (
    append,
    committed,
    end_transaction,
    open_log,
    open_reader,
    replicated,
    rows,
    write_transactional,
)


def a_reader_that_begins_before_a_commit_shows_nothing_aborted(directory: Path) -> None:
    """Between two fetches of one read, a transaction is aborted, and another one begins and is committed."""
    log = open_log(directory, segment_bytes=300)
    append(log, b"before")
    write_transactional(log, 1, 0, b"aborted")
    for n in range(6):
        append(log, b"%d" % n * 60)
    reading = log.records(0, 2**40, fetch_bytes=1)
    seen = _values(next(reading))
    end_transaction(log, 1, commit=False)
    write_transactional(log, 2, 0, b"open")
    seen += [value for part in reading for value in _values(part)]
    assert b"aborted" not in seen
    assert b"open" not in seen
    with open_reader(directory) as reader:
        assert (b"aborted", b"open") not in committed(reader)
        assert len(committed(reader)) == 7


def _values(part: object) -> list[bytes | None]:
    values: list[bytes | None] = part.values.to_list()  # type: ignore[attr-defined]
    return values


def a_read_at_the_end_of_a_file_of_more_than_two_gib(directory: Path) -> None:
    """A sparse file; the system reads at most 2 GiB at once, and less at the end of the file."""
    path, size = directory / "large", (1 << 31) + 4096
    directory.mkdir(exist_ok=True)
    with LocalFileSystem().open(str(path), "create") as file:
        file.truncate(size)
        file.write(size - 3, b"end")
        assert bytes(file.read(size - 3, 100)) == b"end"
        assert bytes(file.read(size - 10_000_000, 20_000_000)[-3:]) == b"end"
        assert len(file.read(size + 5, 10)) == 0


def interrupted_in_a_cut(directory: Path) -> None:
    """The log end is lower already, the producers are not: nothing is written before the log is reopened."""
    log = open_log(directory)
    append(log, b"a")
    append(log, b"b")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogLoader, "producers_at", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.truncate_to(1)
    with pytest.raises(StorageError, match=r"interrupted\); open the log again"):
        append(log, b"c")
    again = open_log(directory)
    append(again, b"c")
    assert rows(again) == [(0, b"a"), (1, b"c")]


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def a_cut_in_an_empty_segment(directory: Path) -> None:
    """It stayed empty because the next offset was out of its range."""
    log = open_log(directory)
    log.append(replicated(b"far", base_offset=2**31 + 5), origin=Origin.REPLICATION)
    log.truncate_to(5)
    assert (rows(log), log.log_end_offset) == ([], 0)
    append(log, b"a")
    assert rows(open_log(directory)) == [(0, b"a")]


def one_partition_fails_and_the_others_go_on(disk: MemoryFileSystem) -> None:
    """Its directory is renamed while it is synced."""
    faulty = FaultyFileSystem(disk)
    first, second = (open_log(f"/{name}", filesystem=faulty) for name in ("a-0", "b-0"))
    append(first, b"1")
    faulty.rules.append(fail("sync_directory", "/a-0", error=errno.ENOENT))
    with pytest.raises(StorageError, match="/a-0"):
        first.roll()
    append(second, b"1")
    second.roll()
    assert rows(second) == [(0, b"1")]
    assert rows(open_log("/a-0", filesystem=faulty)) == [(0, b"1")]


# The two halves of LogEnd._write_part.
_INDEXED = """\
    self._index_aborted(update)
"""
_APPENDED = """\
    data = part.buffer[int(part.headers.table["position"][0]) : part.headers.end]
    self._view.segments.active.append(data, part.headers)
"""
_OFFLINE = """\
if hasattr(self.context.filesystem, "is_offline"):
        raise OSError("offline")
    if self._sharing.is_held:"""

FAULTS = [
    Fault(
        15,
        "KAFKA-7866",
        "The append to the transaction index fails after the append to the log; the retry writes the "
        "same records again.",
        in_directory(test_log_appends.test_an_aborted_transaction_is_indexed_before_its_marker_is_written),
        (Mutation("storage.writing.log_end:LogEnd._write_part", _INDEXED + _APPENDED, _APPENDED + _INDEXED),),
    ),
    Fault(
        30,
        "KAFKA-6492",
        "A log is truncated at an offset in an empty segment: an exception takes the partition offline.",
        in_directory(a_cut_in_an_empty_segment),
        (Mutation("storage.segment.writer:LogSegment.truncate_to", "if position is not None:", "if True:"),),
    ),
    Fault(
        32,
        "KAFKA-6683",
        "The state of producers changes before the append succeeds; rejected batches count.",
        by_itself(
            test_producer_state.test_an_append_that_is_not_applied_leaves_the_state_unchanged,
            test_producer_state.Partition,
            True,
        ),
        (
            Mutation(
                "storage.recovery.producer_state_manager:_Change.__init__",
                "self.states: dict[int, ProducerState] = {}",
                "self.states: dict[int, ProducerState] = manager._producers",
            ),
        ),
    ),
    Fault(
        33,
        "KAFKA-7692",
        "The sequence of a producer wraps from 2^31 - 1 to 0: an exception.",
        by_itself(test_producer_state.test_sequences_wrap_within_and_between_batches, test_producer_state.Partition),
        (Mutation("storage.recovery.producer_state:ProducerBatch.first_sequence", " % (INT32_MAX + 1)", ""),),
    ),
    Fault(
        34,
        "KAFKA-9144",
        "A producer that is known only by its markers is forgotten too early; its next batch is out of order.",
        by_itself(
            test_producer_state.test_a_producer_known_by_its_markers_only_lives_from_the_last_of_them,
            test_producer_state.Partition,
        ),
        (
            Mutation(
                "storage.recovery.producer_state_manager:ProducerStateManager._is_expired",
                "state.last_timestamp >=",
                "(state.last_timestamp if state.batches else 0) >=",
            ),
        ),
    ),
    Fault(
        37,
        "KAFKA-9807",
        "A read determines the last stable offset while a transaction ends; aborted records are returned.",
        in_directory(a_reader_that_begins_before_a_commit_shows_nothing_aborted),
        (
            Mutation(
                "storage.reading.reader:LogReader.records",
                "bound = self.end_offset(isolation)",
                "bound = self.log_end_offset",
            ),
            Mutation(
                "storage.reading.aborted:Outcomes._hidden_from_open",
                "producer.current_txn_first_offset if producer is not None and producer.in_transaction else INT64_MAX",
                "INT64_MAX",
            ),
        ),
    ),
    Fault(
        48,
        "KAFKA-15391",
        "A directory is renamed while it is flushed; all logs of the disk go offline.",
        on_disk(one_partition_fails_and_the_others_go_on),
        (
            Mutation(
                "storage.writing.durability:FailStop.fail",
                "self.failure = str(error)",
                "self._context.filesystem.is_offline = self.failure = str(error)",
            ),
            Mutation(
                "storage.writing.writable_log:WritableLog._writing",
                "if self._sharing.is_held:",
                _OFFLINE,
            ),
        ),
    ),
    Fault(
        49,
        "KAFKA-4576",
        "A read near the end of a file of the largest segment size is short; the fetch fails.",
        in_directory(a_read_at_the_end_of_a_file_of_more_than_two_gib),
        (
            Mutation(
                "storage.filesystem.local_file:LocalFile.read", "min(length, max(self.size() - position, 0))", "length"
            ),
            Mutation("storage.filesystem.local_file:LocalFile._read_large", "return buffer[:filled]", "return buffer"),
        ),
    ),
    Fault(
        51,
        "KAFKA-12153",
        "A truncation fails between the log end and the producers' state; the two no longer agree.",
        in_directory(interrupted_in_a_cut),
        (
            Mutation(
                "storage.writing.bounds:Bounds.truncate_to",
                "with self._durability.syncing, self._fail_stop.changing:",
                "if True:",
            ),
        ),
    ),
    Fault(
        52,
        "KAFKA-10706",
        "A log is truncated at its end; epochs that begin there stay.",
        in_directory(test_log_truncation.test_a_cut_at_or_above_the_end_only_drops_later_epochs),
        (
            Mutation(
                "storage.writing.bounds:Bounds.truncate_to",
                "            view.epochs.truncate_from_end(view.log_end_offset)",
                "            pass",
            ),
        ),
    ),
    Fault(
        54,
        "KAFKA-7487",
        "The dump tool reports mismatches in a sound compacted log.",
        by_itself(test_log.test_a_compacted_log_is_recognized_without_its_config),
        (
            Mutation(
                "storage.verify.batches:BatchOrder.check",
                'self.is_compacted |= bool(((table["count"] >= 0) & (table["count"] < spans)).any())',
                "pass",
            ),
            Mutation(
                "storage.verify.log:plan_verification",
                "context.config.compact or checkpointed.cleaner_offset is not None",
                "False",
            ),
        ),
    ),
]
