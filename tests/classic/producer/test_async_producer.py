"""The queue of an asynchronous producer: a scripted load, a target that stands still, and a clock that does too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Self
from unittest.mock import Mock

import pytest

from pyspark_commitlog.classic.errors import NotSentError, QueueClosedError, QueueFullError
from pyspark_commitlog.classic.producer import CallbackHandler, Producer, ProducerData, QueueItem
from pyspark_commitlog.storage import Clock, SystemClock
from tests.classic.producer.reading import values_in
from tests.classic.producer.scripted import RecordingCallbacks, StallingHandler
from tests.support.clock import ManualClock
from tests.support.waiting import soon


class Producing:
    """An asynchronous producer with a handler and a clock that stand still when the test says so."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, object],
        *,
        stalled: bool = False,
        callbacks: CallbackHandler | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.clock, self.handler = ManualClock(), StallingHandler(stalled=stalled)
        given = {"log.dir": str(directory), "producer.type": "async", **settings}
        self.producer = Producer(
            given, event_handler=self.handler, callback_handler=callbacks, clock=clock or self.clock
        )

    def send(self, *data: object) -> None:
        self.producer.send(ProducerData("t", None, list(data)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.handler.go_on.set()
        self.producer.close()


def fill(producing: Producing) -> None:
    """A handler that stands still has one batch of two, and the queue is full with three."""
    producing.send(1, 2)
    assert producing.handler.entered.wait(60)
    producing.send(3, 4, 5)


def test_a_batch_leaves_when_it_has_batch_size_messages(tmp_path: Path) -> None:
    with Producing(tmp_path, {"batch.size": 2}) as producing:
        producing.send(1, 2, 3, 4, 5)
        soon(lambda: producing.handler.batches == [[1, 2], [3, 4]])
        assert producing.producer.figures.queue_size == 1


def test_a_batch_that_is_not_full_leaves_when_queue_time_is_over(tmp_path: Path) -> None:
    with Producing(tmp_path, {"batch.size": 3, "queue.time": 100}) as producing:
        producing.send(1, 2)
        producing.clock.advance(99)
        assert producing.handler.batches == []
        producing.clock.advance(1)
        soon(lambda: producing.handler.batches == [[1, 2]])
        producing.send(3)
        soon(lambda: producing.clock.alarms == 1)  # it waits for more
        producing.clock.advance(100)
        soon(lambda: producing.handler.batches == [[1, 2], [3]])


def test_a_stalled_target_fills_the_queue_and_further_messages_are_dropped(tmp_path: Path) -> None:
    with Producing(
        tmp_path, {"batch.size": 2, "queue.size": 3, "queue.enqueueTimeout.ms": 0}, stalled=True
    ) as producing:
        fill(producing)
        with pytest.raises(QueueFullError, match=r"after 0 of 2 messages.*queue\.size") as full:
            producing.send(6, 7)
        assert full.value.accepted == 0
        assert producing.producer.figures[:4] == (6, 1, 3, 0)  # 7 was not offered
        producing.handler.go_on.set()
        soon(lambda: producing.producer.figures.queue_size == 1)
        producing.send(8)
    assert producing.handler.handled == [1, 2, 3, 4, 5, 8]


def test_a_list_is_accepted_as_far_as_there_is_room(tmp_path: Path) -> None:
    with Producing(
        tmp_path, {"batch.size": 2, "queue.size": 3, "queue.enqueueTimeout.ms": 0}, stalled=True
    ) as producing:
        producing.send(1, 2)
        assert producing.handler.entered.wait(60)
        with pytest.raises(QueueFullError) as full:
            producing.send(3, 4, 5, 6, 7)
        assert full.value.accepted == 3
    assert producing.handler.handled == [1, 2, 3, 4, 5]


def test_a_send_waits_for_room_until_its_time_is_over(tmp_path: Path) -> None:
    settings = {"batch.size": 2, "queue.size": 3, "queue.enqueueTimeout.ms": 500}
    with Producing(tmp_path, settings, stalled=True) as producing, ThreadPoolExecutor(1) as pool:
        fill(producing)
        sending = pool.submit(producing.send, 6)
        soon(lambda: producing.clock.alarms == 1)  # it waits
        producing.clock.advance(499)
        assert not sending.done()
        producing.clock.advance(1)
        with pytest.raises(QueueFullError):
            sending.result(60)
        assert producing.producer.figures.dropped_events == 1


def test_a_send_that_waits_goes_on_once_there_is_room(tmp_path: Path) -> None:
    settings = {"batch.size": 2, "queue.size": 3, "queue.enqueueTimeout.ms": -1}
    with Producing(tmp_path, settings, stalled=True) as producing, ThreadPoolExecutor(1) as pool:
        fill(producing)
        sending = pool.submit(producing.send, 6, 7, 8, 9, 10, 11)
        producing.clock.advance(10**9)
        assert not sending.done()
        producing.handler.go_on.set()
        assert sending.result(60) is None
    assert producing.handler.handled == list(range(1, 12))


def test_a_send_that_waits_when_the_producer_is_closed_was_not_accepted(tmp_path: Path) -> None:
    settings = {"batch.size": 2, "queue.size": 3, "queue.enqueueTimeout.ms": -1}
    with Producing(tmp_path, settings, stalled=True) as producing, ThreadPoolExecutor(2) as pool:
        fill(producing)
        sending = pool.submit(producing.send, 6)
        soon(lambda: producing.producer._async._queue._waiting == 1)  # type: ignore[union-attr]
        closing = pool.submit(producing.producer.close)
        with pytest.raises(QueueClosedError) as closed:
            sending.result(60)
        assert closed.value.accepted == 0
        producing.handler.go_on.set()
        closing.result(60)
    assert producing.handler.handled == [1, 2, 3, 4, 5]


def test_with_a_queue_time_of_zero_the_thread_rests_while_there_is_nothing_to_send(tmp_path: Path) -> None:
    with Producing(tmp_path, {"queue.time": 0}) as producing:
        soon(lambda: producing.clock.alarms == 1)
        producing.send(1)
        producing.clock.advance(1)
        soon(lambda: producing.handler.handled == [1])


def test_what_was_accepted_is_sent_although_a_handler_fails_to_close(tmp_path: Path) -> None:
    callbacks = RecordingCallbacks()
    callbacks.close = failing  # type: ignore[method-assign]
    with Producing(tmp_path, {}, callbacks=callbacks) as producing:
        target, closed = producing.producer._sync, Mock(wraps=producing.producer._sync.close)
        target.close = closed  # type: ignore[method-assign]
        producing.handler.close = failing  # type: ignore[method-assign]
        producing.send("x", "y")
        with pytest.raises(OSError, match="no"):
            producing.producer.close()
        assert producing.handler.handled == ["x!", "y!", "last"]
        closed.assert_called_once()


def failing() -> None:
    raise OSError("no")


def test_after_close_nothing_is_accepted(tmp_path: Path) -> None:
    producing = Producing(tmp_path, {})
    producing.producer.close()
    with pytest.raises(QueueClosedError):
        producing.send(1)
    producing.producer.close()
    assert producing.handler.calls == [("init", {}), "close"]


@pytest.mark.parametrize("timeout_ms", [0, 5, -1])
def test_closing_under_load_loses_nothing_that_was_accepted(tmp_path: Path, timeout_ms: int) -> None:
    accepted: list[list[int]] = [[] for _ in range(4)]

    def load(producing: Producing, mine: list[int], first: int) -> None:
        for number in range(first, first + 10**6):
            try:
                producing.send(number)
            except QueueClosedError:
                return
            except QueueFullError:
                continue
            mine.append(number)

    settings = {"batch.size": 7, "queue.size": 20, "queue.enqueueTimeout.ms": timeout_ms}
    producing = Producing(tmp_path, settings, clock=SystemClock())
    with ThreadPoolExecutor(4) as pool:
        for number, mine in enumerate(accepted):
            pool.submit(load, producing, mine, number * 10**6)
        soon(lambda: len(producing.handler.batches) > 20)
        producing.producer.close()
    assert sorted(producing.handler.handled, key=str) == sorted(chain(*accepted), key=str)
    assert producing.producer.figures.queue_size == 0


def test_callbacks_are_called_in_the_documents_order_with_their_values(tmp_path: Path) -> None:
    callbacks = RecordingCallbacks()
    clock = ManualClock()
    settings = {
        "log.dir": str(tmp_path),
        "producer.type": "async",
        "queue.time": 100,
        "serializer.class": "kafka.serializer.StringEncoder",
        "callback.handler.props": "a=1, b=2",
    }
    producer = Producer(settings, callback_handler=callbacks, clock=clock)
    producer.send(ProducerData("t", None, "x"))
    soon(lambda: len(callbacks.calls) == 4)
    clock.advance(100)
    soon(lambda: len(callbacks.calls) == 6)
    soon(lambda: clock.alarms == 1)  # it waits for more
    clock.advance(100)
    soon(lambda: len(callbacks.calls) == 7)
    producer.send(ProducerData("t", None, "y"))
    producer.close()
    assert callbacks.calls[:7] == [
        ("init", {"a": "1", "b": "2"}),
        ("before_enqueue", "x"),
        ("after_enqueue", "x!", True),
        ("after_dequeuing_existing_data", "x!"),
        ("after_dequeuing_existing_data", None),
        ("before_sending_data", ["x!"]),
        ("after_dequeuing_existing_data", None),
    ]
    rest = callbacks.calls[7:]
    assert sorted(rest[:4], key=str) == [
        ("after_dequeuing_existing_data", "y!"),
        ("after_enqueue", "y!", True),
        ("before_enqueue", "y"),
        ("close",),
    ]
    assert rest[4:] == [("last_batch_before_close",), ("before_sending_data", ["y!", "last"])]
    assert values_in(tmp_path) == [b"x!", b"more", b"y!", b"last", b"more"]


def test_callbacks_see_what_is_dropped(tmp_path: Path) -> None:
    callbacks = RecordingCallbacks()
    settings = {"batch.size": 1, "queue.size": 1, "queue.enqueueTimeout.ms": 0}
    with Producing(tmp_path, settings, stalled=True, callbacks=callbacks) as producing:
        producing.send(1)
        assert producing.handler.entered.wait(60)
        producing.send(2)
        with pytest.raises(QueueFullError):
            producing.send(3)
        assert callbacks.calls[-2:] == [("before_enqueue", 3), ("after_enqueue", "3!", False)]


def test_callbacks_see_what_waited_for_room_until_the_producer_was_closed(tmp_path: Path) -> None:
    callbacks = RecordingCallbacks()
    settings = {"batch.size": 1, "queue.size": 1, "queue.enqueueTimeout.ms": -1}
    errors: list[Exception] = []
    with Producing(tmp_path, settings, stalled=True, callbacks=callbacks) as producing:

        def send() -> None:
            try:
                producing.send(1, 2, 3)
            except Exception as error:
                errors.append(error)

        sending = Thread(target=send)
        sending.start()
        soon(lambda: callbacks.calls[-1] == ("before_enqueue", 3))
        closing = Thread(target=producing.producer.close)
        closing.start()
        sending.join(60)
        assert ("after_enqueue", "3!", False) in callbacks.calls
        producing.handler.go_on.set()
        closing.join(60)
    assert [type(each) for each in errors] == [QueueClosedError]


def test_callbacks_may_fill_a_batch_with_more_than_was_dequeued(tmp_path: Path) -> None:
    class Doubling(CallbackHandler):
        def after_dequeuing_existing_data(self, item: QueueItem | None) -> Sequence[QueueItem]:
            return [item, item] if item else []

    with Producing(tmp_path, {"batch.size": 3}, callbacks=Doubling()) as producing:
        producing.send(1, 2, 3)
        soon(lambda: producing.handler.batches == [[1, 1, 2, 2]])
    assert producing.handler.batches == [[1, 1, 2, 2], [3, 3]]


def test_a_callback_that_fails_loses_its_message_and_no_other(tmp_path: Path) -> None:
    class Failing(CallbackHandler):
        def after_dequeuing_existing_data(self, item: QueueItem | None) -> Sequence[QueueItem]:
            if item and item.data == 2:
                raise LookupError
            return super().after_dequeuing_existing_data(item)

    with Producing(tmp_path, {"batch.size": 2}, callbacks=Failing()) as producing:
        producing.send(1, 2, 3)
        soon(lambda: producing.handler.batches == [[1, 3]])
        assert producing.producer.figures.lost_events == 1


def test_a_batch_whose_handler_fails_is_lost_and_the_next_ones_are_sent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Producing(tmp_path, {"batch.size": 2}) as producing:
        producing.handler.error = OSError("the disk is gone")
        producing.send(1, 2)
        soon(lambda: producing.producer.figures.lost_events == 2)
        producing.handler.error = NotSentError("one of them", [QueueItem(3, "t")])
        producing.send(3, 4)
        soon(lambda: producing.producer.figures.lost_events == 3)
        producing.handler.error = None
        producing.send(5, 6)
    assert producing.handler.batches == [[1, 2], [3, 4], [5, 6]]
    assert "2 of 2 messages of a batch are lost" in caplog.text
    assert "the disk is gone" in caplog.text
