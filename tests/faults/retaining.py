"""Faults of retention, and of tiers, which do not exist here."""

from __future__ import annotations

from pathlib import Path

from tests.faults.fault import Fault, Mutation, by_itself, in_directory, on_disk
from tests.storage.maintenance import test_run_faults
from tests.storage.retention import test_apply, test_apply_crash, test_plan
from tests.storage.retention.test_plan import four, gone, limits, log, segment

GIB = 2**30


def sizes_beyond_two_gib_count(_: Path) -> None:
    """Three segments of 1.5 GiB each, of which 3 GiB are kept."""
    large = [segment(10 * n, 10 * n + 10, size=3 * GIB // 2) for n in range(3)]
    facts = log(*large)
    assert facts.size == 9 * GIB // 2
    assert gone(facts, limits(retention_bytes=3 * GIB)) == [0]
    assert gone(facts, limits(retention_bytes=3 * GIB + 1)) == []


def each_segment_is_counted_once(_: Path) -> None:
    assert gone(four(), limits(retention_bytes=301)) == []
    assert gone(four(), limits(retention_bytes=300)) == [0]


def an_interrupted_deletion_is_finished_by_the_next_run(_: Path) -> None:
    written = test_apply_crash.disk_with_days()
    test_apply_crash.test_a_run_after_a_crash_ends_where_the_first_would_have(written)


FAULTS = [
    Fault(
        14,
        "KAFKA-12964",
        "A delayed deletion after a truncation removes a new snapshot of the same name; producers are forgotten.",
        in_directory(test_apply.test_a_delayed_removal_leaves_new_files_of_the_same_name),
        (
            Mutation(
                "storage.segment.swap:carry_out",
                "filesystem.remove(file_names.join(directory, name))",
                'filesystem.remove(file_names.join(directory, name.removesuffix(".deleted")))',
            ),
        ),
    ),
    Fault(
        39,
        "KAFKA-7400",
        "Segments of a compacted topic that are below the log start offset are never deleted.",
        on_disk(test_run_faults.test_kafka_7400_segments_below_the_log_start_go_from_a_topic_that_is_only_compacted),
        (
            Mutation(
                "storage.retention.policies:kafka_policies",
                "if not config.delete:",
                "if not config.delete:\n        return ()\n    if False:",
            ),
        ),
    ),
    Fault(
        42,
        "KAFKA-3802",
        "A restart or a copy resets the times of files; data is kept, or deleted, at the wrong time.",
        by_itself(test_plan.test_the_time_of_a_file_means_nothing_where_records_have_one),
        (
            Mutation(
                "storage.retention.survey:SegmentFacts.timestamp_ms",
                "self.largest_timestamp_ms if self.largest_timestamp_ms >= 0 else self.modified_ms",
                "self.modified_ms",
            ),
        ),
    ),
    Fault(
        43,
        "KAFKA-20732",
        "Bytes that are both local and in the remote tier are counted twice; data is deleted that should stay.",
        in_directory(test_apply.test_size_counts_every_segment_once),
        (Mutation("storage.retention.survey:LogFacts.size", "sum(segment.size", "2 * sum(segment.size"),),
    ),
    Fault(
        44,
        "KAFKA-15479",
        "A segment is counted twice when a log exceeds its size limit; more is deleted than should be.",
        each_segment_is_counted_once,
        (
            Mutation(
                "storage.retention.policies:SizeRetention.judge", "situation.size - segment.size", "situation.size"
            ),
        ),
    ),
    Fault(
        45,
        "KAFKA-16511",
        "A deletion is interrupted; segments of the remote tier stay forever.",
        an_interrupted_deletion_is_finished_by_the_next_run,
        (
            Mutation("storage.retention.apply:retain", "remove_deleted_files(context)", "pass"),
            Mutation(
                "storage.recovery.loader:LogLoader._is_waiting", "return status is not None and", "return True or"
            ),
        ),
    ),
    Fault(
        46,
        "KAFKA-16890",
        "After an unclean election, segments of the remote tier overlap; the log start offset is wrong.",
        why_not="Of copies that overlap in a tier, the log's leader epochs choose "
        "(tests/storage/tiers/test_choosing.py). The log start offset is a single number, of the checkpoint.",
    ),
    Fault(
        47,
        "KAFKA-15401",
        "A corrupt index is copied to the remote tier, which then cannot be read.",
        why_not="An index entry is used only if a sound batch is at its position, in a tier too.",
    ),
    Fault(
        50,
        "KAFKA-5584",
        "Sizes and positions are counted in 32 bits (also KAFKA-6292, KAFKA-6030); retention stops, or "
        "deletes the wrong segments.",
        sizes_beyond_two_gib_count,
        (
            Mutation(
                "storage.retention.survey:LogFacts.size",
                "sum(segment.size for segment in self.segments)",
                "(sum(segment.size for segment in self.segments) + 2**31) % 2**32 - 2**31",
            ),
        ),
    ),
]
