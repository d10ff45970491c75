"""Brokers with tiered storage, by the ``LocalTieredStorage`` of Kafka's own tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.kafka import kafka_jvm
from tests.support.kafka.broker import Broker

_IVY_MODULE = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="spark-commitlog" module="tiered-for-tests"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    {dependencies}
  </dependencies>
</ivy-module>
"""
_TEST_JAR = """\
<dependency org="org.apache.kafka" name="{name}" rev="{release}" conf="default->master" transitive="false">
      <artifact name="{name}" type="jar" ext="jar" m:classifier="test"/>
    </dependency>"""
SOON_MS = "200"  # between two looks of the broker at what is to be copied or deleted


def jars_of_tests(release: str = kafka_jvm.KAFKA_VERSION) -> list[Path]:
    """The jars of Kafka's own tests that have ``LocalTieredStorage``."""
    names = ("kafka-storage", "kafka-clients")
    dependencies = "\n    ".join(_TEST_JAR.format(name=name, release=release) for name in names)
    return kafka_jvm.resolved(f"tiered-{release}", _IVY_MODULE.format(dependencies=dependencies))


def tiered_broker(home: Path, release: str = kafka_jvm.KAFKA_VERSION) -> Broker:
    """A broker that can have a tier; start it with :func:`properties`."""
    return Broker(home, release, jars_of_tests(release))


def properties(tier: Path) -> Mapping[str, str]:
    """What a broker with a tier in the directory ``tier`` is started with."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "rsm.config.dir": str(tier),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
        "remote.log.manager.task.interval.ms": SOON_MS,
        "log.retention.check.interval.ms": SOON_MS,
        "log.initial.task.delay.ms": SOON_MS,
        "log.segment.delete.delay.ms": "100",
    }
