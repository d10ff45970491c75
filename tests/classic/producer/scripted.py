"""What stands in for a broker in these tests: handlers and targets that do what a script says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Event

from pyspark_commitlog.classic.errors import NoBrokersForPartitionError
from pyspark_commitlog.classic.producer import CallbackHandler, Encoder, QueueItem, Sender
from pyspark_commitlog.classic.producer.targets.port import BrokerPartition, Failed, RecordSet


class StallingHandler:
    """An event handler that keeps what it gets, and stands still until ``go_on`` is set."""

    def __init__(self, *, stalled: bool = False) -> None:
        self.batches: list[list[object]] = []
        self.error: Exception | None = None
        self.calls: list[object] = []
        self.go_on, self.entered = Event(), Event()
        if not stalled:
            self.go_on.set()

    def init(self, props: Mapping[str, str]) -> None:
        self.calls.append(("init", dict(props)))

    def handle(self, events: Sequence[QueueItem], sync_producer: Sender, encoder: Encoder) -> None:
        self.entered.set()
        assert self.go_on.wait(60)
        self.batches.append([each.data for each in events])
        if self.error:
            raise self.error

    def close(self) -> None:
        self.calls.append("close")

    @property
    def handled(self) -> list[object]:
        """All messages, in the order of the batches."""
        return [each for batch in self.batches for each in batch]


class RecordingCallbacks(CallbackHandler):
    """Notes each call with its values; adds ``!`` to what is put into the queue."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def init(self, props: Mapping[str, str]) -> None:
        self.calls.append(("init", dict(props)))

    def before_enqueue(self, item: QueueItem) -> QueueItem:
        self.calls.append(("before_enqueue", item.data))
        return item._replace(data=f"{item.data}!")

    def after_enqueue(self, item: QueueItem, added: bool) -> None:
        self.calls.append(("after_enqueue", item.data, added))

    def after_dequeuing_existing_data(self, item: QueueItem | None) -> Sequence[QueueItem]:
        self.calls.append(("after_dequeuing_existing_data", item and item.data))
        return super().after_dequeuing_existing_data(item)

    def before_sending_data(self, items: Sequence[QueueItem]) -> Sequence[QueueItem]:
        self.calls.append(("before_sending_data", [each.data for each in items]))
        return [*items, QueueItem("more", items[0].topic)]

    def last_batch_before_close(self) -> Sequence[QueueItem]:
        self.calls.append(("last_batch_before_close",))
        return [QueueItem("last", "t")]

    def close(self) -> None:
        self.calls.append(("close",))


class ScriptedTarget:
    """A target of partitions that a test sets; each send gets the next of ``script``: errors by partition."""

    places_keys = False

    def __init__(self, *places: tuple[int, int]) -> None:
        self.places = [BrokerPartition(*each) for each in places]
        self.sent: list[list[RecordSet]] = []
        self.script: list[Mapping[BrokerPartition, Exception]] = []
        self.refreshed: list[str] = []
        self.unknown = 0  # how often the partitions are not known yet
        self.keys: list[Exception] = []  # what is raised for the next questions whether messages hold keys
        self.sends: list[Exception] = []  # what is raised by the next sends
        self.is_closed = False

    @property
    def has_keys(self) -> bool:
        if self.keys:
            raise self.keys.pop(0)
        return True

    def partitions(self, topic: str) -> Sequence[BrokerPartition]:
        if self.unknown:
            self.unknown -= 1
            raise NoBrokersForPartitionError(topic)
        return self.places

    def send(self, sets: Sequence[RecordSet], *, wait: bool) -> list[Failed]:
        if self.sends:
            raise self.sends.pop(0)
        errors = self.script.pop(0) if self.script else {}
        self.sent.append([each for each in sets if each.place not in errors])
        return [Failed(number, errors[each.place]) for number, each in enumerate(sets) if each.place in errors]

    def refresh(self, topic: str) -> None:
        self.refreshed.append(topic)

    def close(self) -> None:
        self.is_closed = True
