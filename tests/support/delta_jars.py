"""Delta's jars as files, for programs that are started again and again: each would ask Ivy for them."""

from __future__ import annotations

from tests.support import kafka_jvm

# Of what Delta's own list names, Spark has the rest, or nothing here uses it.
_IVY_MODULE = """\
<ivy-module version="2.0">
  <info organisation="spark-commitlog" module="delta-for-tests"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconf="default->master">
    <dependency org="io.delta" name="delta-spark_4.2_2.13" rev="4.4.0"/>
    <dependency org="io.delta" name="delta-storage" rev="4.4.0"/>
  </dependencies>
</ivy-module>
"""

SETTINGS = """
spark.sql.extensions                              io.delta.sql.DeltaSparkSessionExtension
spark.sql.catalog.spark_catalog                   org.apache.spark.sql.delta.catalog.DeltaCatalog
spark.databricks.delta.snapshotPartitions         2
"""


def delta_settings() -> str:
    """Lines for spark-defaults.conf; the jars are fetched on first use. Raises as ``kafka_jvm.jars``."""
    return f"spark.jars {','.join(map(str, kafka_jvm.resolved('delta', _IVY_MODULE)))}\n{SETTINGS}"
