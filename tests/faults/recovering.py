"""Faults of opening a log after a crash, and of the state after a crash."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import CorruptRecordError, StorageError
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.writing.log import Log
from tests.faults.fault import Fault, Mutation, in_directory, on_disk
from tests.storage.compaction.test_rounds import clean, write
from tests.storage.directory import test_log_directory, test_manager
from tests.storage.maintenance import test_run_faults
from tests.storage.segment import test_swap
from tests.storage.writing import test_log_appends, test_log_rolls
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import append, batch, config, open_log, rows

DIRECTORY = "/log"
SMALL = {"segment_index_bytes": 1000}


def power_is_lost(disk: MemoryFileSystem) -> MemoryFileSystem:
    return disk.crash(0, unsynced="lost")


def a_rolled_segment_outlives_a_power_cut(disk: MemoryFileSystem) -> None:
    log = open_log(DIRECTORY, filesystem=disk, **SMALL)
    append(log, b"a")
    log.roll()
    append(log, b"b")
    assert rows(open_log(DIRECTORY, filesystem=power_is_lost(disk), **SMALL)) == [(0, b"a"), (1, b"b")]


def producers_outlive_a_power_cut_though_their_records_are_deleted(disk: MemoryFileSystem) -> None:
    marks = KeptInMemory()
    log = open_log(DIRECTORY, marks, filesystem=disk, **SMALL)
    log.append(batch(b"a", producer_id=7, base_sequence=0))
    log.roll()
    append(log, b"b")
    log.roll()
    log.delete_records(1)
    state = log.producers.entries()
    left = power_is_lost(disk)
    left.remove(file_names.join(DIRECTORY, file_names.segment_file(0, file_names.LOG)))
    assert open_log(DIRECTORY, marks, filesystem=left, **SMALL).producers.entries() == state


def what_recovery_found_is_synced_before_it_counts_as_synced(disk: MemoryFileSystem) -> None:
    marks = KeptInMemory()
    killed = open_log(DIRECTORY, marks, filesystem=disk, flush_messages=10**6, **SMALL)
    append(killed, b"a")
    open_log(DIRECTORY, marks, filesystem=disk, **SMALL).checkpoint()
    assert rows(open_log(DIRECTORY, marks, filesystem=power_is_lost(disk), **SMALL)) == [(0, b"a")]


def opening_fails_half_way_and_moves_no_mark(directory: Path) -> None:
    """One of two partitions is damaged where it was synced."""
    root = str(directory / "logs")
    with LogManager.open(root, create=True) as manager:
        manager.create_topic("t", partitions=2)
        for partition in range(2):
            append(manager.open_log("t", partition), b"a", b"b")
            append(manager.open_log("t", partition), b"c")
    log = directory / "logs" / "t-1" / file_names.segment_file(0, file_names.LOG)
    log.write_bytes(log.read_bytes()[:-5])
    with LogManager.open(root) as manager:
        before = manager.marks(("t", 1))
        append(manager.open_log("t", 0), b"more")
        with pytest.raises(CorruptRecordError):
            manager.open_log("t", 1)
    with LogManager.open(root) as manager:
        assert manager.marks(("t", 1)) == before
        assert not (directory / "logs" / file_names.CLEAN_SHUTDOWN_FILE).exists()


def a_torn_file_beside_the_log_blocks_nothing(directory: Path, kind: str) -> None:
    marks = KeptInMemory()
    with open_log(directory, marks) as log:
        append(log, b"a")
        log.roll()
        append(log, b"b")
    for path in directory.glob(f"*{kind}"):
        path.write_bytes(b"\0" * 3)
    with open_log(directory, marks) as log:
        assert rows(log) == [(0, b"a"), (1, b"b")]
        assert [entry.epoch for entry in log.epochs.entries] == [0]


def epoch_zero_is_rebuilt(directory: Path) -> None:
    with open_log(directory) as log:
        append(log, b"a")
    (directory / file_names.LEADER_EPOCH_CHECKPOINT).unlink()
    with open_log(directory) as log:
        assert log.epochs.epoch_for(0) == 0


def a_swap_that_is_found_costs_no_snapshot(disk: MemoryFileSystem) -> None:
    """The first of several groups is being swapped in; the snapshots at the bases of the others stay."""
    marks = KeptInMemory()
    faulty = FaultyFileSystem(disk)
    settings = config(cleanup_policy="compact", segment_index_bytes=240, segment_bytes=160)
    log = Log.open("/p-0", settings, clock=disk.clock, filesystem=faulty, checkpoints=marks)
    write(log, *([(b"a", b"%d" % n)] for n in range(6)))
    faulty.rules.append(fail("rename", "*.log.swap", call=2, lasting=True))
    with pytest.raises(StorageError, match="Errno"):
        clean(log)
    assert [name for name in disk.list("/p-0") if name.endswith(file_names.SWAP)]
    Log.open("/p-0", settings, clock=disk.clock, filesystem=disk, checkpoints=marks)
    snapshots = [name for name in disk.list("/p-0") if name.endswith(file_names.SNAPSHOT)]
    assert snapshots == [file_names.segment_file(base, file_names.SNAPSHOT) for base in range(1, 7)]


def an_empty_active_segment_opens_whatever_it_lacks(directory: Path) -> None:
    kinds = (file_names.INDEX, file_names.TIME_INDEX, file_names.SNAPSHOT)
    for number, lacking in enumerate(each for n in range(1, 4) for each in combinations(kinds, n)):
        marks, at = KeptInMemory(), directory / str(number)
        log = open_log(at, marks)
        append(log, b"a")
        log.roll()
        log.close()
        for kind in lacking:
            (at / file_names.segment_file(1, kind)).unlink(missing_ok=True)
        for _ in range(2):
            with open_log(at, marks) as log:
                assert (rows(log), log.log_end_offset) == ([(0, b"a")], 1)
                assert {file_names.segment_file(1, kind) for kind in kinds[:2]} <= {path.name for path in at.iterdir()}


def a_snapshot_behind_what_a_crash_left_is_not_believed(directory: Path) -> None:
    """The last batch is torn, although the snapshot knows it: its producer sends it again, and it is written."""
    with open_log(directory) as log:
        for n in range(3):
            log.append(batch(b"%d" % n, producer_id=7, base_sequence=n))
        log.roll()
        log.append(batch(b"3", producer_id=7, base_sequence=3))
    (active,) = directory.glob(f"{3:020}.log")
    active.write_bytes(active.read_bytes()[:-1])
    with open_log(directory, KeptInMemory(recovery_point=3)) as log:
        assert not log.append(batch(b"3", producer_id=7, base_sequence=3)).duplicate
        assert rows(log) == [(n, b"%d" % n) for n in range(4)]


def recovery_begins_at_the_snapshot_below_the_damage(directory: Path) -> None:
    with open_log(directory, segment_bytes=250) as log:
        for n in range(9):
            log.append(batch(b"x" * 50, producer_id=1, base_sequence=n))
        bases = log.segments.base_offsets
    assert len(bases) > 3
    with open_log(directory, KeptInMemory(recovery_point=bases[-1]), segment_bytes=250):
        pass
    assert {int(path.name[:20]) for path in directory.glob("*.snapshot")} >= set(bases[1:])


def every_subset_of_suffixed_files_is_the_old_or_the_new_log(directory: Path) -> None:
    before = test_swap.made_before(directory / "before")
    suffixes = ("", file_names.CLEANED, file_names.SWAP)
    for number, states in enumerate(product(suffixes, repeat=3)):
        (directory / str(number)).mkdir()
        test_swap.test_whichever_new_files_exist_the_log_is_the_old_or_the_new_one(
            before, directory / str(number), states
        )


FAULTS = [
    Fault(
        1,
        "KAFKA-1112",
        "A broker that is killed while writing refuses to start.",
        in_directory(test_log_appends.test_a_write_that_stops_half_way_is_cut_off),
        (
            Mutation(
                "storage.recovery.segment_recovery:recover",
                "if segment.size < file_size and next_offset < synced_offset:",
                "if segment.size < file_size:",
            ),
        ),
    ),
    Fault(
        2,
        "KAFKA-3968",
        "A new segment's directory is not synced; after a power cut the whole segment is missing.",
        on_disk(a_rolled_segment_outlives_a_power_cut),
        (
            Mutation(
                "storage.writing.rolling:Rolling._begin_segment",
                "context.filesystem.sync_directory(context.directory)",
                "pass",
            ),
        ),
    ),
    Fault(
        3,
        "KAFKA-9892",
        "A producer snapshot is written but not synced; after a power cut an older state is used, and "
        "batches are accepted twice.",
        on_disk(producers_outlive_a_power_cut_though_their_records_are_deleted),
        (Mutation("storage.writing.rolling:Rolling._roll", "sync=True", "sync=False"),),
    ),
    Fault(
        4,
        "KAFKA-10471",
        "A crash happens while logs are loaded; the next start assumes a clean shutdown.",
        in_directory(test_manager.test_the_first_writer_removes_a_brokers_clean_shutdown_mark),
        (Mutation("storage.directory.log_directory:LogDirectory._take_broker_lock", "is not None", "is None"),),
    ),
    Fault(
        5,
        "KAFKA-15375",
        "A start fails half way but reports a clean shutdown; the next start skips recovery.",
        in_directory(opening_fails_half_way_and_moves_no_mark),
        (
            Mutation(
                "storage.writing.writable_log:WritableLog._load_locked",
                "    finally:\n",
                "    finally:\n        self.checkpoints.write(self.checkpoints.read()._replace(recovery_point=0))\n",
            ),
        ),
    ),
    Fault(
        6,
        "KAFKA-10101",
        "Recovery advances the recovery point before the recovered data is synced; a second crash loses that data.",
        on_disk(what_recovery_found_is_synced_before_it_counts_as_synced),
        (
            Mutation(
                "storage.recovery.loader:LogLoader._bring_into_order", "self._sync(segments, log_end_offset)", "pass"
            ),
        ),
    ),
    Fault(
        7,
        "KAFKA-16541",
        "The checkpoint of leader epochs is no longer synced; torn by a power cut, it stops the broker.",
        in_directory(a_torn_file_beside_the_log_blocks_nothing, file_names.LEADER_EPOCH_CHECKPOINT),
        (
            Mutation(
                "storage.recovery.view:LogViewer.epoch_entries",
                "except CorruptionError as error",
                "except ZeroDivisionError as error",
            ),
        ),
    ),
    Fault(
        8,
        "KAFKA-10432",
        "Leader epoch 0 is skipped when epochs are rebuilt; logs are truncated at wrong offsets.",
        in_directory(epoch_zero_is_rebuilt),
        (Mutation("storage.recovery.segment_recovery:assign_epochs", "else -1", "else 0"),),
    ),
    Fault(
        9,
        "KAFKA-12520",
        "A `.swap` file found at the start makes it discard the producer snapshots and read everything again.",
        on_disk(a_swap_that_is_found_costs_no_snapshot),
        (
            Mutation(
                "storage.recovery.loader:LogLoader._load",
                "carry_out(due, self",
                "carry_out(replace(due, deleted=[*due.deleted, *(n for n in due.kept if 'snap' in n)]), self",
            ),
        ),
    ),
    Fault(
        13,
        "KAFKA-7401",
        "A `.swap` file wholly below the log start offset prevents every start.",
        on_disk(test_run_faults.test_kafka_7401_a_swap_below_the_log_start_does_not_hinder_opening),
        (
            Mutation(
                "storage.recovery.view:LogViewer._plan",
                "swap_plan(self.context, listing)",
                "(plan := swap_plan(self.context, listing), "
                "[1 // (base >= self.log_start_offset) for base, swap in plan.segment_suffixes().items() if swap])[0]",
            ),
        ),
    ),
    Fault(
        29,
        "KAFKA-6388",
        "A roll finds the empty segment that a crash left under its name, and the writer is stuck.",
        in_directory(test_log_rolls.test_an_empty_log_file_named_by_the_log_end_counts_as_an_interrupted_roll),
        (Mutation("storage.reading.view:LogView.is_rolled", "is not None", "is None"),),
    ),
    Fault(
        31,
        "KAFKA-13603",
        "The empty active segment lacks its index; the start fails, or creates it again and again.",
        in_directory(an_empty_active_segment_opens_whatever_it_lacks),
        (
            Mutation(
                "storage.recovery.loader:LogLoader._to_recover",
                "lacks_an_index = not",
                'self.context.filesystem.open(segment.path(file_names.INDEX), "read").close()\n'
                "        lacks_an_index = False and not",
            ),
        ),
    ),
    Fault(
        35,
        "KAFKA-5249",
        "While segments are recovered, a snapshot of the wrong offset is used; retries are detected wrongly.",
        in_directory(a_snapshot_behind_what_a_crash_left_is_not_believed),
        (
            Mutation(
                "storage.recovery.producer_snapshots:ProducerLoader._from_snapshot",
                "if self.log_start_offset < offset <= end_offset:",
                "if self.log_start_offset < offset:",
            ),
        ),
    ),
    Fault(
        36,
        "KAFKA-5829",
        "Snapshots that recovery still needs are removed; the whole log is read again.",
        in_directory(recovery_begins_at_the_snapshot_below_the_damage),
        (
            Mutation(
                "storage.recovery.producer_snapshots:stray_snapshots",
                "bases = set(segment_bases)",
                "bases = {max(segment_bases)}",
            ),
        ),
    ),
    Fault(
        55,
        "LIKAFKA-47870",
        "A power outage leaves torn checkpoint files; the cluster cannot start.",
        in_directory(test_log_directory.test_a_damaged_checkpoint_costs_a_recovery_and_no_record),
        (
            Mutation(
                "storage.directory.log_directory:LogDirectory.offsets",
                "except CorruptionError as error",
                "except ZeroDivisionError as error",
            ),
        ),
    ),
    Fault(
        56,
        "KAFKA-6264 (b)",
        "An index is `.cleaned`, but its log is missing; the wrong files are swapped in.",
        in_directory(every_subset_of_suffixed_files_is_the_old_or_the_new_log),
        (
            Mutation(
                "storage.segment.swap:plan_swaps",
                "if first_cleaned is None or file_names.offset_in(name) < first_cleaned",
                "if True",
            ),
        ),
    ),
]
