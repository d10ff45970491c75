"""What waits between the threads that fetch and the one that writes."""

from __future__ import annotations

from threading import Thread

import pytest

from pyspark_commitlog.mirror.arrivals import Arrivals, Piece
from pyspark_commitlog.storage import BatchFields, Forwarded, Records, TopicPartition, encode_batches

FOREVER_S = 60.0


def piece(records: int) -> Piece:
    values: list[bytes | None] = [b"v"] * records
    batches = encode_batches(Records.to_append(values, values, 0), BatchFields(), batch_bytes_max=100)
    return Piece(TopicPartition("t", 0), Forwarded([(0, batches)] if records else [], 7, 0))


@pytest.mark.parametrize(("records_max", "sizes", "room"), [(10, [4, 6], 1), (None, [100, 100], 1), (3, [], 50)])
def test_what_waits_has_its_limit_and_one_fetch_may_exceed_it(
    records_max: int | None, sizes: list[int], room: int
) -> None:
    arrivals = Arrivals(1, records_max)
    for size in sizes:
        assert arrivals.put(piece(size), 0)
    if sizes:
        assert not arrivals.put(piece(room), 0)
        assert not arrivals.put(piece(0), 0)
    for size in sizes:
        found = arrivals.get(0)
        assert isinstance(found, Piece)
        assert found.records == size
    assert arrivals.get(0) is None
    assert arrivals.put(piece(room), 0)


def test_one_thread_waits_for_room_and_another_for_a_piece() -> None:
    arrivals, pieces = Arrivals(1, 5), [piece(3) for _ in range(20)]
    errors: list[BaseException] = []

    def fetching() -> None:
        for each in pieces:
            assert arrivals.put(each, FOREVER_S)
        arrivals.put(error := ValueError("the end"), FOREVER_S)
        errors.append(error)

    thread = Thread(target=fetching)
    thread.start()
    found = [arrivals.get(FOREVER_S) for _ in range(21)]
    thread.join()
    assert found == pieces + errors
