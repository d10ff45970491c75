"""Directories of a real broker, read by this engine: the results must equal those of Kafka's own consumer."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage.errors import CorruptionError
from pyspark_commitlog.storage.format.internal import internal_topics
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.reader import LogReader
from tests.support.kafka import broker_dirs
from tests.support.kafka.broker_dirs import Row

STAGES = (
    "codecs/final",
    "groups/final",
    "groups/cleaned",
    "idempotent/final",
    "leader-epochs/final",
    "plain/final",
    "recovery-crash/recovered",
    "rolls/final",
    "rolls/overflow-after",
    "times/final",
    "transactions/final",
    "transactions/restarted",
    "compaction/before-1",
    "compaction/after-1",
    "compaction/before-2",
    "compaction/after-2",
    "compaction/before-3",
    "compaction/after-3",
    "compaction-small-buffers/before-1",
    "compaction-small-buffers/after-1",
    "compaction-small-buffers/before-2",
    "compaction-small-buffers/after-2",
    "compaction-small-buffers/before-3",
    "compaction-small-buffers/after-3",
    "retention/before",
    "retention/deleting-live",
    "retention/stopped",
    "retention/restarted",
    "recovery-damage/before-damage",
    "recovery-damage/clean-marker-after",
    "recovery-damage/clean-marker-appended",
    "recovery-damage/no-marker-after",
    "recovery-damage/no-marker-rp0-after",
    "recovery-fatal/before-damage",
    "recovery-fatal/empty-partition-after",
    "recovery-fatal/log-start-beyond-after",
    "recovery-fatal/wrong-topic-id-after",
    "4-codecs/final",
    "4-compaction-small-buffers/before-1",
    "4-compaction-small-buffers/after-1",
    "4-compaction-small-buffers/before-2",
    "4-compaction-small-buffers/after-2",
    "4-compaction-small-buffers/before-3",
    "4-compaction-small-buffers/after-3",
    "4-new-groups/final",
    "4-plain/final",
    "4-transactions-v2/final",
    "4-transactions-v2/restarted",
)

# Where this engine differs from Kafka, and must (docs/compatibility_details.md): the aspects by stage and partition.
COMMITTED, ALL = "read_committed", "read_uncommitted"
ABORTED_SHOWN = {COMMITTED}  # Kafka returned records of aborted transactions, for lack of a correct index
DAMAGE_TOLD = {ALL, COMMITTED}  # both refuse, or Kafka never reads what it acknowledged; we name path and position
GAP_TOLD = {ALL, COMMITTED}  # Kafka skipped offsets that are in no segment
NOT_OPENED = {"opened"}
DIFFERENT: dict[tuple[str, str], set[str]] = {
    ("recovery-damage/clean-marker-after", "d-bad-active-index-0"): ABORTED_SHOWN,
    ("recovery-damage/clean-marker-after", "d-bad-index-0"): ABORTED_SHOWN,
    ("recovery-damage/clean-marker-after", "d-flip-last-0"): DAMAGE_TOLD,
    ("recovery-damage/clean-marker-after", "d-flip-middle-0"): DAMAGE_TOLD,
    ("recovery-damage/clean-marker-after", "d-missing-middle-0"): GAP_TOLD,
    ("recovery-damage/clean-marker-after", "d-no-txnindex-0"): ABORTED_SHOWN,
    ("recovery-damage/clean-marker-after", "d-overflow-0"): ABORTED_SHOWN,
    ("recovery-damage/clean-marker-after", "d-stray-swap-no-txnindex-0"): ABORTED_SHOWN,
    ("recovery-damage/clean-marker-appended", "d-bad-active-index-0"): ABORTED_SHOWN,
    ("recovery-damage/clean-marker-appended", "d-bad-index-0"): ABORTED_SHOWN,
    ("recovery-damage/clean-marker-appended", "d-extra-garbage-0"): DAMAGE_TOLD,
    ("recovery-damage/clean-marker-appended", "d-flip-last-0"): DAMAGE_TOLD,
    ("recovery-damage/clean-marker-appended", "d-flip-middle-0"): DAMAGE_TOLD,
    ("recovery-damage/clean-marker-appended", "d-missing-middle-0"): GAP_TOLD,
    ("recovery-damage/clean-marker-appended", "d-no-txnindex-0"): ABORTED_SHOWN,
    ("recovery-damage/clean-marker-appended", "d-overflow-0"): ABORTED_SHOWN,
    ("recovery-damage/clean-marker-appended", "d-stray-swap-no-txnindex-0"): ABORTED_SHOWN,
    ("recovery-damage/clean-marker-appended", "d-torn-0"): DAMAGE_TOLD,
    ("recovery-damage/clean-marker-appended", "d-torn-header-0"): DAMAGE_TOLD,
    ("recovery-damage/no-marker-after", "d-bad-index-0"): ABORTED_SHOWN,
    ("recovery-damage/no-marker-after", "d-flip-middle-0"): DAMAGE_TOLD,
    ("recovery-damage/no-marker-after", "d-missing-middle-0"): GAP_TOLD,
    ("recovery-damage/no-marker-after", "d-no-txnindex-0"): ABORTED_SHOWN,
    ("recovery-damage/no-marker-after", "d-stray-swap-no-txnindex-0"): ABORTED_SHOWN,
    ("recovery-damage/no-marker-rp0-after", "d-missing-middle-0"): GAP_TOLD,
}


def differing(reader: LogReader, kafka: dict[str, Any]) -> Iterator[str]:
    """The aspects in which a partition differs from what Kafka's consumer found."""
    for isolation in Isolation:
        found = kafka[isolation.value]
        if not same_records(reader, isolation, found):
            yield isolation.value
        if (reader.log_start_offset, reader.end_offset(isolation)) != (found["beginningOffset"], found["endOffset"]):
            yield f"{isolation.value} bounds"
        if not found.get("error") and reader.end_offset(isolation) != found["finalPosition"]:
            yield f"{isolation.value} final position"
        if wrong_times(reader, isolation, kafka):
            yield f"{isolation.value} times"
    if is_wrong_largest(reader, kafka):
        yield "max_timestamp"
    if (reader.epochs.latest.epoch if reader.epochs.latest else None) != kafka["latestLeaderEpoch"]:
        yield "leader epoch"


def same_records(reader: LogReader, isolation: Isolation, kafka: dict[str, Any]) -> bool:
    try:
        return broker_dirs.rows(reader, isolation) == broker_dirs.expected_rows(kafka["records"])
    except CorruptionError:
        return False


def wrong_times(reader: LogReader, isolation: Isolation, kafka: dict[str, Any]) -> list[tuple[object, ...]]:
    """Lookups by time that do not return the first matching record that a consumer of the isolation level sees.

    Kafka's answer is that record too, except where it gives up in a segment that compaction emptied, which has the time
    of its file, or finds a transaction marker or a record of an aborted transaction, which no consumer sees.
    """
    seen = seen_times(reader, isolation, kafka)
    wrong: list[tuple[object, ...]] = []
    for asked, *kafkas in kafka[isolation.value]["offsetsForTimes"]:
        with refused_as_reading_is(reader, isolation):
            found = reader.offset_for_timestamp(asked, isolation)
            ours = (found.offset, found.timestamp) if found else (None, None)
            expected = next((each for each in seen.items() if each[1] >= asked), (None, None))
            if ours != expected or (ours != tuple(kafkas) and kafkas[0] in seen):
                wrong.append((asked, ours, expected, kafkas))
    return wrong


def is_wrong_largest(reader: LogReader, kafka: dict[str, Any]) -> bool:
    """Whether ``-3`` is not the first of the newest records; Kafka's newest batch may have none that a consumer sees.

    Not checked for an unreadable log.
    """
    try:
        seen = {row[0]: row[1] for row in broker_dirs.rows(reader, Isolation.READ_UNCOMMITTED)}
    except CorruptionError:
        return False
    found, newest = reader.offset_of_max_timestamp(), max(seen.values(), default=-1)
    ours = list(found[:2]) if found else [-1, -1]
    expected = next(([offset, time] for offset, time in seen.items() if time == newest >= 0), [-1, -1])
    return ours != expected or (ours != kafka["maxTimestamp"] and kafka["maxTimestamp"][0] in seen)


def seen_times(reader: LogReader, isolation: Isolation, kafka: dict[str, Any]) -> dict[int, int]:
    """The time of each record, by offset; for an unreadable log, of those that Kafka could read."""
    try:
        return {row[0]: row[1] for row in broker_dirs.rows(reader, isolation)}
    except CorruptionError:
        return {offset: timestamp for offset, timestamp, *_ in kafka[isolation.value]["records"]}


@contextmanager
def refused_as_reading_is(reader: LogReader, isolation: Isolation) -> Iterator[None]:
    """A lookup may be refused if reading is refused."""
    try:
        yield
    except CorruptionError:
        with pytest.raises(CorruptionError):
            broker_dirs.rows(reader, isolation)


def fingerprint(folder: Path) -> dict[str, object]:
    return {
        str(path): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).digest() if path.is_file() else None)
        for path in sorted([folder, *folder.rglob("*")])
    }


@pytest.mark.parametrize("stage", STAGES)
def test_a_brokers_directory_reads_as_its_consumer_read_it_and_is_not_changed(stage: str) -> None:
    directory = broker_dirs.stage(stage) / "log"
    before = fingerprint(directory)
    found: dict[tuple[str, str], set[str]] = {}
    with broker_dirs.open_manager(directory) as manager:
        for name, kafka in broker_dirs.consumed(stage).items():
            try:
                with manager.open_reader(*broker_dirs.topic_partition(name)) as reader:
                    found[stage, name] = set(differing(reader, kafka))
            except CorruptionError:
                found[stage, name] = NOT_OPENED
    expected = {key: different for key, different in DIFFERENT.items() if key[0] == stage}
    assert {key: different for key, different in found.items() if different} == expected
    assert fingerprint(directory) == before


def test_every_stage_that_a_consumer_read_is_tested() -> None:
    found = {
        f"{name}/{path.parent.name}"
        for name in broker_dirs.SCENARIOS
        for path in broker_dirs.scenario(name).glob("*/consumed.json")
    }
    assert found == set(STAGES)


@pytest.mark.parametrize("stage", ["recovery-crash/unclean", "rolls/overflow-before", "recovery-damage/damaged"])
def test_a_directory_never_recovered_is_read_up_to_its_last_complete_batch(stage: str) -> None:
    """What is in the directory before a broker repairs it is what the broker returns afterwards.

    Offsets of a last batch beyond the end of a cleanly closed log are reported: the test data has such an overflow.
    """
    mended = {
        "recovery-crash/unclean": "recovery-crash/recovered",
        "rolls/overflow-before": "rolls/overflow-after",
        "recovery-damage/damaged": "recovery-damage/no-marker-rp0-after",
    }[stage]
    told = {}
    with broker_dirs.open_manager(broker_dirs.stage(stage) / "log") as manager:
        for name, kafka in broker_dirs.consumed(mended).items():
            topic, partition = broker_dirs.topic_partition(name)
            if topic.startswith("__"):
                continue
            expected = broker_dirs.expected_rows(kafka["read_uncommitted"]["records"])
            try:
                found = broker_dirs.rows(manager.open_reader(topic, partition))
            except CorruptionError as error:
                told[name] = type(error).__name__
                continue
            assert found == expected[: len(found)], name
            assert len(found) == len(expected), name
    damaged = {
        "d-overflow-0": "CorruptRecordError",
        **dict.fromkeys(["d-empty-active-0", "d-flip-last-0", "d-flip-middle-0"], "CorruptRecordError"),
        **dict.fromkeys(["d-torn-0", "d-torn-header-0"], "CorruptRecordError"),
        "d-missing-middle-0": "MissingSegmentError",
    }
    overflowed = {"roll-overflow-0": "CorruptRecordError"}
    assert told == {"recovery-damage/damaged": damaged, "rolls/overflow-before": overflowed}.get(stage, {})


@pytest.mark.parametrize("stage", ["groups/final", "groups/cleaned"])
@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_the_records_of_groups_and_transactions_decode(stage: str, topic: str) -> None:
    kinds: Counter[str] = Counter()
    with broker_dirs.open_manager(broker_dirs.stage(stage) / "log") as manager:
        for partition in manager.topic(topic).partitions:
            for row in broker_dirs.rows(manager.open_reader(topic, partition)):
                kinds[type(decoded(topic, row[3] or b"", row[4])).__name__] += 1
    expected = {"OffsetCommitValue", "GroupMetadataValue"} if topic == "__consumer_offsets" else {"TransactionLogValue"}
    assert expected <= kinds.keys() <= {*expected, "NoneType"}


def decoded(topic: str, key: bytes, value: bytes | None) -> object:
    """The value of a record of an internal topic; None for a tombstone."""
    if topic == "__transaction_state":
        assert isinstance(internal_topics.decode_transaction_key(key), internal_topics.TransactionLogKey)
        return None if value is None else internal_topics.TransactionLogValue.decode(value)
    is_offset = isinstance(internal_topics.decode_group_key(key), internal_topics.OffsetCommitKey)
    if value is None:
        return None
    return (
        internal_topics.OffsetCommitValue.decode(value)
        if is_offset
        else internal_topics.GroupMetadataValue.decode(value)
    )


def test_the_metadata_log_of_a_broker_is_readable_beside_its_partitions() -> None:
    directory = broker_dirs.stage("plain/final") / "log" / "__cluster_metadata-0"
    found: list[Row] = broker_dirs.rows(LogReader.open(str(directory)))
    assert len(found) > 10
    assert [row[0] for row in found] == sorted(row[0] for row in found)
