"""Transactions of clients on an object store: in the log at once, and one commit decides them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any

import pytest

from pyspark_commitlog.storage.bucket.clients.appends import ClientBatch, append_batches
from pyspark_commitlog.storage.bucket.clients.transactions import give_up
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.checkpoints import decode_checkpoint, encode_checkpoint
from pyspark_commitlog.storage.bucket.commits.commit import GroupOffset, OffsetsChange, VoidChange
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.bucket.topics import delete_topic
from pyspark_commitlog.storage.bucket.upkeep import raise_log_start
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    ObjectExistsError,
    ObjectStoreError,
    OutcomeUnknownError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    StorageError,
    TransactionAbortedError,
)
from pyspark_commitlog.storage.maintenance.bucket.consolidate import consolidate
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.recovery.producer_state import Producer
from pyspark_commitlog.storage.writing.append_info import AppendInfo
from pyspark_commitlog.storage.writing.checks.checked_batch import check_batch
from tests.support.clock import ManualClock
from tests.support.logs.building import batch, config, records
from tests.support.stores.commits import commit_log
from tests.support.stores.faulty_store import FaultyStore
from tests.support.stores.filled import place_of
from tests.support.stores.filling import make_topic, write
from tests.support.stores.memory_store import MemoryStore
from tests.support.stores.transactional import PRODUCER, Client, shown


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def log(store: MemoryStore) -> CommitLog:
    log = commit_log(store)
    make_topic(log, "t", 2)
    return log


def spark_writes(log: CommitLog, *values: bytes) -> None:
    log.catch_up()
    write(log, "t", {0: [records(values)]})


def opened_again(log: CommitLog) -> CommitLog:
    """The log as a process finds it that reads a checkpoint, where the state has what it must have."""
    state = log.catch_up()
    read = decode_checkpoint(encode_checkpoint(state.copy()))
    assert encode_checkpoint(read) == encode_checkpoint(state.copy())
    assert read.open == state.open
    for key, partition in read.partitions.items():
        assert partition.stable_end == state.partitions[key].stable_end
    log._state = read
    return log


UNCOMMITTED = Isolation.READ_UNCOMMITTED


# Records


def test_records_have_their_offsets_before_the_end_and_are_shown_by_one_commit(log: CommitLog) -> None:
    client = Client(log)
    assert client.append(b"a", b"b") == [0, 1]
    assert client.append(b"x", partition=1) == [0]
    assert client.append(b"c") == [2]
    before = log.state.number
    assert (shown(log), shown(log, partition=1)) == ({}, {})
    assert shown(log, UNCOMMITTED) == {0: b"a", 1: b"b", 2: b"c"}
    client.end(commit=True)
    assert log.state.number == before + 1
    assert shown(log) == {0: b"a", 1: b"b", 2: b"c"}
    assert shown(log, partition=1) == {0: b"x"}
    assert client.append(b"d") == [3]


def test_a_broker_sees_no_transaction_in_the_batches(store: MemoryStore, log: CommitLog) -> None:
    client = Client(log)
    client.append(b"a")
    client.append(b"b", compression_type="lz4")
    for data in (each for key, each in store.objects.items() if key.startswith("staged/")):
        assert data[16] == 2
        assert data[22] & 0x10 == 0  # the transactional bit
        assert data[43:51] == b"\xff" * 8  # no producer
    client.end(commit=True)
    assert shown(log) == {0: b"a", 1: b"b"}


def test_an_abort_leaves_a_gap_and_sequences_go_on(log: CommitLog) -> None:
    client = Client(log)
    assert client.append(b"lost", b"lost") == [0, 1]
    client.end(commit=False)
    assert (shown(log), shown(log, UNCOMMITTED)) == ({}, {})
    assert client.append(b"kept") == [2]
    client.end(commit=True)
    assert shown(log) == shown(log, UNCOMMITTED) == {2: b"kept"}


def test_others_write_behind_an_open_transaction_and_readers_of_committed_records_wait_for_it(
    store: MemoryStore, log: CommitLog
) -> None:
    spark_writes(log, b"s0")
    first, second = Client(log), Client(commit_log(store, 1), "y", PRODUCER + 1)
    assert first.append(b"a") == [1]
    second.log.catch_up()
    assert second.append(b"b") == [2]
    spark_writes(log, b"s3")
    assert first.append(b"c") == [4]
    everything = {0: b"s0", 1: b"a", 2: b"b", 3: b"s3", 4: b"c"}
    assert (shown(log), shown(log, UNCOMMITTED)) == ({0: b"s0"}, everything)
    second.end(commit=False)
    assert (shown(log), shown(log, UNCOMMITTED)) == ({0: b"s0"}, {0: b"s0", 1: b"a", 3: b"s3", 4: b"c"})
    first.end(commit=True)
    assert shown(log) == shown(commit_log(store, 2)) == {0: b"s0", 1: b"a", 3: b"s3", 4: b"c"}


def test_a_reader_that_is_open_sees_what_an_abort_and_a_commit_change(log: CommitLog, store: MemoryStore) -> None:
    first, second = Client(log), Client(log, "y", PRODUCER + 1)
    first.append(b"a" * 100)
    second.append(b"b")
    files = BucketFileSystem(commit_log(store, 1))
    with LogManager.open(files.root, filesystem=files) as manager, manager.open_watcher("t", 0) as watcher:

        def seen() -> tuple[int, int, list[int]]:
            watcher.catch_up()
            tables = watcher.records(0, 2, isolation=UNCOMMITTED)
            offsets = [offset for each in tables for offset in each.offsets.tolist()]
            return watcher.last_stable_offset, watcher.log_end_offset, offsets

        assert seen() == (0, 2, [0, 1])
        first.end(commit=False)
        assert seen() == (1, 2, [1])
        second.end(commit=True)
        assert seen() == (2, 2, [1])


def test_a_repeated_batch_is_there_once_with_its_offsets_and_a_gap_is_refused(log: CommitLog) -> None:
    client = Client(log)
    assert client.append(b"a") == [0]
    spark_writes(log, b"s")
    assert client.append(b"a", sequence=0) == [0]
    with pytest.raises(OutOfOrderSequenceError):
        client.append(b"c", sequence=2)
    assert client.append(b"b", sequence=1) == [2]
    client.end(commit=True)
    assert shown(log) == {0: b"a", 1: b"s", 2: b"b"}


def test_batches_of_several_transactions_and_of_none_share_a_commit(log: CommitLog) -> None:
    first, second = Client(log), Client(log, "y", PRODUCER + 1)

    def sent(client: Client | None, *values: bytes, sequence: int = 0, partition: int = 0) -> ClientBatch:
        producer = {"producer_id": client.producer, "base_sequence": sequence, "transactional": True} if client else {}
        opened = client.transactions.open(client.producer) if client else None
        data = check_batch(batch(*values, **producer).data, config())  # type: ignore[arg-type]
        return ClientBatch(log.state.topic_ids["t"], partition, data, opened)

    before = log.state.number
    batches = [
        sent(first, b"a"),
        sent(None, b"n"),
        sent(second, b"b", b"c"),
        sent(first, b"d", sequence=1),
        sent(first, b"e", sequence=2),
        sent(second, b"p", partition=1),
    ]
    found = append_batches(log, batches)
    assert [each.first_offset for each in found if isinstance(each, AppendInfo)] == [0, 1, 2, 4, 5, 0]
    assert log.state.number == before + 1
    second.end(commit=False)
    first.end(commit=True)
    assert shown(log) == {0: b"a", 1: b"n", 4: b"d", 5: b"e"}
    assert shown(log, partition=1) == {}
    opened_again(log)


def test_a_process_that_opens_the_log_finds_open_transactions(log: CommitLog) -> None:
    client = Client(log)
    client.append(b"a")
    client.append(b"x", partition=1)
    client.stage(5)
    spark_writes(log, b"s")
    opened_again(log)
    assert (shown(log), shown(log, UNCOMMITTED)) == ({}, {0: b"a", 1: b"s"})
    client.end(commit=True)
    assert shown(log) == {0: b"a", 1: b"s"}
    assert log.state.groups == {"g": {"t-0": GroupOffset(5, "")}}


def test_retention_may_take_records_of_an_open_transaction(log: CommitLog) -> None:
    client = Client(log)
    client.append(b"a")
    client.append(b"b", b"c")
    key = log.state.topic_ids["t"], 0
    log.commit(lambda state: raise_log_start(state, *key, 2))
    assert log.state.partitions[key].stable_end == 2
    client.end(commit=False)
    assert log.state.partitions[key].stable_end == 3
    opened_again(log)


# Offsets of groups: the order of writing decides


def committed(log: CommitLog, partition: str = "t-0") -> int | None:
    found = log.catch_up().groups.get("g", {}).get(partition)
    return None if found is None else found.offset


def set_offset(log: CommitLog, offset: int | None) -> None:
    log.catch_up()
    log.commit(lambda _: OffsetsChange({"g": {"t-0": None if offset is None else GroupOffset(offset, "")}}))


def test_offsets_count_from_the_commit_on_and_never_after_an_abort(log: CommitLog) -> None:
    client = Client(log)
    client.stage(5)
    client.stage(6)
    client.stage(1, name="t-1")
    assert committed(log) is None
    client.end(commit=True)
    assert (committed(log), committed(log, "t-1")) == (6, 1)
    client.stage(8)
    client.end(commit=False)
    assert committed(log) == 6


@pytest.mark.parametrize("later", [7, 0, None], ids=["a commit", "a reset", "a deletion"])
def test_what_is_written_after_an_offset_was_staged_wins(store: MemoryStore, log: CommitLog, later: int | None) -> None:
    set_offset(log, 3)
    client = Client(log)
    client.stage(5)
    client.stage(1, name="t-1")
    set_offset(commit_log(store, 1), later)  # of another process
    log.catch_up()
    client.end(commit=True)
    assert (committed(log), committed(log, "t-1")) == (later, 1)


def test_an_offset_that_is_staged_after_another_was_written_wins(store: MemoryStore, log: CommitLog) -> None:
    client = Client(log)
    client.stage(5)
    set_offset(commit_log(store, 1), 7)
    client.stage(6)
    client.end(commit=True)
    assert committed(log) == 6


@pytest.mark.parametrize("is_apart", [False, True], ids=["one process", "two processes"])
@pytest.mark.parametrize("earlier_ends_first", [False, True])
def test_of_two_transactions_the_one_that_staged_last_wins(
    store: MemoryStore, log: CommitLog, is_apart: bool, earlier_ends_first: bool
) -> None:
    early = Client(log)
    late = Client(commit_log(store, 1) if is_apart else log, "y", PRODUCER + 1)
    early.stage(7)
    late.stage(5)
    for each in (early, late) if earlier_ends_first else (late, early):
        each.end(commit=True)
    assert committed(commit_log(store, 2)) == 5


def test_a_transaction_that_is_aborted_gives_way_to_one_that_staged_before(log: CommitLog) -> None:
    early, late = Client(log), Client(log, "y", PRODUCER + 1)
    early.stage(5)
    late.stage(7)
    late.end(commit=False)
    early.end(commit=True)
    assert committed(log) == 5


# Ends


def test_an_empty_transaction_needs_no_commit(log: CommitLog) -> None:
    client, before = Client(log), log.state.number
    client.end(commit=True)
    client.end(commit=False)
    assert log.catch_up().number == before


def test_the_next_holder_of_an_id_aborts_and_fences_the_last_one_also_in_another_process(
    store: MemoryStore, log: CommitLog
) -> None:
    client = Client(log)
    client.append(b"lost")
    Client(commit_log(store, 1), "x", PRODUCER + 1)
    for add in (lambda: client.append(b"lost"), lambda: client.stage(5)):
        with pytest.raises(InvalidProducerEpochError):
            add()
    with pytest.raises(ProducerFencedError):
        client.end(commit=True)
    with pytest.raises(TransactionAbortedError):
        client.end(commit=True)
    with pytest.raises(InvalidTxnStateError):
        client.append(b"lost")
    assert shown(log, UNCOMMITTED) == {}
    assert log.state.open == {}


def test_a_transaction_without_its_process_is_given_up_once(store: MemoryStore, log: CommitLog) -> None:
    client = Client(log)
    client.append(b"lost")
    spark_writes(log, b"kept")
    other = commit_log(store, 1)
    (opened,) = other.state.open.values()
    for _ in range(2):
        other.commit(lambda state: give_up(state, opened.transaction))
    assert shown(other) == {1: b"kept"}
    with pytest.raises(ProducerFencedError):
        client.end(commit=True)
    assert other.catch_up().number == log.catch_up().number


def test_what_a_process_has_open_is_aborted_before_it_ends(log: CommitLog) -> None:
    client = Client(log)
    client.append(b"lost")
    client.transactions.abort_all()
    assert (log.state.open, shown(log, UNCOMMITTED)) == ({}, {})


def test_a_deleted_topic_is_no_hindrance_and_loses_its_part(log: CommitLog) -> None:
    make_topic(log, "u")
    client = Client(log)
    client.append(b"gone")
    client.stage(5)
    client.stage(6, name="u-0")
    log.commit(lambda state: delete_topic(state, "t"))
    make_topic(log, "t", 2)
    opened_again(log)
    client.end(commit=True)
    assert shown(log) == {}
    assert log.state.groups == {"g": {"u-0": GroupOffset(6, "")}}


def test_objects_of_an_open_transaction_cannot_be_made_void(log: CommitLog, store: MemoryStore) -> None:
    client = Client(log)
    client.append(b"a")
    (written,) = {key.split("/")[1] for key in store.objects if key.startswith("staged/")}
    with pytest.raises(StorageError):
        log.commit(lambda _: VoidChange([written]))
    client.end(commit=True)
    assert shown(log) == {0: b"a"}


class LateStore(MemoryStore):
    """Keeps commits back while ``keeps`` is set, as a store that does not answer; they arrive by ``land``."""

    def __init__(self) -> None:
        super().__init__()
        self.keeps, self.late = False, list[tuple[str, bytes]]()

    def put_new(self, key: str, data: bytes) -> None:
        if self.keeps and key.startswith("commits/"):
            self.late.append((key, data))
            raise ObjectStoreError("no answer")
        super().put_new(key, data)

    def land(self) -> None:
        for each in self.late:
            with suppress(ObjectExistsError):
                super().put_new(*each)


def test_an_addition_that_arrives_late_is_not_in_the_next_transaction() -> None:
    store = LateStore()
    log = commit_log(store, deadline_ms=500)
    make_topic(log, "t", 2)
    client = Client(log)
    store.keeps = True
    for add in (lambda: client.append(b"lost"), lambda: client.stage(5)):
        with pytest.raises(OutcomeUnknownError):
            add()
    store.keeps = False
    client.end(commit=False)
    store.land()
    assert client.append(b"kept", sequence=0) == [0]
    client.end(commit=True)
    found = commit_log(store, 2)
    assert (shown(found), found.state.groups) == ({0: b"kept"}, {})


@pytest.mark.parametrize("lands", [True, False], ids=["landed", "lost"])
def test_a_commit_without_an_answer_is_called_aborted_after_a_takeover_only_if_it_was(*, lands: bool) -> None:
    store = LateStore()
    log = commit_log(store, deadline_ms=500)
    make_topic(log, "t", 2)
    client = Client(log)
    client.append(b"a")
    store.keeps = True
    with pytest.raises(OutcomeUnknownError):
        client.end(commit=True)
    store.keeps = False
    if lands:
        store.land()
    Client(commit_log(store, 1), "x", PRODUCER + 1)
    assert shown(log) == ({0: b"a"} if lands else {})
    with pytest.raises(ProducerFencedError, match="unknown whether" if lands else "was aborted"):
        client.end(commit=True)
    if lands:  # asked again, it says the same
        with pytest.raises(ProducerFencedError, match="unknown whether"):
            client.end(commit=True)


def test_a_transaction_that_nobody_tried_to_end_is_called_aborted_whatever_the_next_producer_committed(
    store: MemoryStore, log: CommitLog
) -> None:
    client = Client(log)
    client.append(b"lost")
    other = Client(commit_log(store, 1), "x", PRODUCER + 1)
    other.append(b"kept")
    other.end(commit=True)
    log.catch_up()
    with pytest.raises(ProducerFencedError, match="was aborted"):
        client.end(commit=True)
    assert shown(log) == {1: b"kept"}


def test_a_batch_of_a_transaction_that_has_ended_is_not_in_the_next_one(log: CommitLog) -> None:
    client = Client(log)
    client.append(b"a")
    (opened,) = (each.transaction for each in log.state.open.values())
    client.end(commit=True)
    client.append(b"b")
    data = batch(b"late", producer_id=PRODUCER, base_sequence=2, transactional=True).data
    late = ClientBatch(log.state.topic_ids["t"], 0, check_batch(data, config()), opened)
    assert isinstance(append_batches(log, [late])[0], InvalidProducerEpochError)
    client.end(commit=True)
    assert shown(log) == {0: b"a", 1: b"b"}


@pytest.mark.parametrize("seed", range(15))
def test_what_is_tried_until_it_is_known_counts_once(seed: int) -> None:
    inner, random = MemoryStore(), Random(seed)
    make_topic(commit_log(inner), "t", 2)
    faulty = FaultyStore(inner, random)
    faulty.rate = 0.0
    client = Client(commit_log(faulty, seed, deadline_ms=2_000))
    faulty.rate = 0.4
    kept = {}
    for number in range(10):
        value, is_kept = b"%d" % number, random.random() < 0.6
        (offset,) = _until_done(lambda value=value, number=number: client.append(value, sequence=number))  # type: ignore[misc]
        _until_done(lambda number=number: client.stage(number))  # type: ignore[misc]
        _until_done(lambda is_kept=is_kept: client.end(commit=is_kept))  # type: ignore[misc]
        kept |= {offset: value} if is_kept else {}
    faulty.rate = 0.0
    faulty.land_late(1.0)
    log = commit_log(inner, 99)
    assert (shown(log), log.state.open) == (kept, {})
    assert committed(log) == max(map(int, kept.values()), default=None)


def _until_done(task: Callable[[], Any]) -> Any:
    while True:
        try:
            return task()
        except (ObjectStoreError, OutcomeUnknownError):
            pass


class History:
    """Producers at two processes, Spark and maintenance over one log, and what readers must find."""

    def __init__(self, seed: int) -> None:
        self.store, self.random = MemoryStore(), Random(seed)
        make_topic(commit_log(self.store), "t", 2)
        self.logs = [commit_log(self.store, seed + each) for each in range(2)]
        self.expected: dict[int, bytes] = {}  # of partition 0
        self.pending: dict[str, dict[int, bytes]] = {}
        self.clients: dict[str, Client] = {}
        self.producers = count(1)

    def run(self, steps: int) -> None:
        kinds = [self.begin, self.append, self.append, self.append, self.end, self.end, self.spark, self.consolidate]
        for step in range(steps):
            self.random.choice(kinds)()
            if step % 3 == 0:
                self.check()

    def begin(self) -> None:
        """A producer begins; what the last one of its id has open is aborted, as after it was killed."""
        name = self.random.choice("xyz")
        log = self.random.choice(self.logs)
        log.catch_up()
        self.clients[name] = Client(log, name, next(self.producers))
        self.pending[name] = {}

    def append(self) -> None:
        if self.clients:
            name, client = self.random.choice(list(self.clients.items()))
            client.log.catch_up()
            values = [name.encode() * self.random.randint(1, 40) for _ in range(self.random.randint(1, 3))]
            self.pending[name] |= dict(zip(client.append(*values), values, strict=True))

    def end(self) -> None:
        if self.clients:
            name, client = self.random.choice(list(self.clients.items()))
            is_commit = self.random.random() < 0.6
            client.end(commit=is_commit)
            self.expected |= self.pending[name] if is_commit else {}
            self.pending[name] = {}

    def spark(self) -> None:
        log = self.random.choice(self.logs)
        log.catch_up()
        base = log.state.partitions[log.state.topic_ids["t"], 0].end
        spark_writes(log, b"s", b"p")
        self.expected |= {base: b"s", base + 1: b"p"}

    def consolidate(self) -> None:
        settings = LogConfig(segment_bytes=self.random.choice((200, 1000)))
        consolidate(place_of(self.random.choice(self.logs)), settings, ManualClock(), 10**15)

    def check(self) -> None:
        undecided = {offset: value for each in self.pending.values() for offset, value in each.items()}
        stable = min(undecided, default=2**62)
        log = opened_again(commit_log(self.store, 99))
        assert shown(log) == {offset: value for offset, value in self.expected.items() if offset < stable}
        assert shown(log, UNCOMMITTED) == self.expected | undecided


@pytest.mark.parametrize("seed", range(6))
def test_any_history_shows_what_was_committed_and_nothing_else(seed: int) -> None:
    History(seed).run(40)


def test_ends_of_several_producers_share_a_commit_and_each_has_its_result(store: MemoryStore, log: CommitLog) -> None:
    transactions = Client(log).transactions
    clients = [Client(log, name, PRODUCER + number) for number, name in enumerate("abcd")]
    for client in clients:
        client.transactions = transactions
        transactions.begin("abcd"[client.producer - PRODUCER], Producer(client.producer, 0), 1000)
        client.append(b"%d" % client.producer)
    Client(commit_log(store, 1), "d", 99)
    log.catch_up()
    before = log.state.number
    ends = [
        (PRODUCER, True),
        (PRODUCER + 1, False),
        (PRODUCER + 2, True),
        (PRODUCER + 3, True),
        (50, True),
        (51, False),
    ]
    found = transactions.end(ends)
    assert [type(each) for each in found[3:5]] == [ProducerFencedError, TransactionAbortedError]
    assert (found[:3], found[5]) == ([None] * 3, None)
    assert log.state.number == before + 1
    assert shown(log) == {0: b"7", 2: b"9"}
