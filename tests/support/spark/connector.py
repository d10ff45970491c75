"""The jars of Spark's Kafka source, ``format("kafka")``.

They come as Kafka's own do (:mod:`tests.support.kafka.kafka_jvm`), so that a session starts without asking Ivy for
them.
"""

from __future__ import annotations

from tests.support.kafka import kafka_jvm

# Asked for one by one: the connector's own list names a token provider of 4.2.0, which Maven Central does not have, and
# much that Spark has. The preview's serves, as no test logs in.
_JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
    "org.scala-lang.modules:scala-parallel-collections_2.13:1.2.0",
)


def connector_jars() -> str:
    """Paths with commas, as ``spark.jars`` wants them; fetched on first use. Raises as ``kafka_jvm.jars``."""
    return ",".join(map(str, kafka_jvm.resolved_alone("spark-connector", *_JARS)))
