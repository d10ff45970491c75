"""A topic that a real Kafka deletes and makes again, while a mirror follows it and while none runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from pyspark_commitlog.mirror.settings import TargetSettings
from tests.mirror.support import Following, Place, contents, mirrored
from tests.support.kafka.broker import Broker, ProducerRecord, Step, Topic, create_topics, java_produce

pytestmark = [pytest.mark.slow, pytest.mark.only_all]


def produce(broker: Broker, first: int, end: int) -> None:
    steps = [step for number in range(first, end) for step in (ProducerRecord(b"%d" % number), Step.FLUSH)]
    java_produce(broker.bootstrap, "t", steps)


def make_again(broker: Broker, first: int, end: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_topics(["t"])
    admin.close()
    create_topics(broker.bootstrap, {"t": Topic()})
    produce(broker, first, end)


def test_each_topic_of_a_name_is_mirrored_from_its_start_and_once(tmp_path: Path) -> None:
    there, said = tmp_path / "target", list[str]()

    def values() -> list[int]:
        return [int(value or b"") for _, value in contents(there, "t")[0]] if (there / "t-0").exists() else []

    with Broker(tmp_path / "kafka").start() as broker:
        create_topics(broker.bootstrap, {"t": Topic()})
        source, target = Place(tmp_path, broker.bootstrap).source("one"), TargetSettings.parse({"log.dir": str(there)})
        produce(broker, 0, 10)
        with Following([source], target, report=said.append) as following:
            following.wait_until(lambda: values() == [*range(10)])
            make_again(broker, 10, 30)
            following.wait_until(lambda: values()[-1:] == [29])
        make_again(broker, 30, 60)
        mirrored([source], target, report=said.append)
    assert values() == [*range(60)]
    assert sum("topic t was deleted and made again" in each and "going on at 0" in each for each in said) == 2
