"""Faults of compaction."""

from __future__ import annotations

from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.files import file_names
from tests.faults.fault import Fault, Mutation, on_disk
from tests.storage.compaction import test_rounds
from tests.storage.compaction.test_rounds import a_log, clean, compacted_topic, end, pairs, transactional, write
from tests.storage.maintenance import test_run_faults
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import records


def the_last_batch_tells_how_far_the_log_reaches(disk: MemoryFileSystem) -> None:
    """It was a tombstone, and its time is over."""
    with a_log(disk, compacted_topic(delete_retention_ms=0)) as log:
        write(log, [(b"a", b"1")], [(b"b", None)])
        clean(log)
        assert isinstance(disk.clock, ManualClock)
        disk.clock.advance(1)
        clean(log)
        assert pairs(log) == [(b"a", b"1")]
        *_, last = (window.headers for segment in log.segments for window in segment.batches())
        assert last.table["last_offset"][-1] == log.log_end_offset - 1


def the_log_alone_knows_what_a_producer_wrote_last(disk: MemoryFileSystem) -> None:
    """All its records were compacted away, and the snapshots are lost."""
    fields = v2.BatchFields(producer_id=7, producer_epoch=0, base_sequence=0)
    with a_log(disk) as log:
        write(log, [(b"a", b"1"), (b"b", b"1")], fields=fields)
        write(log, [(b"a", b"2"), (b"b", b"2")])
        clean(log)
    for name in [name for name in disk.list("/p-0") if name.endswith(file_names.SNAPSHOT)]:
        disk.remove(f"/p-0/{name}")
    with a_log(disk) as log:
        assert log.append(v2.encode(records([b"1", b"1"], keys=[b"a", b"b"]), fields)).duplicate
        assert pairs(log) == [(b"a", b"2"), (b"b", b"2")]


def a_dirty_part_without_a_record_that_counts_is_passed(disk: MemoryFileSystem) -> None:
    with a_log(disk) as log:
        write(log, [(b"a", b"1")])
        write(log, [(b"a", b"aborted")], fields=transactional(1))
        end(log, 1, commit=False)
        log.roll()
        assert clean(log, 1) == 3


def compressed_batches_that_lose_nothing_keep_their_bytes(disk: MemoryFileSystem) -> None:
    """Compressed as no writer here does it."""
    value = b"".join(b"%d" % (n * n) for n in range(300))
    with a_log(disk) as log:
        write(log, [(b"a", value)], [(b"b", value)], fields=v2.BatchFields(codec=Codec.GZIP, level=1))
        before = [bytes(window.buffer) for segment in log.segments for window in segment.batches()]
        clean(log)
        assert [bytes(w.buffer) for segment in log.segments for w in segment.batches()] == [b"".join(before)]


_KEPT = "storage.compaction.filter:Filter._kept"
_NEEDED = "storage.compaction.filter:Filter._is_needed"

FAULTS = [
    Fault(
        10,
        "KAFKA-6264",
        "A compacted segment spans more than 2^31 offsets, and its new files are renamed in an order "
        "that a crash leaves unreadable.",
        on_disk(
            test_run_faults.test_kafka_6264_records_more_than_an_int_apart_are_compacted_into_segments_that_can_hold_them
        ),
        (
            Mutation("storage.compaction.dirty:group_segments", "<= INT32_MAX", "<= 2**62"),
            Mutation("storage.compaction.output:Output._fitting", "> INT32_MAX\n    beyond", "> 2**62\n    beyond"),
        ),
    ),
    Fault(
        11,
        "KAFKA-5413",
        "A gap of more than 2^31 offsets within one group of segments stops the cleaner.",
        on_disk(test_rounds.test_kafka_5413_a_group_spans_no_more_offsets_than_a_segment_can),
        (
            Mutation("storage.compaction.dirty:group_segments", "<= INT32_MAX", "<= 2**62"),
            Mutation("storage.compaction.output:Output._fitting", "> INT32_MAX\n    beyond", "> 2**62\n    beyond"),
        ),
    ),
    Fault(
        12,
        "KAFKA-20036",
        "Compressed again, the output no longer fits one segment; the entries of aborted transactions "
        "move to the wrong one, and aborted records reappear.",
        on_disk(test_run_faults.test_kafka_20036_aborted_data_stays_away_where_the_output_needs_several_segments),
        (
            Mutation(
                "storage.compaction.output:Output.append",
                "while entries and entries[0].last_offset < self._next_offset:",
                "while entries:",
            ),
        ),
    ),
    Fault(
        16,
        "KAFKA-8351",
        "A transaction is spread over several groups of segments; its marker is removed with the first group.",
        on_disk(
            test_run_faults.test_kafka_8351_a_marker_stays_as_long_as_data_of_its_transaction_in_another_group,
            commit=False,
        ),
        (Mutation("storage.compaction.rounds:_Round.run", "rules, transactions)", "rules, Transactions(self.log))"),),
    ),
    Fault(
        17,
        "KAFKA-13727",
        "A round that ends early forgets which transactions were aborted; their records reappear.",
        on_disk(test_run_faults.test_kafka_13727_a_round_that_ends_early_brings_no_aborted_record_back, 3),
        (
            Mutation(
                "storage.compaction.markers:Transactions.discardable",
                "found |= self._log.hidden_rows(segment, window, markers)",
                "pass",
            ),
        ),
    ),
    Fault(
        18,
        "KAFKA-14055",
        "A record whose key equals that of a marker supersedes the marker.",
        on_disk(test_rounds.test_kafka_14055_a_user_key_like_a_markers_key_deletes_no_marker),
        (Mutation(_KEPT, " | np.repeat(headers.is_control, counts)", ""),),
    ),
    Fault(
        19,
        "KAFKA-17076",
        "The last batch of the cleaned part is dropped, and the log end goes backwards.",
        on_disk(the_last_batch_tells_how_far_the_log_reaches),
        (Mutation(_NEEDED, "is_last & (table", "~is_last & is_last & (table"),),
    ),
    Fault(
        20,
        "KAFKA-13194",
        "Records of an open transaction are compacted.",
        on_disk(test_rounds.test_kafka_13194_nothing_undecided_is_cleaned),
        (Mutation("storage.compaction.dirty:_bounds", "yield log.last_stable_offset,", "yield log.log_end_offset,"),),
    ),
    Fault(
        21,
        "KAFKA-8335",
        "Every batch of a producer that was ever emptied is kept; the log grows forever.",
        on_disk(test_run_faults.test_kafka_8335_emptied_batches_of_a_producer_do_not_pile_up),
        (
            Mutation(
                _NEEDED,
                '(table["last_offset"] == state.last_offset)',
                '(table["last_offset"] <= state.last_offset)',
            ),
        ),
    ),
    Fault(
        22,
        "KAFKA-5490",
        "The last batch of a producer is removed with its records; a retry is then written twice.",
        on_disk(the_log_alone_knows_what_a_producer_wrote_last),
        (Mutation(_NEEDED, '(table["last_offset"] == state.last_offset)', "np.False_"),),
    ),
    Fault(
        23,
        "KAFKA-7385",
        "Only empty batches remain; the cleaner takes the largest offset of an empty set.",
        on_disk(test_rounds.test_kafka_7385_a_segment_of_empty_batches_only_is_read_and_cleaned_again),
        (
            Mutation(
                "storage.compaction.output:Output.append",
                "fitting.next_offset",
                'int(fitting.table["last_offset"][fitting.table["count"] > 0].max()) + 1',
            ),
        ),
    ),
    Fault(
        24,
        "KAFKA-8764",
        "The dirty part begins with a gap; the cleaner ends every round where it began.",
        on_disk(a_dirty_part_without_a_record_that_counts_is_passed),
        (
            Mutation("storage.compaction.rounds:_Round._note_read", "if len(last_offsets) and", "if False and"),
            Mutation(
                "storage.compaction.rounds:_Round._build_map",
                "(end if following is None else following.base_offset) - 1",
                "self.offset_map.latest_offset",
            ),
        ),
    ),
    Fault(
        25,
        "KAFKA-9826",
        "The first dirty offset is outside the log; the cleaner keeps using it forever.",
        on_disk(test_rounds.test_kafka_9826_a_checkpoint_outside_the_log_makes_all_of_it_dirty, 99),
        (Mutation("storage.compaction.dirty:cleanable", " or not start <= checkpointed <= log.log_end_offset", ""),),
    ),
    Fault(
        26,
        "KAFKA-6834",
        "A batch larger than the read buffer stops the cleaner.",
        on_disk(test_rounds.test_kafka_6834_a_batch_larger_than_the_buffer_is_cleaned),
        (
            Mutation(
                "storage.segment.walk:SegmentWalk.walk",
                "(wanted := max(wanted + 1, size_at_start(buffer))) > end - position",
                "not scan.end",
            ),
        ),
    ),
    Fault(
        27,
        "KAFKA-6854",
        "A batch in the middle of a buffer with transactions is removed; what follows is copied wrongly.",
        on_disk(
            test_run_faults.test_kafka_6854_a_batch_that_goes_between_others_of_one_buffer_takes_none_of_them_along
        ),
        (
            Mutation(
                "storage.compaction.rewriting:written",
                "(np.diff(fates[kept]) != 0) | (starts[kept][1:] != (starts + sizes)[kept][:-1])",
                "np.diff(fates[kept]) != 0",
            ),
        ),
    ),
    Fault(
        28,
        "KAFKA-4298",
        "Compressed batches that lose no record are rewritten, and wrongly.",
        on_disk(compressed_batches_that_lose_nothing_keep_their_bytes),
        (Mutation("storage.compaction.filter:Filter._decide", "= Fate.COPIED", "= Fate.REBUILT"),),
    ),
    Fault(
        38,
        "KAFKA-9133",
        "The log start offset is above the base offset of the active segment; the cleaner throws, for all logs.",
        on_disk(test_rounds.test_kafka_9133_a_log_start_in_the_active_segment_leaves_nothing_to_clean),
        (
            Mutation(
                "storage.compaction.dirty:Cleanable.is_dirty",
                "self.first_uncleanable_offset > self.first_dirty_offset and self.dirty_bytes > 0",
                "self.first_uncleanable_offset != self.first_dirty_offset",
            ),
        ),
    ),
    Fault(
        40,
        "KAFKA-12840",
        "Compaction is removed from the policy while it runs; half of a cleaned log is swapped in.",
        on_disk(test_rounds.test_kafka_12840_a_policy_that_changes_meanwhile_leaves_the_log_as_it_was),
        (Mutation("storage.compaction.rounds:_Round._clean_group", "self.check()", "pass"),),
    ),
    Fault(
        41,
        "KAFKA-7322",
        "Retention deletes segments while the cleaner works on them.",
        on_disk(test_rounds.test_kafka_7322_two_maintenance_jobs_never_work_on_one_log),
        (
            Mutation(
                "storage.writing.writable_log:WritableLog.maintaining",
                "with take_maintenance_lock(self.context):",
                "if True:",
            ),
        ),
    ),
    Fault(
        53,
        "KAFKA-5431",
        "Preallocated segments keep their zeros when they are cleaned, and cannot be read.",
        on_disk(test_rounds.test_kafka_5431_preallocated_segments_end_with_their_last_batch),
        (Mutation("storage.segment.writer:LogSegment.trim", "self._file.truncate(self.size)", "pass"),),
    ),
]
