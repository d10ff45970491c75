"""States as clients of Kafka cause them: they announce themselves, add partitions in turn, and keep their epoch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pyspark_commitlog.storage.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    ProducerFencedError,
    RecordTooLargeError,
)
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from pyspark_commitlog.storage.format.internal.internal_topics import (
    TRANSACTION_STATE_TOPIC,
    TransactionLogValue,
    TransactionState,
)
from pyspark_commitlog.storage.recovery.producer_state import Producer
from pyspark_commitlog.storage.transactions.abandoned import open_transactions
from pyspark_commitlog.storage.transactions.coordinator import TransactionCoordinator
from pyspark_commitlog.storage.transactions.producer_ids import (
    PRODUCER_IDS_FILE,
    allot_producer_id,
    client_producer_id,
    is_of_driver,
)
from pyspark_commitlog.storage.transactions.states import StateChange, TransactionStates
from pyspark_commitlog.storage.transactions.transaction import (
    completed_state,
    empty_state,
    extended_state,
    prepared_state,
    ungrouped,
)
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.transactions import APP, PARTITIONS, TOPIC, Query, content, encoded, expected, manage

PRODUCER = Producer(7, 3)
FIRST, SECOND = (TopicPartition(*each) for each in PARTITIONS)


def written(states: TransactionStates, before: TransactionLogValue | None, after: TransactionLogValue) -> None:
    states.replace(APP, before, after, sync=False)
    states.sync([APP])


def begun(disk: MemoryFileSystem, value: bytes = b"a") -> tuple[TransactionStates, TransactionLogValue]:
    """A transaction with a record in the first partition, and the second one added without any."""
    states = TransactionStates(manage(disk))
    before = states.newest(APP) or empty_state(PRODUCER, 1000, now_ms=0)
    if states.newest(APP) is None:
        written(states, None, before)
    for now_ms, partition in ((1, FIRST), (2, SECOND)):
        after = extended_state(before, [partition], now_ms)
        written(states, before, after)
        before = after
    states.manager.open_log(*FIRST).append_transactional(encoded(value), PRODUCER)
    return states, before


def test_partitions_are_added_to_a_transaction_that_keeps_its_beginning(disk: MemoryFileSystem, query: Query) -> None:
    states, value = begun(disk)
    found = states.settled(APP)
    assert found == value
    assert ungrouped(value) == (FIRST, SECOND)
    assert (value.transaction_start_timestamp_ms, value.transaction_last_update_timestamp_ms) == (1, 2)
    assert extended_state(
        completed_state(prepared_state(value, [FIRST], 3, commit=True, raise_epoch=False), 4), [SECOND], 5
    ) == (extended_state(empty_state(PRODUCER, 1000, 0), [SECOND], 5))


@pytest.mark.parametrize("commit", [True, False])
def test_a_driver_completes_what_a_client_has_decided(disk: MemoryFileSystem, query: Query, commit: bool) -> None:
    query.coordinator.close()
    states, value = begun(disk)
    decided = prepared_state(value, ungrouped(value), 3, commit=commit, raise_epoch=False)
    assert decided.producer_epoch == PRODUCER.epoch
    written(states, value, decided)
    assert [each.epoch for each in open_transactions(manage(disk))] == [PRODUCER.epoch]
    query = Query.on(disk).start()
    assert content(query.manager, 0) == ([b"a"] if commit else [])
    done = TransactionStates(manage(disk)).newest(APP)
    assert done is not None
    assert done.transaction_status.name == ("COMPLETE_COMMIT" if commit else "COMPLETE_ABORT")
    query.run_batch(0)
    assert content(query.manager, 1) == expected(1, [0])


def test_a_client_writes_transactions_one_after_the_other_in_one_epoch(disk: MemoryFileSystem, query: Query) -> None:
    query.coordinator.close()
    for number in range(3):
        states, value = begun(disk, b"%d" % number)
        decided = prepared_state(value, ungrouped(value), 3, commit=number != 1, raise_epoch=False)
        written(states, value, decided)
        states.manager.open_log(*FIRST).end_transaction(PRODUCER, commit=number != 1)
        written(states, decided, completed_state(decided, 4))
    assert content(manage(disk), 0) == [b"0", b"2"]


def test_a_driver_aborts_what_a_client_left_open_and_fences_the_client(disk: MemoryFileSystem, query: Query) -> None:
    query.coordinator.close()
    states, _ = begun(disk)
    with TransactionCoordinator.open(manage(disk), APP):
        pass
    assert content(states.manager, 0) == []
    for partition in (0, 1):
        with pytest.raises(InvalidProducerEpochError):
            states.manager.open_log(TOPIC, partition).append_transactional(encoded(b"late"), PRODUCER)


def test_a_prepare_state_that_fences_has_the_next_epoch() -> None:
    value = extended_state(empty_state(PRODUCER, 1000, 0), [FIRST], 1)
    assert prepared_state(value, [FIRST], 2, commit=False).producer_epoch == PRODUCER.epoch + 1
    assert value.transaction_status is TransactionState.ONGOING


def test_of_two_that_add_partitions_to_one_state_the_second_is_refused(disk: MemoryFileSystem) -> None:
    states, other = TransactionStates(manage(disk)), TransactionStates(manage(disk))
    before = extended_state(empty_state(PRODUCER, 1000, 0), [FIRST], 1)
    written(states, None, before)
    written(states, before, extended_state(before, [SECOND], 2))
    with pytest.raises(ProducerFencedError, match="another coordinator"):
        other.replace(APP, before, extended_state(before, [TopicPartition(TOPIC, 5)], 2))
    found = other.newest(APP)
    assert found is not None
    assert ungrouped(found) == (FIRST, SECOND)


@pytest.mark.parametrize(
    "change",
    [{"producer_epoch": 4}, {"producer_id": 8}, {"transaction_partitions": ()}],
    ids=["another epoch", "another producer", "without its partitions"],
)
def test_an_open_transaction_is_not_replaced_by_another(disk: MemoryFileSystem, change: dict[str, Any]) -> None:
    states = TransactionStates(manage(disk))
    before = extended_state(empty_state(PRODUCER, 1000, 0), [FIRST], 1)
    written(states, None, before)
    with pytest.raises(InvalidTxnStateError, match="cannot follow"):
        states.replace(APP, before, replace(before, **change))


IDS = ("a", "b", "c", "d")


def possible(states: dict[str, TransactionLogValue], name: str, kind: int, now_ms: int) -> TransactionLogValue:
    """A next state of an id, which may be one that no coordinator writes."""
    before = states.get(name) or empty_state(PRODUCER, 1000, now_ms)
    if kind == 0:
        return empty_state(Producer(PRODUCER.id, before.producer_epoch + 1), 1000, now_ms)
    if kind == 1:
        return extended_state(before, [FIRST, SECOND][: 1 + now_ms % 2], now_ms)
    prepared = prepared_state(before, [FIRST], now_ms, commit=True, raise_epoch=False)
    return prepared if kind == 2 else completed_state(prepared, now_ms)


@settings(max_examples=25, deadline=None)
@given(
    groups=st.lists(st.lists(st.tuples(st.sampled_from(IDS), st.integers(0, 3), st.booleans()), max_size=8), max_size=4)
)
def test_states_that_are_written_together_are_those_that_are_written_one_by_one(
    groups: list[list[tuple[str, int, bool]]],
) -> None:
    one, other = (TransactionStates(manage(MemoryFileSystem()), partitions=2) for _ in range(2))
    known: dict[str, TransactionLogValue] = {}
    now_ms = 0
    for group in groups:
        changes = []
        for name, kind, knows in group:
            now_ms += 1
            value = possible(known, name, kind, now_ms)
            changes.append(StateChange(name, known.get(name) if knows else None, value))
            known[name] = value
        errors = one.replace_all(changes)
        for change, error in zip(changes, errors, strict=True):
            expected = None
            try:
                other.replace(*change, sync=False)
            except (InvalidTxnStateError, ProducerFencedError) as found:
                expected = found
            assert (type(error), str(error)) == (type(expected), str(expected))
        known = dict(one.all())
    assert dict(one.all()) == dict(other.all())


def test_two_that_write_in_turn_see_what_the_other_wrote_since(disk: MemoryFileSystem) -> None:
    both = [TransactionStates(manage(disk)), TransactionStates(manage(disk))]
    before = None
    for number in range(8):
        writer = both[number // 2 % 2]  # each twice: the second time, nobody else wrote in between
        after = empty_state(Producer(PRODUCER.id, number), 1000, number)
        assert writer.replace_all([StateChange(APP, before, after)]) == [None]
        stale = StateChange(APP, before, empty_state(Producer(9, 0), 1000, number))
        (refused,) = both[1 - number // 2 % 2].replace_all([stale])
        assert isinstance(refused, ProducerFencedError)
        before = after
    assert [states.newest(APP) for states in both] == [before, before]


def test_the_states_of_one_partition_share_a_batch(disk: MemoryFileSystem) -> None:
    states = TransactionStates(manage(disk), partitions=1)
    value = empty_state(PRODUCER, 1000, 0)
    changes = [StateChange(name, None, value) for name in IDS]
    changes.append(StateChange(IDS[0], value, after := extended_state(value, [FIRST], 1)))
    assert states.replace_all(changes) == [None] * 5
    with states.manager.open_reader(TRANSACTION_STATE_TOPIC, 0) as reader:
        active = reader.segments.active
        assert [len(window.headers) for window in active.batches(0, active.size, expected=0)] == [1]
        assert reader.log_end_offset == 5
    assert states.newest(IDS[0]) == after


@pytest.mark.parametrize("at_once", [False, True])
def test_a_state_that_is_too_large_is_refused_alone(disk: MemoryFileSystem, *, at_once: bool) -> None:
    states = opened_states(disk, "abc")
    value = empty_state(PRODUCER, 1000, 0)
    many = extended_state(value, [TopicPartition("t" * 200, number) for number in range(270_000)], 0)
    values = {"a": value, "b": many, "c": value}
    changes = [StateChange(name, None, each) for name, each in values.items()]
    found = states.replace_at_once(changes) if at_once else None
    assert at_once == (found is not None)
    errors = states.replace_all(changes) if found is None else found.errors
    assert [type(each) for each in errors] == [type(None), RecordTooLargeError, type(None)]
    assert {name for name, _ in states.all()} == {"a", "c"}


def test_a_driver_never_writes_under_a_clients_producer_id(disk: MemoryFileSystem, query: Query) -> None:
    query.run_batch(0)
    own = TransactionStates(manage(disk)).newest(APP)
    query.coordinator.close()
    states = TransactionStates(manage(disk))
    assert own is not None
    client = Producer(client_producer_id(allot_producer_id(states, ())), 0)
    written(states, own, announced := empty_state(client, 1000, 0))
    written(states, announced, value := extended_state(announced, [FIRST], 1))
    states.manager.open_log(*FIRST).append_transactional(encoded(b"client"), client)
    decided = prepared_state(value, [FIRST], 2, commit=True, raise_epoch=False)
    written(states, value, decided)
    query = Query.on(disk).start()
    query.run_batch(1)
    query.run_batch(2)
    newest = TransactionStates(manage(disk)).newest(APP)
    assert newest is not None
    assert is_of_driver(newest.producer_id)
    assert newest.producer_id > own.producer_id
    assert content(query.manager, 1) == expected(1, range(3))
    assert b"client" in content(query.manager, 0)


def test_ids_go_on_above_all_known_ones_when_their_file_is_lost(disk: MemoryFileSystem) -> None:
    states = TransactionStates(manage(disk))
    free = allot_producer_id(states, ())
    written(states, None, empty_state(Producer(client_producer_id(free + 7), 0), 1000, 0))
    disk.remove(states.manager.path(PRODUCER_IDS_FILE))
    assert allot_producer_id(states, ()) == free + 8


def changes_of(count: int) -> list[StateChange]:
    """Changes of several ids, two of one of them, and one that is refused."""
    empty = [empty_state(Producer(number, 0), 1000, now_ms=0) for number in range(count)]
    changes = [StateChange(f"app-{number}", None, value) for number, value in enumerate(empty)]
    changes.append(StateChange("app-0", empty[0], extended_state(empty[0], [FIRST, SECOND], 1)))
    return [*changes, StateChange("app-1", None, empty[1])]


def opened_states(disk: MemoryFileSystem, names: Iterable[str]) -> TransactionStates:
    """As a coordinator has them that has written a state of each id before."""
    states = TransactionStates(manage(disk))
    for name in names:
        states.replace(name, None, before := empty_state(PRODUCER, 1000, now_ms=0))
        assert states.forget(name, before)
        states.settled(name)
    return states


APPS = ("app-0", "app-1", "app-2")


def files_of(disk: MemoryFileSystem) -> dict[str, bytes]:
    directory = f"/logs/{TRANSACTION_STATE_TOPIC}-0"
    names = [name for name in disk.list(directory) if not name.endswith(".lock")]
    found = {}
    for name in names:
        with disk.open(f"{directory}/{name}", "read") as file:
            found[name] = bytes(file.read(0, file.size()))
    return found


def test_states_written_at_once_are_those_that_are_written_in_turn(disk: MemoryFileSystem) -> None:
    other = disk.copy()
    states, at_once = opened_states(disk, APPS), opened_states(other, APPS)
    errors = states.replace_all(changes_of(3))
    found = at_once.replace_at_once(changes_of(3))
    assert found is not None
    assert [str(each) for each in found.errors] == [str(each) for each in errors]
    assert isinstance(found.errors[-1], ProducerFencedError)
    assert [log is None for log in found.logs] == [error is not None for error in errors]
    assert files_of(disk) == files_of(other)
    in_memory = {name: at_once.newest(name) for name in APPS}
    assert in_memory == {name: TransactionStates(manage(other)).newest(name) for name in in_memory}
    assert at_once.sync_logs([log for log in found.logs if log is not None]) == {}
    assert TransactionStates(manage(other.crash(1, unsynced="lost"))).newest("app-2") == in_memory["app-2"]


def test_nothing_is_written_at_once_where_another_process_has_written_or_holds_the_lock(disk: MemoryFileSystem) -> None:
    states, change = opened_states(disk, APPS[:1]), changes_of(2)[:1]
    assert TransactionStates(manage(disk)).replace_at_once(change) is None  # its log is not open
    other = TransactionStates(manage(disk))
    other.replace("another", None, empty_state(PRODUCER, 1000, now_ms=0))
    before = files_of(disk)
    assert states.replace_at_once(change) is None
    assert states.replace_all(change) == [None]  # which reads what the other one wrote
    assert (
        states.replace_at_once([StateChange("app-0", change[0].value, extended_state(change[0].value, [FIRST], 1))])
        is not None
    )
    log = other.manager.open_log(TRANSACTION_STATE_TOPIC, 0)
    with log.exclusively():
        assert states.replace_at_once(change) is None
    assert files_of(disk) != before


def test_a_state_for_which_a_segment_must_begin_is_not_written_at_once() -> None:
    disk = MemoryFileSystem()
    with manage(disk) as manager:
        configs = {"segment.index.bytes": "1000", "segment.bytes": "500", "cleanup.policy": "compact"}
        manager.create_topic(TRANSACTION_STATE_TOPIC, partitions=1, configs=configs)
    states = opened_states(disk, APPS[:1])
    value: TransactionLogValue | None = None
    written_at_once = []
    for number in range(8):
        after = empty_state(Producer(number, 0), 1000, now_ms=0)
        found = states.replace_at_once([StateChange("app-0", value, after)])
        written_at_once.append(found is not None)
        if found is None:
            states.replace("app-0", value, after)
        value = after
    assert {True, False} == {*written_at_once}
    assert TransactionStates(manage(disk)).newest("app-0") == value
