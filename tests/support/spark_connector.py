"""The jars of Spark's Kafka source, ``format("kafka")``.

They come as Kafka's own do (:mod:`tests.support.kafka_jvm`), so that a session starts without asking Ivy for them.
"""

from __future__ import annotations

from tests.support import kafka_jvm

# Asked for one by one: the connector's own list names a token provider of 4.2.0, which Maven Central does not have, and
# much that Spark has. The preview's serves, as no test logs in.
_IVY_MODULE = """\
<ivy-module version="2.0">
  <info organisation="spark-commitlog" module="spark-kafka-for-tests"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconf="default->master">
    <dependency org="org.apache.spark" name="spark-sql-kafka-0-10_2.13" rev="4.2.0"/>
    <dependency org="org.apache.spark" name="spark-token-provider-kafka-0-10_2.13" rev="4.1.0-preview1"/>
    <dependency org="org.apache.kafka" name="kafka-clients" rev="3.9.2"/>
    <dependency org="org.apache.commons" name="commons-pool2" rev="2.13.1"/>
    <dependency org="org.scala-lang.modules" name="scala-parallel-collections_2.13" rev="1.2.0"/>
  </dependencies>
</ivy-module>
"""


def connector_jars() -> str:
    """Paths with commas, as ``spark.jars`` wants them; fetched on first use. Raises as ``kafka_jvm.jars``."""
    return ",".join(map(str, kafka_jvm.resolved("spark-connector", _IVY_MODULE)))
