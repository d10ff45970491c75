"""Bad records, which a table rejects, in a table of their own: bytes, partition and offset, and the reason.

A record is bad if its serde cannot decode the value, or, in mode upsert, if it has no key.
"""

from __future__ import annotations

import logging
from typing import cast

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from ...arrow.values.serde import Serde, decoded_or_reasons

DECODED, REASON = "decoded", "reason"  # columns in addition to those of the records
NO_KEY = "has no key: a table of mode upsert needs one"
# The columns of the table, and the columns of records that they come from.
COLUMNS = {
    "_topic": "topic",
    "_partition": "partition",
    "_offset": "offset",
    "_timestamp": "timestamp",
    "_key": "key",
    "_headers": "headers",
    "value": "value",
    "_reason": REASON,
}
_SAME = ("_topic", "_partition", "_offset", "_timestamp")  # identify a record, even if its topic was recreated

logger = logging.getLogger(__name__)


def with_reasons(records: DataFrame, serde: Serde | None, *, by_key: bool) -> DataFrame:
    """Returns ``records`` with a column ``reason``, null for a good record, and with a serde a column ``decoded``.

    With ``by_key``, a record without a key is bad too.
    """
    reason = F.lit(None).cast("string")
    if serde is not None:
        decoded = records.withColumn("outcome", _decoded_or_reason(F.col("value"), serde))
        records = decoded.withColumn(DECODED, F.col("outcome.decoded"))
        reason = F.col("outcome.reason")
    if by_key:
        reason = F.when(F.col("key").isNull(), F.lit(f"it {NO_KEY}")).otherwise(reason)
    return records.withColumn(REASON, reason).drop("outcome")


def first_bad(records: DataFrame, serde: Serde | None, *, by_key: bool) -> str | None:
    """Returns where a bad record is, and why it is bad: ``flights-0, offset 7: its value …``; None: no bad one."""
    bad = with_reasons(records, serde, by_key=by_key).where(F.col(REASON).isNotNull())
    found = bad.select("topic", "partition", "offset", REASON).head() if "topic" in records.columns else None
    return None if found is None else f"{found[0]}-{found[1]}, offset {found[2]}: {found[3]}"


def keep_bad(records: DataFrame, path: str, version: int | None) -> None:
    """Adds the records with a reason to the Delta table at ``path``, except those that it has already.

    ``version`` is the micro-batch, for the log; None outside a streaming query.
    """
    bad = records.where(F.col(REASON).isNotNull()).select(*[F.col(old).alias(new) for new, old in COLUMNS.items()])
    count = bad.count()
    if not count:
        return
    DeltaTable.createIfNotExists(bad.sparkSession).location(path).addColumns(bad.schema).execute()
    table = DeltaTable.forPath(bad.sparkSession, path).alias("old")
    is_same = " AND ".join(f"old.{name} <=> new.{name}" for name in _SAME)
    table.merge(bad.alias("new"), is_same).whenNotMatchedInsertAll().execute()
    of = "" if version is None else f"micro-batch {version}: "
    logger.warning("%swrote %d bad records to %s, with the reason for each", of, count, path)


def _decoded_or_reason(values: Column, serde: Serde) -> Column:
    struct = from_arrow_type(serde.type, prefer_timestamp_ntz=True)
    spark_type = StructType([StructField("decoded", struct), StructField("reason", StringType())])
    arrow_type = to_arrow_type(struct, timezone="UTC")

    def decode(column: pa.Array) -> pa.Array:
        parts = decoded_or_reasons(serde, column)
        structs = pa.concat_arrays([part.cast(arrow_type) for part, _ in parts]) if parts else pa.nulls(0, arrow_type)
        reasons = pa.array([reason for part, reason in parts for _ in range(len(part))], pa.string())
        return pa.StructArray.from_arrays([structs, reasons], ["decoded", "reason"])

    return cast(Column, arrow_udf(decode, spark_type)(values))  # type: ignore[call-overload]  # it takes structs, too
