"""A real broker and this engine use each other's directories, in turn, and find the same content.

One broker lives through all stages; each stage is a fixture that keeps what was seen in it, and the tests compare that,
in any order:

1. ``mounted``: the broker starts on a directory that this engine closed cleanly.
2. ``shared``: while it runs, its clients append and this engine reads.
3. ``returned``: it stops; this engine appends in place, and holds the directory; then the broker starts again, after an
   unclean stop, also on directories of killed writers.

(Longer than modules should be here: this is one life of one broker, and a second broker would cost more.)
"""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.directory.protected_topics import COORDINATOR_TOPICS
from pyspark_commitlog.storage.dump.one_file import dump_file
from pyspark_commitlog.storage.dump.options import DumpFindings, DumpOptions
from pyspark_commitlog.storage.errors import CorruptionError, LogDirLockedError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.checksums import crc32c
from pyspark_commitlog.storage.format.constants import TimestampType
from pyspark_commitlog.storage.format.internal.internal_topics import GROUP_METADATA_TOPIC
from pyspark_commitlog.storage.format.tables import Records
from pyspark_commitlog.storage.groups.offsets import CommittedOffset, GroupOffsets
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.reader import LogReader
from tests.support.kafka.admin import KnownProducer, ListedOffset, committed_offsets, known_producers, list_offsets
from tests.support.kafka.broker import (
    Action,
    Broker,
    BrokerError,
    Consumed,
    FileDump,
    ProducerRecord,
    SendOffsets,
    Step,
    dump_log,
    java_consume,
    java_produce,
    mount,
    move_in,
)
from tests.support.kafka.shapes import FIRST_PRODUCER_ID, SHAPES, Rows, Transactions, to_records, write_shapes

pytestmark = pytest.mark.only_all  # test_rounds_broker.py has a broker open what this engine wrote too
KILLED = "killed-"  # before the names of topics whose writers never closed them
CLOSED_TOPICS = tuple(SHAPES)
KILLED_TOPICS = tuple(KILLED + name for name in SHAPES)
TORN_TOPIC = KILLED + "untimed"  # its writer was killed within a batch
WITH_MARKERS = ("transactions", "open-transaction", "truncated")  # which are younger than the records that follow
APPENDED_TOPICS = ("uneven", "idempotent", "transactions")  # by the broker's clients and, later, by this engine
GROUPS = {
    "readers": {("codecs", 0): CommittedOffset(17, "half way"), ("uneven", 2): CommittedOffset(0)},
    "größe": {("many", 0): CommittedOffset(2**40, "x" * 1000)},
}
Reads = Mapping[tuple[str, Isolation], list[Consumed]]  # by topic and isolation level
TIME_TYPES = {
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


# This engine's results


def partitions_of(directory: Path, topic: str) -> Iterator[LogReader]:
    manager = LogManager.open(str(directory))
    for partition in manager.topic(topic).partitions:
        with manager.open_reader(topic, partition) as reader:
            yield reader


def engine_reads(directory: Path, topic: str, isolation: Isolation) -> list[Consumed]:
    """Like :func:`java_consume`, but without leader epochs, which this engine's columns lack."""
    return rows_of(partitions_of(directory, topic), isolation)


def rows_of(partitions: Iterable[LogReader], isolation: Isolation) -> list[Consumed]:
    return [
        row
        for partition, reader in enumerate(partitions)
        for records in reader.records(reader.log_start_offset, reader.log_end_offset, isolation=isolation)
        for row in consumed(partition, records)
    ]


def consumed(partition: int, records: Records) -> Iterator[Consumed]:
    assert records.keys is not None
    assert records.values is not None
    headers: list[tuple[tuple[str, bytes | None], ...]] = [()] * len(records)
    if records.headers is not None:
        names = [(name or b"").decode() for name in records.headers.keys.to_list()]
        pairs = list(zip(names, records.headers.values.to_list(), strict=True))
        bounds = records.headers.offsets.tolist()
        headers = [tuple(pairs[first:end]) for first, end in itertools.pairwise(bounds)]
    types = [TIME_TYPES[TimestampType(number)] for number in records.timestamp_types.tolist()]
    columns = (records.offsets.tolist(), records.timestamps.tolist(), types)
    for row in zip(*columns, records.keys.to_list(), records.values.to_list(), headers, strict=True):
        yield Consumed(partition, *row, leader_epoch=None)  # type: ignore[misc]  # six columns, six fields


def engine_lists(directory: Path, topic: str, times: list[int]) -> list[ListedOffset]:
    """Like :func:`list_offsets`."""
    found = []
    for partition, reader in enumerate(partitions_of(directory, topic)):
        for time_ms in times:
            hit = reader.offset_for_timestamp(time_ms, Isolation.READ_UNCOMMITTED)
            found.append(
                ListedOffset(partition, time_ms, -1, -1, None)
                if hit is None
                else ListedOffset(partition, time_ms, hit.offset, hit.timestamp, hit.leader_epoch)
            )
    return found


def check_times(kafkas: Iterable[ListedOffset], ours: Iterable[ListedOffset], rows: Iterable[Consumed]) -> int:
    """Our results are the first matching records that a Java consumer reads; so are the broker's, or it found a marker.

    Returns the number of markers that it found.
    """
    seen = {(row.partition, row.offset): row.timestamp_ms for row in rows}
    markers = 0
    for kafka, own in zip(sorted(kafkas), sorted(ours), strict=True):
        partition, asked = own.partition, own.asked
        first = next((key for key, time in sorted(seen.items()) if key[0] == partition and time >= asked), (0, -1))
        assert (own.offset, own.timestamp_ms) == (first[1], seen.get(first, -1))
        if kafka != own:
            assert kafka.offset >= 0
            assert (partition, kafka.offset) not in seen
            markers += 1
    return markers


def engine_knows(directory: Path, topic: str) -> list[KnownProducer]:
    """Like :func:`known_producers`."""
    return sorted(
        KnownProducer(
            partition,
            state.producer_id,
            state.epoch,
            state.last_sequence,
            state.last_timestamp,
            state.coordinator_epoch,
            state.current_txn_first_offset,
        )
        for partition, reader in enumerate(partitions_of(directory, topic))
        for state in reader.producers.producers.values()
    )


# The directories


class Written(NamedTuple):
    """Log directories that this engine wrote, and the configs of their topics."""

    closed: Path
    closed_topics: Mapping[str, Mapping[str, str]]
    killed: Path
    killed_topics: Mapping[str, Mapping[str, str]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """One closed cleanly; the other as after a killed process, which is also the state while logs are open."""
    closed, killed, live = (tmp_path_factory.mktemp(name) for name in ("closed", "killed", "live"))
    with LogManager.open(str(closed), create=True) as manager:
        closed_topics = write_shapes(manager, "")
        for group, offsets in GROUPS.items():
            GroupOffsets(manager).commit(group, {key: CommittedOffset(0, "stale") for key in offsets})
            GroupOffsets(manager).commit(group, offsets)
    with LogManager.open(str(live), create=True) as manager:
        killed_topics = write_shapes(manager, KILLED)
        shutil.copytree(live, killed, dirs_exist_ok=True)
    tear(killed / f"{TORN_TOPIC}-0")
    return Written(closed, closed_topics, killed, killed_topics)


def tear(partition: Path) -> None:
    """Cut the last batch in half."""
    last = max(partition.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-40])


# The dump tool's results


Dumps = Mapping[Path, FileDump]


@pytest.fixture(scope="module")
def dumps(written: Written) -> Dumps:
    """Dumps of every file of every segment."""
    partitions = [
        directory / f"{topic}-{partition}"
        for directory, topics in ((written.closed, CLOSED_TOPICS), (written.killed, KILLED_TOPICS))
        for topic in topics
        for partition in range(SHAPES[topic.removeprefix(KILLED)].partitions)
    ]
    suffixes = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    files = [path for partition in partitions for path in sorted(partition.iterdir()) if path.suffix in suffixes]
    return dump_log(files, "--deep-iteration", "--print-data-log", check=False).files


def test_the_dump_tool_finds_nothing_wrong_with_what_was_closed(dumps: Dumps, written: Written) -> None:
    closed = {path: dump for path, dump in dumps.items() if path.is_relative_to(written.closed)}
    assert [path for path, dump in closed.items() if dump.stderr or dump.failure] == []
    validity = [
        word for dump in closed.values() for word in re.findall(r"^baseOffset: .* isvalid: (\w+)", dump.stdout, re.M)
    ]
    assert len(validity) > 500
    assert set(validity) == {"true"}


def test_the_dump_tool_finds_batches_and_index_entries_of_killed_writers_in_place(
    dumps: Dumps, written: Written
) -> None:
    """As with a broker's own, it ends at the zeros of a preallocated log, and at an index entry without a batch."""
    killed = {path: dump for path, dump in dumps.items() if path.is_relative_to(written.killed)}
    failed = {(path.parent.name, path.suffix) for path, dump in killed.items() if dump.failure}
    assert failed == {
        (f"{KILLED}preallocated-0", ".log"),
        (f"{KILLED}uneven-2", ".index"),  # empty: its zeros lead to position 0
        (f"{TORN_TOPIC}-0", ".index"),  # the batch that is torn had an entry
    }
    complaints = [path for path, dump in killed.items() if dump.stderr]  # zeros again, of an active segment
    assert [path for path in complaints if path != max(path.parent.glob("*.timeindex"))] == []
    assert [path for path, dump in killed.items() if "isvalid: false" in dump.stdout] == []


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex", ".snapshot"])
def test_our_dump_is_that_of_the_dump_tool(dumps: Dumps, suffix: str) -> None:
    files = [path for path in dumps if path.suffix == suffix]
    assert len(files) > 5
    for path in files:
        assert our_dump(path, DumpOptions(deep_iteration=True, print_data_log=True)) == spoken(dumps[path])


def test_our_dump_of_committed_offsets_is_that_of_the_dump_tool(written: Written) -> None:
    files = [path for path in written.closed.glob(f"{GROUP_METADATA_TOPIC}-*/*.log") if path.stat().st_size]
    assert len(files) == len(GROUPS)
    for path, dump in dump_log(files, "--offsets-decoder").files.items():
        assert '"metadata":' in dump.stdout
        assert our_dump(path, DumpOptions(decoder="offsets")) == spoken(dump)


def spoken(dump: FileDump) -> tuple[list[str], list[str], bool]:
    """Lines, findings, and whether it could not read to the end."""
    return dump.stdout.splitlines(), dump.stderr.splitlines(), dump.failure is not None


def our_dump(path: Path, options: DumpOptions) -> tuple[list[str], list[str], bool]:
    """Like :func:`spoken`."""
    findings, lines, failed = DumpFindings(), [], False
    try:
        for some in dump_file(str(path), options, findings):
            lines += some
    except CorruptionError:
        failed = True
    return "\n".join(lines).splitlines(), [*findings.lines()], failed


# The stages


@dataclass(frozen=True)
class Seen:
    """What the broker and its clients saw of some topics."""

    problems: list[str]
    reads: Reads
    times: Mapping[str, list[int]]  # asked for, ms
    listed: Mapping[str, list[ListedOffset]]
    known: Mapping[str, list[KnownProducer]]

    @classmethod
    def of(cls, broker: Broker, topics: tuple[str, ...]) -> Seen:
        reads = {
            (topic, isolation): java_reads(broker, topic, isolation) for topic in topics for isolation in Isolation
        }
        times = {topic: times_around(reads[topic, Isolation.READ_UNCOMMITTED]) for topic in topics}
        listed = {topic: list_offsets(broker.bootstrap, topic, times[topic]) for topic in topics}
        known = {topic: known_producers(broker.bootstrap, topic) for topic in topics}
        return cls(broker.problems(), reads, times, listed, known)


def java_reads(broker: Broker, topic: str, isolation: Isolation) -> list[Consumed]:
    rows = java_consume(broker.bootstrap, topic, isolation.value)
    return [replace(row, leader_epoch=None) for row in rows]


def times_around(rows: list[Consumed]) -> list[int]:
    """Times before, at and after some records, and far from all."""
    some = sorted({row.timestamp_ms for row in rows[:: max(1, len(rows) // 12)]})
    return [0, *(time_ms + shift for time_ms in some for shift in (0, 1) if time_ms >= 0), 2**42]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker.start(props={"offsets.topic.num.partitions": "50"})


class Mounted(NamedTuple):
    seen: Seen
    committed: Mapping[str, dict[tuple[str, int], tuple[int, str]]]  # by group


@pytest.fixture(scope="module")
def mounted(broker: Broker, written: Written) -> Mounted:
    mount(
        broker,
        written.closed,
        {**written.closed_topics, GROUP_METADATA_TOPIC: COORDINATOR_TOPICS[GROUP_METADATA_TOPIC]},
    )
    committed = {group: committed_offsets(broker.bootstrap, group) for group in GROUPS}
    return Mounted(Seen.of(broker, CLOSED_TOPICS), committed)


def test_a_broker_accepts_a_closed_directory_without_complaint(mounted: Mounted) -> None:
    assert mounted.seen.problems == []


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("topic", CLOSED_TOPICS)
def test_a_java_consumer_reads_what_our_reader_reads(
    mounted: Mounted, written: Written, topic: str, isolation: Isolation
) -> None:
    rows = engine_reads(written.closed, topic, isolation)
    assert rows
    assert mounted.seen.reads[topic, isolation] == rows


@pytest.mark.parametrize("topic", [topic for topic in CLOSED_TOPICS if topic != "deleted-records"])
def test_a_broker_finds_by_time_what_our_reader_finds_or_a_marker(
    mounted: Mounted, written: Written, topic: str
) -> None:
    ours = engine_lists(written.closed, topic, mounted.seen.times[topic])
    markers = check_times(mounted.seen.listed[topic], ours, mounted.seen.reads[topic, Isolation.READ_UNCOMMITTED])
    assert (markers > 0) == (topic in WITH_MARKERS)


def test_a_lookup_by_time_passes_over_segments_below_the_log_start_where_kafka_gives_up(
    mounted: Mounted, written: Written
) -> None:
    kafka = {found.asked: found for found in mounted.seen.listed["deleted-records"]}
    ours = {
        found.asked: found
        for found in engine_lists(written.closed, "deleted-records", mounted.seen.times["deleted-records"])
    }
    assert (kafka[0].offset, ours[0].offset) == (-1, 71)
    hits = {asked: found for asked, found in kafka.items() if found.offset >= 0}
    assert hits
    assert {asked: ours[asked] for asked in hits} == hits


@pytest.mark.parametrize("topic", CLOSED_TOPICS)
def test_a_broker_knows_the_producers_of_our_snapshots(mounted: Mounted, written: Written, topic: str) -> None:
    assert mounted.seen.known[topic] == engine_knows(written.closed, topic)


def test_java_sees_the_offsets_that_groups_committed(mounted: Mounted) -> None:
    assert mounted.committed == {
        group: {key: (committed.offset, committed.metadata) for key, committed in offsets.items()}
        for group, offsets in GROUPS.items()
    }


class Shared(NamedTuple):
    """What this engine saw while the broker ran, before and after its clients appended, and what they saw."""

    first: Reads
    unrefreshed: Reads
    refreshed: Reads
    changed_by_reading: set[Path]
    refusal: str
    changed_by_refusal: set[Path]
    seen: Seen


@pytest.fixture(scope="module")
def shared(broker: Broker, mounted: Mounted) -> Shared:
    manager = LogManager.open(str(broker.log_dir))
    untouched = fingerprints(broker.log_dir)
    readers = {topic: open_readers(manager, topic) for topic in APPENDED_TOPICS}
    first = read_all(readers)
    changed_by_reading = differences(untouched, fingerprints(broker.log_dir))
    with pytest.raises(LogDirLockedError) as refused, LogManager.open(str(broker.log_dir)) as writer:
        writer.open_log("uneven", 0)
    changed_by_refusal = differences(untouched, fingerprints(broker.log_dir))
    java_appends(broker)
    unrefreshed = read_all(readers)
    for reader in (reader for of_topic in readers.values() for reader in of_topic):
        reader.refresh()
    refreshed = read_all(readers)
    seen = Seen.of(broker, APPENDED_TOPICS)
    return Shared(first, unrefreshed, refreshed, changed_by_reading, str(refused.value), changed_by_refusal, seen)


def open_readers(manager: LogManager, topic: str) -> list[LogReader]:
    return [manager.open_reader(topic, partition) for partition in manager.topic(topic).partitions]


def read_all(readers: Mapping[str, list[LogReader]]) -> Reads:
    return {(topic, isolation): rows_of(readers[topic], isolation) for topic in readers for isolation in Isolation}


def fingerprints(directory: Path) -> dict[Path, tuple[int, int, int, int]]:
    """Length, time, inode and checksum of every file of the mounted partitions, and the directories they are in."""
    partitions = [path for topic in CLOSED_TOPICS for path in directory.glob(f"{topic}-?")]
    files = [path for partition in partitions for path in partition.iterdir()]
    return {path: fingerprint(path) for path in (*files, *partitions)}


def fingerprint(path: Path) -> tuple[int, int, int, int]:
    status = path.stat()
    checksum = crc32c(path.read_bytes()) if path.is_file() else 0
    return status.st_size, status.st_mtime_ns, status.st_ino, checksum


def differences(before: Mapping[Path, object], after: Mapping[Path, object]) -> set[Path]:
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def java_appends(broker: Broker) -> None:
    """Batches of idempotent producers in every codec, and transactions over two topics, committed and aborted."""
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        for topic in ("uneven", "idempotent"):
            records = [some_record(f"{codec} {n}") for n in range(20)]
            java_produce(broker.bootstrap, topic, [*records[:9], Step.FLUSH, *records[9:]], {"compression.type": codec})
    steps: list[Action] = []
    for end in (Step.COMMIT, Step.ABORT, Step.ABORT, Step.COMMIT):
        records = [some_record(f"{end} {n}") for n in range(5)]
        offsets = SendOffsets("mover", {("uneven", 1): len(steps)})
        steps += [Step.BEGIN, *records, replace(records[0], topic="uneven"), offsets, end]
    java_produce(broker.bootstrap, "transactions", steps, {"transactional.id": "mover"})


def some_record(text: str) -> ProducerRecord:
    return ProducerRecord(text.encode(), b"key of " + text.encode(), headers=(("größe", b"1"), ("", None)))


def test_reading_beside_a_running_broker_changes_nothing(shared: Shared) -> None:
    assert shared.changed_by_reading == set()


def test_a_writer_is_refused_beside_a_running_broker_and_changes_nothing(shared: Shared) -> None:
    assert "a running Kafka broker holds this directory" in shared.refusal
    assert shared.changed_by_refusal == set()


@pytest.mark.parametrize("topic", APPENDED_TOPICS)
def test_a_reader_beside_a_running_broker_sees_what_was_appended_once_refreshed(shared: Shared, topic: str) -> None:
    for isolation in Isolation:
        first = shared.first[topic, isolation]
        assert shared.unrefreshed[topic, isolation] == first
        assert len(shared.refreshed[topic, isolation]) >= len(first) + 10
        assert shared.refreshed[topic, isolation] == shared.seen.reads[topic, isolation]


class Returned(NamedTuple):
    """What this engine saw after the broker had stopped, and what the broker saw when it returned."""

    engine_first: Reads
    groups_first: Mapping[str, Mapping[tuple[str, int], CommittedOffset]]
    refusal: str  # of the broker, while this engine held the directory
    engine_last: Reads
    committed: Mapping[str, dict[tuple[str, int], tuple[int, str]]]
    seen: Seen
    engine_knows: Mapping[str, list[KnownProducer]]


@pytest.fixture(scope="module")
def returned(broker: Broker, written: Written, shared: Shared) -> Returned:
    move_in(broker, written.killed, written.killed_topics)
    engine_first = engine_reads_all(broker.log_dir, APPENDED_TOPICS)
    with LogManager.open(str(broker.log_dir)) as manager:
        groups_first = {group: GroupOffsets(manager).fetch(group) for group in ("mover", *GROUPS)}
        engine_appends(manager)
        with pytest.raises(BrokerError, match="ended with status 1"):
            broker.start()
        refusal = broker.log_text()
    engine_last = engine_reads_all(broker.log_dir, APPENDED_TOPICS)
    knows = {topic: engine_knows(broker.log_dir, topic) for topic in (*APPENDED_TOPICS, *KILLED_TOPICS)}
    broker.start()
    committed = {group: committed_offsets(broker.bootstrap, group) for group in GROUPS}
    seen = Seen.of(broker, (*APPENDED_TOPICS, *KILLED_TOPICS))
    return Returned(engine_first, groups_first, refusal, engine_last, committed, seen, knows)


def engine_reads_all(directory: Path, topics: tuple[str, ...]) -> Reads:
    return {
        (topic, isolation): engine_reads(directory, topic, isolation) for topic in topics for isolation in Isolation
    }


def engine_appends(manager: LogManager) -> None:
    """Producers from this engine's first logs continue, and so do groups."""
    rows = Rows(manager.clock.now_ms())
    uneven, idempotent, transactions = (manager.open_log(topic, 0) for topic in APPENDED_TOPICS)
    for log in (uneven, idempotent, transactions):
        log.append_records(to_records(rows.make(50)))
        log.roll()
    known = idempotent.producers.last_entry(FIRST_PRODUCER_ID)
    assert known is not None
    fields = v2.BatchFields(
        producer_id=known.producer_id, producer_epoch=known.epoch, base_sequence=known.last_sequence + 1
    )
    idempotent.append_records(to_records(rows.make(5)), fields)
    for number in range(3):
        producer = Transactions(transactions, FIRST_PRODUCER_ID + number, rows)
        producer.write(4)
        producer.end(commit=number == 1)
    GroupOffsets(manager).commit("readers", {("codecs", 0): CommittedOffset(18, "further")})


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("topic", APPENDED_TOPICS)
def test_this_engine_reads_what_the_clients_of_a_broker_appended(
    shared: Shared, returned: Returned, topic: str, isolation: Isolation
) -> None:
    assert returned.engine_first[topic, isolation] == shared.seen.reads[topic, isolation]


def test_this_engine_reads_the_offsets_of_a_broker_and_its_own(returned: Returned) -> None:
    assert returned.groups_first["mover"].keys() == {("uneven", 1)}
    assert {group: returned.groups_first[group] for group in GROUPS} == GROUPS


def test_a_broker_does_not_start_while_this_engine_holds_the_directory(returned: Returned) -> None:
    assert "Failed to acquire lock on file .lock" in returned.refusal


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("topic", APPENDED_TOPICS)
def test_a_broker_continues_with_a_directory_written_by_both_in_turn(
    returned: Returned, topic: str, isolation: Isolation
) -> None:
    rows = returned.engine_last[topic, isolation]
    assert len(rows) > len(returned.engine_first[topic, isolation])
    assert returned.seen.reads[topic, isolation] == rows


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("topic", KILLED_TOPICS)
def test_a_broker_recovers_what_a_killed_writer_left_and_reads_it_as_we_do(
    returned: Returned, written: Written, topic: str, isolation: Isolation
) -> None:
    rows = engine_reads(written.killed, topic, isolation)
    assert rows
    assert returned.seen.reads[topic, isolation] == rows


@pytest.mark.parametrize("topic", [*APPENDED_TOPICS, *KILLED_TOPICS])
def test_a_broker_that_recovers_knows_the_producers_that_we_know(returned: Returned, topic: str) -> None:
    assert returned.seen.known[topic] == returned.engine_knows[topic]


@pytest.mark.parametrize(
    "topic", [topic for topic in (*APPENDED_TOPICS, *KILLED_TOPICS) if not topic.endswith("deleted-records")]
)
def test_a_broker_that_recovers_finds_by_time_what_our_reader_finds_or_a_marker(
    broker: Broker, returned: Returned, topic: str
) -> None:
    ours = engine_lists(broker.log_dir, topic, returned.seen.times[topic])
    check_times(returned.seen.listed[topic], ours, returned.seen.reads[topic, Isolation.READ_UNCOMMITTED])


def test_a_broker_that_recovers_complains_of_a_torn_tail_and_of_preallocated_zeros_only(returned: Returned) -> None:
    """It reports that it cuts each of them off, as it does with its own."""
    problems = returned.seen.problems
    of_each = [[text for text in problems if f"{topic}-0" in text] for topic in (TORN_TOPIC, f"{KILLED}preallocated")]
    assert all(of_each)
    assert sum(map(len, of_each)) == len(problems)
