"""The rows of an exported table: converts records to rows, and adds new fields to a table."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from ...storage import InvalidConfigError
from ..values import Serde, decoded
from .undecodable import DECODED

# The columns of a row besides its value, and the columns of the record that they come from.
COORDINATES = {
    "_key": "key",
    "_partition": "partition",
    "_offset": "offset",
    "_timestamp": "timestamp",
    "_headers": "headers",
}
DELETED = "_deleted"  # marks tombstones while a micro-batch is merged; not a column of the table


def to_rows(records: DataFrame, serde: Serde | None, *more: str) -> DataFrame:
    """Returns records as rows of a table. ``more`` may name one more column, which is true for tombstones."""
    coordinates = [F.col(source).alias(name) for name, source in COORDINATES.items()]
    coordinates += [F.col("value").isNull().alias(name) for name in more]
    if serde is None:
        return records.select(*coordinates, "value")
    value = F.col(DECODED) if DECODED in records.columns else decoded(F.col("value"), serde)
    return records.select(*coordinates, value.alias("value")).select(*COORDINATES, *more, "value.*")


def nullable(schema: StructType) -> StructType:
    """Returns ``schema`` with nulls allowed in all fields, since the row of a tombstone has no values."""
    return StructType([StructField(each.name, _nullable(each.dataType)) for each in schema.fields])


def _nullable(kind: DataType) -> DataType:
    match kind:
        case StructType():
            return nullable(kind)
        case ArrayType():
            return ArrayType(_nullable(kind.elementType))
        case MapType():
            return MapType(kind.keyType, _nullable(kind.valueType))
        case _:
            return kind


def in_table(session: SparkSession, path: str, rows: DataFrame) -> DataFrame:
    """Returns ``rows`` with the columns of the Delta table at ``path``, in the table's order.

    First adds fields of ``rows`` that the table lacks, even if the session's settings forbid it; they are null in
    existing rows. Raises InvalidConfigError if ``rows`` lack a column of the table, or have it with another type.
    """
    found, given = session.read.format("delta").load(path).schema, _without_deleted(rows.schema)
    if _brings_fields(found, given, path):
        _add_fields(session, path, given)
        found = session.read.format("delta").load(path).schema
    more = [field for field in rows.schema.fields if field.name == DELETED]
    return rows.to(StructType([*nullable(found).fields, *more]))


def _without_deleted(schema: StructType) -> StructType:
    return StructType([field for field in nullable(schema).fields if field.name != DELETED])


def _add_fields(session: SparkSession, path: str, schema: StructType) -> None:
    """Adds the fields of ``schema`` that the table lacks, in a commit without rows."""
    writer = session.createDataFrame([], schema).write.format("delta").option("mergeSchema", "true")
    writer.mode("append").save(path)


def _brings_fields(table: DataType, rows: DataType, path: str, at: str = "") -> bool:
    """Whether ``rows`` have fields that ``table`` lacks; compares names ignoring case, as Spark does.

    Raises InvalidConfigError if ``rows`` lack a field, or have it with another type. ``path`` is the table's path, and
    ``at`` the field that is compared, for the message.
    """
    match table, rows:
        case StructType(), StructType():
            return _struct_brings_fields(table, rows, path, at)
        case ArrayType(), ArrayType():
            return _brings_fields(table.elementType, rows.elementType, path, f"{at}.element")
        case MapType(), MapType():
            keys = _brings_fields(table.keyType, rows.keyType, path, f"{at}.key")
            return _brings_fields(table.valueType, rows.valueType, path, f"{at}.value") or keys
        case _ if table.simpleString() == rows.simpleString():
            return False
    raise InvalidConfigError(
        f"table {path}: column {at} is {table.simpleString()}, but in the values it is {rows.simpleString()}. Read the "
        "values with the type of the column, or write them to a new table. If the type only became wider, change it "
        "in the table first (ALTER TABLE … ALTER COLUMN … TYPE …, delta.enableTypeWidening)"
    )


def _struct_brings_fields(table: StructType, rows: StructType, path: str, at: str) -> bool:
    given = {field.name.lower(): field for field in rows.fields}
    if missing := [field.name for field in table.fields if field.name.lower() not in given]:
        inside = f" in {at}" if at else ""
        raise InvalidConfigError(
            f"table {path} has the columns {', '.join(missing)}{inside}, which the schema of the values lacks. Keep "
            "these fields in the schema: the column is null for values without them. To remove them, write to a new "
            "table, or drop the columns from this one"
        )
    there = {field.name.lower() for field in table.fields}
    brought = [
        _brings_fields(field.dataType, given[field.name.lower()].dataType, path, f"{at}.{field.name}".lstrip("."))
        for field in table.fields
    ]
    return any(brought) or not given.keys() <= there
