"""What the gate answers for an id that was given back after a client's request for it."""

from __future__ import annotations

import pytest

from pyspark_commitlog.gateway.transactions.gate import Gate
from pyspark_commitlog.protocol import ErrorCode, RequestError
from pyspark_commitlog.storage import Producer, TopicPartition, TransactionLogValue, TransactionState
from pyspark_commitlog.storage.format.internal.internal_topics import TopicPartitions

ID, PARTITION = "app", TopicPartition("t", 0)


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
