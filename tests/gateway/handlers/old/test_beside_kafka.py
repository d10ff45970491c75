"""The same old requests to the gateway and to Kafka 3.9.1, the last one that serves them: the answers are the same."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.apis import APIS, ApiKey
from pyspark_commitlog.storage import Codec, format as formats
from tests.storage.format.test_down_conversion import OLD_CODECS, batch, records
from tests.support.gateway import WireClient, fetch_fields, produce_fields, serving
from tests.support.kafka.broker import Broker
from tests.support.recorded_wire import alike, plain

pytestmark = pytest.mark.slow

# The newest versions of the first are for brokers; of the others we list those of Kafka 4, which clients need.
OTHER_VERSIONS = {
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.LIST_CONFIG_RESOURCES,
}
CONTENTS = [(b"a", b"", None), (b"x" * 300,), (b"b", b"c")]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        broker.start()
        yield SimpleNamespace(address=("127.0.0.1", broker.port))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serving(tmp_path_factory.mktemp("gateway") / "log") as started:
        yield started


@pytest.fixture
def both(kafka: Any, gateway: Gateway) -> Iterator[list[WireClient]]:
    with WireClient(kafka) as one, WireClient(gateway) as other:
        yield [one, other]


def create(clients: list[WireClient], topic: str) -> None:
    kept = [{"name": "retention.ms", "value": "-1"}]  # a broker deletes records of years ago after half a minute
    for client in clients:
        asked = {"name": topic, "num_partitions": 1, "replication_factor": 1, "configs": kept}
        assert not client.ask(19, 4, topics=[asked], timeout=10_000).topics[0].error_code
        while client.ask(0, 8, **produce_fields(topic, b"")).responses[0].partition_responses[0].error_code == 3:
            pass  # the broker has not heard of it yet


def fetched(client: WireClient, topic: str, version: int, offset: int, max_bytes: int) -> Any:
    """An answer with its whole messages. Of one that does not fit ours has the beginning, Kafka 3.9.1's has nothing."""
    fields = fetch_fields(topic, offset, partition_max_bytes=max_bytes, max_bytes=max_bytes)
    answer = alike(plain(client.ask(1, version, **fields)))
    part = answer["responses"][0]["partitions"][0]
    part["records"] = part["records"][0]
    return answer


def test_the_same_versions_are_advertised(both: list[WireClient]) -> None:
    kafkas, ours = (
        {each.api_key: (each.min_version, each.max_version) for each in client.ask(18, 0).api_keys} for client in both
    )
    assert set(ours) == set(APIS)
    same = set(ours) - OTHER_VERSIONS
    assert {key: ours[key] for key in same} == {key: kafkas[key] for key in same}


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_record_batches_are_fetched_as_the_same_messages(both: list[WireClient], codec: Codec) -> None:
    topic = f"batches-{codec.name.lower()}"
    create(both, topic)
    for values in CONTENTS:
        answers = [client.ask(0, 8, **produce_fields(topic, batch(*values, codec=codec).tobytes())) for client in both]
        assert [each.responses[0].partition_responses[0].error_code for each in answers] == [0, 0]
    for version in range(4):
        for offset in range(7):
            for max_bytes in (100, 1 << 20):
                kafkas, ours = (fetched(client, topic, version, offset, max_bytes) for client in both)
                assert ours == kafkas, (version, offset, max_bytes)


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_are_produced_and_read_alike(both: list[WireClient], magic: int, codec: Codec) -> None:
    topic = f"sets-{magic}-{codec.name.lower()}"
    create(both, topic)
    data = formats.by_magic(magic).encode(records(b"a", None, b"c"), codec).tobytes()
    damaged = data[:-1] + bytes([data[-1] ^ 1])
    for version in range(3):
        for sent in (data, damaged, data[:-1], b""):
            kafkas, ours = (alike(plain(client.ask(0, version, **produce_fields(topic, sent)))) for client in both)
            assert ours == kafkas, (version, sent)
    for version in (0, 2, 4):
        kafkas, ours = (fetched(client, topic, version, 0, 1 << 20) for client in both)
        assert ours == kafkas


def test_old_offsets_metadata_and_coordinators_are_answered_alike(both: list[WireClient]) -> None:
    create(both, "places")
    for client in both:
        client.ask(0, 8, **produce_fields("places", batch(b"a", b"b").tobytes()))
    for time_ms in (-1, -2, 0, 1 << 60):
        for count in (0, 1, 5):
            asked = {"partition_index": 0, "timestamp": time_ms, "max_num_offsets": count}
            topics = [{"name": name, "partitions": [asked]} for name in ("places", "nowhere")]
            kafkas, ours = (alike(plain(client.ask(2, 0, replica_id=-1, topics=topics))) for client in both)
            assert ours == kafkas, (time_ms, count)
    kafkas, ours = (alike(plain(client.ask(3, 0, topics=[{"name": "places"}])))["topics"] for client in both)
    assert ours == kafkas
    assert np.all([client.ask(23, 0, topics=[]).topics == () for client in both])
