"""What the gate answers for an id that was given back after a client's request for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_commitlog.gateway.cluster.homes import Homes
from pyspark_commitlog.gateway.partitions.file_partition import FilePartition
from pyspark_commitlog.gateway.transactions.gate import Gate
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.protocol.errors import RequestError
from pyspark_commitlog.storage import (
    AppendInfo,
    LogManager,
    Producer,
    TopicPartition,
    TransactionLogValue,
    TransactionState,
    UnknownTopicOrPartitionError,
    check_batch,
)
from pyspark_commitlog.storage.format.internal.internal_topics import TopicPartitions
from pyspark_commitlog.storage.transactions.producer_ids import FIRST_PRODUCER_ID
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs import building

ID, PARTITION = "app", TopicPartition("t", 0)


@pytest.fixture
def log(disk: MemoryFileSystem) -> Iterator[FilePartition]:
    """The partition."""
    with LogManager.open("/logs", clock=disk.clock, filesystem=disk) as manager:
        yield FilePartition(*PARTITION, manager.open_log(*PARTITION))


@pytest.mark.parametrize(
    ("state", "epoch", "code"),
    [
        (TransactionState.COMPLETE_ABORT, 1, ErrorCode.invalid_producer_epoch),
        (TransactionState.COMPLETE_COMMIT, 0, ErrorCode.invalid_txn_state),
        (TransactionState.ONGOING, 0, ErrorCode.invalid_txn_state),  # of another process, which took the id
    ],
)
def test_an_id_that_was_given_back_is_checked_by_its_state_in_the_log(
    state: TransactionState, epoch: int, code: ErrorCode
) -> None:
    partitions = (TopicPartitions("t", (0,)),) if state is TransactionState.ONGOING else ()
    value = TransactionLogValue(5, epoch, 1000, state, partitions, 0)
    with pytest.raises(RequestError) as raised:
        Gate(newest=lambda _: value).check(ID, Producer(5, 0), PARTITION)
    assert raised.value.code is code


@pytest.mark.parametrize("error", [UnknownTopicOrPartitionError("the partition is lost"), OSError(5, "EIO")])
def test_a_state_that_cannot_be_read_refuses_batches_with_that_id_alone(error: Exception, log: FilePartition) -> None:
    def newest(_: str) -> TransactionLogValue:
        raise error

    gate = Gate(homes=Homes(leads=lambda _: False), newest=newest)
    batches = [
        building.batch(b"a"),
        building.batch(b"b", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True),
    ]
    checked = [check_batch(each.tobytes(), log.config) for each in batches]
    plain, transactional = log.append(checked, [None, lambda: gate.check(ID, Producer(5, 0), PARTITION)])
    assert isinstance(plain, AppendInfo)
    assert isinstance(transactional, RequestError)
    assert transactional.code is ErrorCode.not_enough_replicas


OTHER = TopicPartition("t", 1)


@pytest.mark.parametrize("state", TransactionState)
@pytest.mark.parametrize("producer", [Producer(5, 0), Producer(5, 1), Producer(6, 0), Producer(2**62, 0)])
@pytest.mark.parametrize("partition", [PARTITION, OTHER])
def test_what_the_gate_lets_through_without_the_log_is_what_passes_its_check(
    state: TransactionState, producer: Producer, partition: TopicPartition
) -> None:
    gate = Gate(newest=lambda _: None)
    assert not gate.lets(ID, producer, partition)
    gate.show(ID, TransactionLogValue(5, 0, 1000, state, (TopicPartitions("t", (0,)),), 0))
    try:
        gate.check(ID, producer, partition)
    except RequestError:
        assert not gate.lets(ID, producer, partition)
    else:
        assert gate.lets(ID, producer, partition)
        assert state is TransactionState.ONGOING


def test_the_gate_never_lets_a_writer_of_this_log_through() -> None:
    gate, driver = Gate(), Producer(FIRST_PRODUCER_ID, 0)
    gate.show(ID, TransactionLogValue(*driver, 1000, TransactionState.ONGOING, (TopicPartitions("t", (0,)),), 0))
    assert not gate.lets(ID, driver, PARTITION)
