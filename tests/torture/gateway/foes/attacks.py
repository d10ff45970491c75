"""What clients of no good will ask for: each request must be refused, and leave nothing in the log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from pyspark_commitlog.protocol.apis import APIS, ApiKey
from pyspark_commitlog.storage import Producer
from tests.gateway.handlers.access.test_reserved_names import REQUESTS, RESERVED, WRITER
from tests.gateway.handlers.transactions.test_foreign_producers import NOBODY, SINK, VERSIONS, WITH_ID, produced
from tests.support.gateway import Listening, WireClient
from tests.support.transactions import WireProducer
from tests.torture.gateway.clients import PLAIN, TRANSACTIONAL, Told

FOREIGN = b"foreign"  # the value of all records that they send, except to reserved names
NAMES = ("foe", "__admin_client")  # client ids; the second is that of Kafka's tools
PAUSE_S = 0.05  # at most, between two requests
SINKS_IDS = (SINK, SINK + 1, SINK + 12345)
EPOCHS = (0, 1, 30_000)


def attack(server: Listening, told: Told, chance: Random, ending: threading.Event) -> None:
    """A client that attacks until it is told to end, and connects again where the gateway was killed."""
    while not ending.is_set():
        with suppress(OSError, EOFError), WireClient(server, chance.choice(NAMES)) as client:
            while not ending.wait(chance.uniform(0, PAUSE_S)):
                which = chance.choice(ATTACKS)
                code = which(client, chance)
                if not code:
                    told.faults.append(f"not refused: {which.__name__}")
                told.notes["attacks refused"] += 1
        ending.wait(PAUSE_S)


# With the ids of other producers


def write_into_a_transaction(client: WireClient, chance: Random) -> int:
    """With the producer of a transaction of another client, or of none."""
    producer, sequence = chance.choice([*_transactional(client), Producer(NOBODY, 0)]), chance.randrange(5)
    return _produced(client, chance, producer, transactional=True, base_sequence=sequence)


def begin_a_transaction_of_nobody(client: WireClient, chance: Random) -> int:
    version = chance.choice(VERSIONS[WITH_ID:])
    head: dict[str, Any] = {"producer_id": NOBODY, "transactional": True}
    return produced(client, chance.choice((PLAIN, TRANSACTIONAL)), version, "nobody", **head)


def write_as_a_transactional_producer(client: WireClient, chance: Random) -> int:
    """Beside its transactions."""
    producers = _transactional(client) or [Producer(SINK, 0)]
    return _produced(client, chance, chance.choice(producers)._replace(epoch=chance.choice(EPOCHS)))


def write_as_a_sink(client: WireClient, chance: Random) -> int:
    return _produced(client, chance, _sink(chance), transactional=chance.random() < 0.5)


def go_on_as_a_sink(client: WireClient, chance: Random) -> int:
    """With requests about a transaction; on an object store, any client may abort what is not there."""
    owner = WireProducer(client, WRITER)
    owner.producer = _sink(chance)
    asks: list[Callable[[], int]] = [
        lambda: owner.add(PLAIN),
        lambda: owner.produce(PLAIN, FOREIGN),
        owner.end,
    ]
    return chance.choice(asks)()


def end_a_transaction_of_a_sink(client: WireClient, chance: Random) -> int:
    """With a marker, as coordinators send them."""
    producer = _sink(chance)
    marker = {"producer_id": producer.id, "producer_epoch": producer.epoch, "coordinator_epoch": 0}
    topics = [{"name": PLAIN, "partition_indexes": (0,)}]
    markers = [{**marker, "transaction_result": chance.random() < 0.5, "topics": topics}]
    answer = client.ask(ApiKey.WRITE_TXN_MARKERS, 1, markers=markers)
    return int(answer.markers[0].topics[0].partitions[0].error_code)


def _transactional(client: WireClient) -> list[Producer]:
    """The producers of the transactional ids that are there, with epochs that they may have."""
    listed = client.ask(ApiKey.LIST_TRANSACTIONS, 0, state_filters=(), producer_id_filters=()).transaction_states
    return [Producer(each.producer_id, epoch) for each in listed for epoch in range(3)]


def _sink(chance: Random) -> Producer:
    return Producer(chance.choice(SINKS_IDS), chance.choice(EPOCHS))


def _produced(client: WireClient, chance: Random, producer: Producer, **head: Any) -> int:
    topic, version = chance.choice((PLAIN, TRANSACTIONAL)), chance.choice(VERSIONS)
    return produced(client, topic, version, producer_id=producer.id, producer_epoch=producer.epoch, **head)


# With names that clients may not use


def change_a_reserved_name(client: WireClient, chance: Random) -> int:
    """By any request, in any version."""
    key, fields, find = chance.choice(REQUESTS)
    version = chance.randint(APIS[key].lowest, APIS[key].highest)
    return _code(find(client.ask(key, version, **{"timeout": 1000, **fields})))


def delete_progress(client: WireClient, chance: Random) -> int:
    """That of a sink: its group, or the group's offsets."""
    if chance.random() < 0.5:
        version = chance.randint(APIS[ApiKey.DELETE_GROUPS].lowest, APIS[ApiKey.DELETE_GROUPS].highest)
        return _code(client.ask(ApiKey.DELETE_GROUPS, version, groups_names=[WRITER]).results[0])
    topics = [{"name": RESERVED, "partitions": [{"partition_index": 0}]}]
    answer = client.ask(ApiKey.OFFSET_DELETE, 0, group_id=WRITER, topics=topics)
    return int(answer.error_code) or _code(answer.topics[0].partitions[0])


def write_to_an_internal_topic(client: WireClient, chance: Random) -> int:
    topic = chance.choice(("__consumer_offsets", "__transaction_state"))
    return produced(client, topic, chance.choice(VERSIONS), producer_epoch=-1, base_sequence=-1)


def _code(answer: Any) -> int:
    names = ("partition_error_code", "error_code")
    return int(next(getattr(answer, name) for name in names if hasattr(answer, name)))


ATTACKS: tuple[Callable[[WireClient, Random], int], ...] = (
    write_into_a_transaction,
    begin_a_transaction_of_nobody,
    write_as_a_transactional_producer,
    write_as_a_sink,
    go_on_as_a_sink,
    end_a_transaction_of_a_sink,
    change_a_reserved_name,
    delete_progress,
    write_to_an_internal_topic,
)
