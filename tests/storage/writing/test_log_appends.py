"""What a log accepts from which origin; refused appends have no effect."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.storage.errors import (
    CorruptRecordError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OffsetsOutOfOrderError,
    OutOfOrderSequenceError,
    RecordTooLargeError,
    RecordValidationError,
    StorageError,
    TransactionCoordinatorFencedError,
    UnexpectedAppendOffsetError,
)
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.files.checkpoints import EpochEntry
from pyspark_commitlog.storage.format.tables import Bytes
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.writing.log import Log
from tests.support.disk.faulty_filesystem import FaultyFileSystem, OperationName, fail, tear
from tests.support.logs.building import (
    append,
    batch,
    committed,
    end_transaction,
    open_log,
    open_reader,
    records,
    replicated,
    rows,
    write_transactional,
)


def idempotent(*values: bytes, sequence: int, epoch: int = 0) -> Bytes:
    return batch(*values, producer_id=5, base_sequence=sequence, producer_epoch=epoch)


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def flipped(data: Bytes) -> Bytes:
    damaged = data.copy()
    damaged[-1] ^= 1
    return damaged


REFUSED: list[tuple[str, type[Exception], Callable[[Log], object]]] = [
    ("a wrong checksum", CorruptRecordError, lambda log: log.append(flipped(batch(b"x")))),
    ("a batch above max.message.bytes", RecordTooLargeError, lambda log: log.append(batch(b"x" * 2000))),
    ("two batches at once", RecordValidationError, lambda log: log.append(np.concatenate([batch(b"x"), batch(b"y")]))),
    ("a base offset of a client's", RecordValidationError, lambda log: log.append(replicated(b"x", base_offset=9))),
    ("a gap in the sequences", OutOfOrderSequenceError, lambda log: log.append(idempotent(b"x", sequence=7, epoch=1))),
    ("an older epoch", InvalidProducerEpochError, lambda log: log.append(idempotent(b"x", sequence=0, epoch=0))),
    ("a new epoch not from 0", OutOfOrderSequenceError, lambda log: log.append(idempotent(b"x", sequence=3, epoch=2))),
    (
        "a plain write in an open transaction",
        InvalidTxnStateError,
        lambda log: log.append(batch(b"x", producer_id=6, base_sequence=1)),
    ),
    (
        "a marker of an older coordinator",
        TransactionCoordinatorFencedError,
        lambda log: end_transaction(log, 8, commit=True, coordinator_epoch=2),
    ),
    (
        "a replicated set below the log end",
        UnexpectedAppendOffsetError,
        lambda log: log.append(replicated(b"x", base_offset=1, leader_epoch=9), origin=Origin.REPLICATION),
    ),
    (
        "a replicated set out of order",
        OffsetsOutOfOrderError,
        lambda log: log.append(
            np.concatenate([replicated(b"x", base_offset=90), replicated(b"y", base_offset=80)]),
            origin=Origin.REPLICATION,
        ),
    ),
]


@pytest.mark.parametrize(("error", "try_append"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_refused_append_leaves_no_trace(
    tmp_path: Path, error: type[Exception], try_append: Callable[[Log], object]
) -> None:
    log = open_log(tmp_path, max_message_bytes=1000)
    log.append(idempotent(b"a", sequence=0, epoch=1))
    write_transactional(log, 6, 0, b"open")
    end_transaction(log, 8, commit=False, coordinator_epoch=3)
    before = files_of(tmp_path), log.producers.entries(), log.epochs.entries, log.log_end_offset
    expected = [*rows(log), (log.log_end_offset, b"next")]
    with pytest.raises(error):
        try_append(log)
    assert (files_of(tmp_path), log.producers.entries(), log.epochs.entries, log.log_end_offset) == before
    append(log, b"next")
    assert rows(log) == expected


@pytest.mark.parametrize("limiting", ["segment_bytes", "max_message_bytes"])
@pytest.mark.parametrize("codec", list(Codec))
def test_records_are_appended_in_batches_that_fit_however_badly_they_compress(
    tmp_path: Path, codec: Codec, limiting: str
) -> None:
    values = [np.random.default_rng(size).bytes(size) for size in range(1, 900, 7)]
    log = open_log(tmp_path, **{limiting: 2000})
    log.append_records(records(values), v2.BatchFields(codec=codec))
    assert rows(log) == list(enumerate(values))


def test_a_partial_batch_after_complete_ones_is_dropped(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(np.concatenate([batch(b"whole"), batch(b"partial")[:-3]]))
    info = log.append(batch(b"partial")[:-3])
    assert (info.first_offset, info.last_offset, info.size) == (1, 0, 0)
    assert rows(log) == [(0, b"whole")]


def test_an_append_of_no_records_appends_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    info = log.append_records(records([]))
    assert (info.first_offset, info.last_offset, info.size, log.log_end_offset) == (0, -1, 0, 0)


def test_followers_keep_the_offsets_and_epochs_they_are_given(tmp_path: Path) -> None:
    for origin in (Origin.REPLICATION, Origin.RAFT_LEADER):
        log = open_log(tmp_path / origin.name)
        log.append(replicated(b"a", b"b", base_offset=10, leader_epoch=3), origin=origin)
        log.append(
            np.concatenate(
                [replicated(b"c", base_offset=20, leader_epoch=3), replicated(b"d", base_offset=30, leader_epoch=5)]
            ),
            origin=origin,
        )
        assert rows(log) == [(10, b"a"), (11, b"b"), (20, b"c"), (30, b"d")]
        assert log.epochs.entries == (EpochEntry(3, 10), EpochEntry(5, 30))
        with pytest.raises(UnexpectedAppendOffsetError, match="begin at offset 30, which is below the log end, 31"):
            log.append(replicated(b"e", base_offset=30), origin=origin)


def test_leaders_stamp_the_newest_epoch_and_a_reopened_log_knows_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    log.append(batch(b"b"), leader_epoch=4)
    append(log, b"c")
    log.close()
    log = open_log(tmp_path)
    append(log, b"d")
    data = log.read(0)
    assert data is not None
    assert data.window.headers.table["leader_epoch"].tolist() == [0, 4, 4, 4]
    assert log.epochs.entries == (EpochEntry(0, 0), EpochEntry(4, 1))


def test_sequences_of_a_coordinator_are_not_checked(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(idempotent(b"a", sequence=0))
    log.append(idempotent(b"b", sequence=40), origin=Origin.COORDINATOR)
    assert rows(log) == [(0, b"a"), (1, b"b")]
    log.append(idempotent(b"c", sequence=0, epoch=1))
    with pytest.raises(InvalidProducerEpochError):
        log.append(idempotent(b"late", sequence=41), origin=Origin.COORDINATOR)


def test_the_last_five_batches_are_known_again_even_after_reopening_the_newest(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for n in range(7):
        log.append(idempotent(b"%d" % n, sequence=n))
    for n in range(2, 7):
        info = log.append(idempotent(b"%d" % n, sequence=n))
        assert (info.first_offset, info.last_offset, info.duplicate) == (n, n, True)
    with pytest.raises(OutOfOrderSequenceError):
        log.append(idempotent(b"1", sequence=1))
    log.close()
    with open_log(tmp_path) as log:  # from a snapshot, which has only the newest of them, and the batches before it
        for n in range(2, 7):
            assert log.append(idempotent(b"%d" % n, sequence=n))[:2] == (n, n)
        assert len(rows(log)) == 7


def test_repeated_batches_are_recognised_though_another_process_ended_after_some_of_them(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        for n in range(3):
            log.append(idempotent(b"%d" % n, sequence=n))
    with open_log(tmp_path) as other:
        other.append(batch(b"other"))
    killed = open_log(tmp_path)
    killed.append(idempotent(b"3", sequence=3))
    log = open_log(tmp_path)
    infos = [log.append(idempotent(b"%d" % n, sequence=n)) for n in range(5)]
    assert [(info.first_offset, info.duplicate) for info in infos] == [
        (0, True),
        (1, True),
        (2, True),
        (4, True),
        (5, False),
    ]


def test_columns_that_a_producer_repeats_are_not_written_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fields = v2.BatchFields(producer_id=5, producer_epoch=0, base_sequence=0)
    first = log.append_records(records([b"a", b"b"]), fields)
    again = log.append_records(records([b"a", b"b"]), fields)
    assert (again.first_offset, again.last_offset, again.duplicate) == (first.first_offset, first.last_offset, True)
    assert rows(log) == [(0, b"a"), (1, b"b")]


def test_a_repeated_set_that_was_only_begun_is_completed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fields = v2.BatchFields(producer_id=5, producer_epoch=0, base_sequence=0)
    values: list[bytes | None] = [b"a", b"b", b"c"]

    def encoded() -> v2.EncodedBatches:
        return v2.encode_batches(records(values), fields, batch_bytes_max=1)

    buffer, headers = encoded()
    log.append_encoded(v2.EncodedBatches(buffer, headers[:2]))
    info = log.append_encoded(encoded())
    assert (info.first_offset, info.last_offset, info.duplicate) == (0, 2, False)
    assert rows(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert log.append_encoded(encoded()).duplicate
    assert len(rows(log)) == 3


def test_a_sequence_wraps_to_zero_after_the_largest(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    last = 2**31 - 1
    log.append(idempotent(b"a", b"b", sequence=last - 2))
    log.append(idempotent(b"c", b"d", sequence=last))  # wraps inside
    log.append(idempotent(b"e", sequence=1))
    assert log.append(idempotent(b"c", b"d", sequence=last)).duplicate
    log.close()
    log = open_log(tmp_path)
    log.append(idempotent(b"f", sequence=2))
    assert [value for _, value in rows(log)] == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_a_newer_epoch_fences_the_older_one_across_a_restart(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append(idempotent(b"a", sequence=0))
        end_transaction(log, 5, commit=False, epoch=1)
    log = open_log(tmp_path)
    with pytest.raises(InvalidProducerEpochError, match="with epoch 1, has taken over"):
        log.append(idempotent(b"late", sequence=1))
    log.append(idempotent(b"b", sequence=0, epoch=1))


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])
def test_a_transaction_over_several_segments_ends_after_a_restart(tmp_path: Path, is_closed: bool) -> None:
    log = open_log(tmp_path, segment_bytes=300)
    for n in range(6):
        write_transactional(log, 1, n, b"aborted %d" % n * 10)
        write_transactional(log, 2, n, b"%d" % n)
    if is_closed:
        log.close()
    log = open_log(tmp_path, segment_bytes=300)
    assert (log.last_stable_offset, committed(log)) == (0, [])
    end_transaction(log, 1, commit=False)
    end_transaction(log, 2, commit=True)
    expected = [(2 * n + 1, b"%d" % n) for n in range(6)]
    assert committed(log) == committed(open_reader(tmp_path, segment_bytes=300)) == expected
    assert [entry.first_offset for entry in log.segments.active.txn_index.entries] == [0]


def test_an_aborted_transaction_is_indexed_before_its_marker_is_written(tmp_path: Path) -> None:
    faulty = FaultyFileSystem(LocalFileSystem())
    log = open_log(tmp_path, filesystem=faulty)
    write_transactional(log, 1, 0, b"aborted")
    faulty.rules.append(fail("write", "*.txnindex", error=errno.ENOSPC))
    size = (tmp_path / file_names.segment_file(0, file_names.LOG)).stat().st_size
    with pytest.raises(StorageError, match="txnindex"):
        end_transaction(log, 1, commit=False)
    assert (tmp_path / file_names.segment_file(0, file_names.LOG)).stat().st_size == size
    log = open_log(tmp_path)
    end_transaction(log, 1, commit=False)
    assert (log.log_end_offset, committed(log)) == (2, [])


WRITES: list[tuple[OperationName, str]] = [
    ("write", "*.log"), ("sync", "*.log"), ("write", "*.index"), ("write", "*.timeindex"), ("status", "*.log"),
    ("lock", "*"),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "path"), WRITES, ids=[" ".join(row) for row in WRITES])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_a_failed_operation_stops_the_writer_not_the_readers_and_reopening_recovers(
    tmp_path: Path, operation: OperationName, path: str, error: int
) -> None:
    faulty = FaultyFileSystem(LocalFileSystem())
    log = open_log(tmp_path, filesystem=faulty, index_interval_bytes=0)
    log.append(idempotent(b"a", sequence=0))
    rule = fail(operation, path, error=error)
    faulty.rules.append(rule)
    with pytest.raises(StorageError):
        log.append(idempotent(b"b", sequence=1))
    assert rule.struck == 1
    with pytest.raises(StorageError, match="open the log again"):
        log.append(idempotent(b"b", sequence=1))
    with pytest.raises(StorageError, match="open the log again"):
        log.sync()
    assert rows(log)[:1] == rows(open_reader(tmp_path))[:1] == [(0, b"a")]
    log.close()
    again = open_log(tmp_path, index_interval_bytes=0)
    again.append(idempotent(b"b", sequence=1))  # whether it got in or not: once
    assert rows(again) == [(0, b"a"), (1, b"b")]


def test_a_write_that_stops_half_way_is_cut_off(tmp_path: Path) -> None:
    for after in (0, 5, 20, 70):
        directory = tmp_path / str(after)
        faulty = FaultyFileSystem(LocalFileSystem())
        log = open_log(directory, filesystem=faulty)
        append(log, b"a")
        faulty.rules.append(tear("*.log", after=after))
        with pytest.raises(StorageError):
            append(log, b"b" * 100)
        assert rows(open_reader(directory)) == [(0, b"a")]
        again = open_log(directory)
        append(again, b"c")
        assert rows(again) == [(0, b"a"), (1, b"c")]


def test_an_interrupt_in_the_middle_of_an_append_stops_the_writer_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    append(log, b"a")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(log.producers, "apply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            append(log, b"b")
    with pytest.raises(StorageError, match=r"interrupted\); open the log again"):
        append(log, b"c")
    assert rows(open_log(tmp_path)) == [(0, b"a"), (1, b"b")]
