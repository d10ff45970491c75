"""Fetch and make what the tests need once a user, before they begin: in the middle, one waits for another's.

Most of it is made when a test first asks for it, too; but JVMs of Spark that start before their archive is there do
without. What is there already is left as it is.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.support.kafka import broker, kafka_jvm
from tests.support.spark import spark_jvm
from tests.support.spark.connector import connector_jars
from tests.support.spark.delta_jars import delta_jars


def prepare() -> None:
    """Raises as :mod:`tests.support.kafka.kafka_jvm` where there is no JDK, or a jar cannot be had."""
    with ThreadPoolExecutor(max_workers=1) as beside:
        archive = beside.submit(spark_jvm.archive_classes)
        kafka_jvm.classpath()
        broker.prepare()  # by this thread: a broker ends with the one that started it
        connector_jars()
        delta_jars()
        archive.result()


if __name__ == "__main__":
    prepare()
