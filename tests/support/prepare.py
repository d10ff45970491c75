"""Fetch and make what the tests need once a user, before they begin: in the middle, one waits for another's.

Most of it is made when a test first asks for it, too; but JVMs of Spark that start before their archive is there do
without. Jars that cannot be had are said: only the tests that need them fail. What is there already is left as it is.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.support.kafka import broker, kafka_jvm, tiered
from tests.support.spark import spark_jvm
from tests.support.spark.connector import connector_jars
from tests.support.spark.delta_jars import delta_jars


def prepare() -> None:
    """Raises as :mod:`tests.support.kafka.kafka_jvm` where there is no JDK."""
    with ThreadPoolExecutor(max_workers=1) as beside:
        archive = beside.submit(spark_jvm.archive_classes)
        if kafka_jvm.if_fetched(kafka_jvm.classpath):
            broker.prepare()  # by this thread: a broker ends with the one that started it
        kafka_jvm.if_fetched(lambda: str(tiered.jars_of_tests()))
        kafka_jvm.if_fetched(connector_jars)
        kafka_jvm.if_fetched(delta_jars)
        archive.result()


if __name__ == "__main__":
    prepare()
