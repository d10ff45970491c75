"""Partitions of a log of which parts come from a newer copy."""

from __future__ import annotations

import pytest

from pyspark_commitlog.storage.errors import (
    ProgressMismatchError,
)
from pyspark_commitlog.storage.recovery.producer_state import PRODUCER_ID_EXPIRATION_MS
from pyspark_commitlog.storage.transactions.coordinator import TransactionCoordinator
from pyspark_commitlog.storage.transactions.hanging import abort_transaction
from pyspark_commitlog.storage.transactions.producer_ids import FIRST_PRODUCER_ID
from pyspark_commitlog.storage.transactions.transaction import Transaction
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.disk.trees import copy_file, copy_tree
from tests.support.logs.building import batch, write_transactional
from tests.support.logs.transactions import (
    APP,
    PARTITIONS,
    TOPIC,
    Query,
    manage,
    set_back_producer_ids,
)


class TestCountedPartitions:
    """Those with records that the group's committed offsets count, in a log of which parts come from a newer copy."""

    OFFSETS, STATES = "__consumer_offsets-0", "__transaction_state-0"
    IDLE_MS = 3 * PRODUCER_ID_EXPIRATION_MS  # then every producer is forgotten

    @pytest.fixture
    def disk(self, disk: MemoryFileSystem) -> MemoryFileSystem:
        """With an older copy in ``/old``, and a newer one in ``/new``, two batches and an abort later."""
        query = Query.on(disk).run(2)
        query.stop()
        copy_tree(disk, "/logs", "/old")
        query = Query.on(disk).start()
        query.abort_batch(2)
        query.run_batch(2)
        query.run_batch(3)
        query.stop()
        copy_tree(disk, "/logs", "/new")
        return disk

    def begin(self, disk: MemoryFileSystem) -> Transaction:
        counted = dict.fromkeys(PARTITIONS, 8)  # two batches of three records and a marker
        return Query.on(disk).start().coordinator.begin(PARTITIONS, groups=[APP], counted=counted)

    def mix(self, disk: MemoryFileSystem, newer: list[str]) -> None:
        copy_tree(disk, "/old", "/logs")
        for name in newer:
            copy_tree(disk, f"/new/{name}", f"/logs/{name}")

    TOLD = (
        rf"of topic t has transactions of producer {FIRST_PRODUCER_ID} up to epoch \d, .* __consumer_offsets-0, .* 2: "
    )

    @pytest.mark.parametrize("newer", [["t-0"], ["t-1"], ["t-0", "t-1"], ["t-1", STATES]], ids=", ".join)
    def test_newer_ones_are_refused_with_both_epochs(self, disk: MemoryFileSystem, newer: list[str]) -> None:
        self.mix(disk, newer)
        with pytest.raises(ProgressMismatchError, match=self.TOLD):
            self.begin(disk)

    def test_all_of_which_are_newer_than_an_empty_log_of_offsets_are_refused(self, disk: MemoryFileSystem) -> None:
        for name in disk.list(f"/logs/{self.OFFSETS}"):
            disk.remove(f"/logs/{self.OFFSETS}/{name}")
        disk.remove("/logs/recovery-point-offset-checkpoint")
        with pytest.raises(ProgressMismatchError, match=r"partition 0 of topic t .* has no record of this producer: "):
            Query.on(disk).start().coordinator.begin(PARTITIONS, groups=[APP], counted={})

    def test_newer_one_that_forgot_the_producer_is_refused_too(self, disk: MemoryFileSystem) -> None:
        self.mix(disk, ["t-1"])
        with manage(disk) as manager:  # as retention does: then its recovery point is at its end
            manager.open_log(TOPIC, 1)
        disk.clock.sleep_ms(self.IDLE_MS)
        assert not manage(disk).open_log(TOPIC, 1).producers.producers
        with pytest.raises(ProgressMismatchError, match=self.TOLD):
            self.begin(disk)

    def test_of_a_state_that_is_older_alone_are_written_by_another_producer(self, disk: MemoryFileSystem) -> None:
        copy_tree(disk, f"/old/{self.STATES}", f"/logs/{self.STATES}")
        copy_file(disk, "/old/recovery-point-offset-checkpoint", "/logs/recovery-point-offset-checkpoint")
        assert self.begin(disk).producer_id == FIRST_PRODUCER_ID + 1

    @pytest.mark.parametrize("idle_ms", [0, IDLE_MS])
    @pytest.mark.parametrize("copy", ["/old", "/new"])
    def test_of_one_moment_are_accepted(self, disk: MemoryFileSystem, copy: str, idle_ms: int) -> None:
        disk.clock.sleep_ms(idle_ms)
        copy_tree(disk, copy, "/logs")
        assert self.begin(disk).producer_id == FIRST_PRODUCER_ID

    def test_after_an_abort_and_a_takeover_are_accepted(self, disk: MemoryFileSystem) -> None:
        query = Query.on(disk).start()
        query.abort_batch(4)
        query.write(query.begin(), 4)
        query.stop()
        assert self.begin(disk).producer_id == FIRST_PRODUCER_ID

    @pytest.mark.parametrize("partition", [0, 1])
    def test_with_a_batch_outside_a_transaction_are_accepted(self, disk: MemoryFileSystem, partition: int) -> None:
        """A client of a broker, or of an older gateway, took the query's producer id, and a large epoch."""
        with manage(disk) as manager:
            data = batch(b"foreign", producer_id=FIRST_PRODUCER_ID, producer_epoch=30000, base_sequence=0)
            manager.open_log(TOPIC, partition).append(data)
        for _ in range(2):  # the query goes on as another producer, also when it is started again
            query = Query.on(disk).start()
            counted = dict.fromkeys(PARTITIONS, 8)
            begun = query.coordinator.begin(PARTITIONS, groups=[APP], counted=counted)
            assert begun.producer_id == FIRST_PRODUCER_ID + 1
            query.stop()

    def test_with_an_open_transaction_of_nobody_are_accepted_once_it_is_aborted(self, disk: MemoryFileSystem) -> None:
        with manage(disk) as manager:
            log = manager.open_log(TOPIC, 0)
            first = write_transactional(log, FIRST_PRODUCER_ID, 0, b"foreign", epoch=30000).first_offset
        with pytest.raises(ProgressMismatchError, match=rf"abort it: .* --topic t .* --start-offset {first}"):
            self.begin(disk)
        disk.lose_locks()
        with manage(disk) as manager:
            abort_transaction(manager, TOPIC, 0, first)
        assert self.begin(disk).producer_id == FIRST_PRODUCER_ID + 1

    def test_that_another_transactional_id_wrote_under_the_same_producer_id_are_accepted(
        self, disk: MemoryFileSystem
    ) -> None:
        """``producer_ids.json`` was set back, and both began where the other did not write."""
        with manage(disk) as manager:
            manager.create_topic("u", partitions=1, configs={"segment.index.bytes": "1000"})
            set_back_producer_ids(disk)
            with TransactionCoordinator.open(manager, "other") as other:
                for _ in range(20):
                    other.abort(other.begin([("u", 0)]))
                transaction = other.begin(PARTITIONS)
                assert transaction.producer_id == FIRST_PRODUCER_ID
                other.abort(transaction)
        assert self.begin(disk).producer_id == FIRST_PRODUCER_ID + 1
