"""The rows of an exported table: converts records to rows, compares rows, and adds new fields to a table."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from ...arrow.values.serde import Serde
from ...storage import InvalidConfigError
from ..rows.values import decoded
from .command.words import COORDINATES
from .undecodable import DECODED

_ID = ("_partition", "_offset")  # identify a row among those of a topic
DELETED = "_deleted"  # marks tombstones while a micro-batch is merged; not a column of the table


def check_columns(records: DataFrame) -> None:
    """Raises InvalidConfigError if ``records`` lack a column that a row comes from."""
    missing = [name for name in (*COORDINATES.values(), "value") if name not in records.columns]
    if missing == ["headers"]:
        raise InvalidConfigError('a table has the headers of records: read with option("includeHeaders", "true")')
    if missing:
        raise InvalidConfigError(
            f'a table is written with the columns of format("commitlog"); {", ".join(missing)} are missing: keep them, '
            "and let serde= decode the values"
        )


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
    if brings_fields(found, given, path):
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


def brings_fields(table: DataType, rows: DataType, path: str, at: str = "") -> bool:
    """Whether ``rows`` have fields that ``table`` lacks; compares names ignoring case, as Spark does.

    Raises InvalidConfigError if ``rows`` lack a field, or have it with another type. ``path`` (the table's) and ``at``
    (the compared field) are for the message.
    """
    match table, rows:
        case StructType(), StructType():
            return _struct_brings_fields(table, rows, path, at)
        case ArrayType(), ArrayType():
            return brings_fields(table.elementType, rows.elementType, path, f"{at}.element")
        case MapType(), MapType():
            keys = brings_fields(table.keyType, rows.keyType, path, f"{at}.key")
            return brings_fields(table.valueType, rows.valueType, path, f"{at}.value") or keys
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
        brings_fields(field.dataType, given[field.name.lower()].dataType, path, f"{at}.{field.name}".lstrip("."))
        for field in table.fields
    ]
    return any(brought) or not given.keys() <= there


def differ(old: DataFrame, new: DataFrame) -> bool:
    """Whether two sets of rows of a table differ in a column, or one has a row more often than the other."""
    names = [name for name in new.columns if name not in _ID]
    both = _counted(old, names, 1).union(_counted(new, names, -1))
    surplus = both.groupBy(*_ID, "content").agg(F.sum("count").alias("surplus"))
    return not surplus.where(F.col("surplus") != 0).isEmpty()


def _counted(rows: DataFrame, columns: list[str], count: int) -> DataFrame:
    content = [_comparable(F.col(f"`{each}`"), rows.schema[each].dataType).alias(each) for each in columns]
    return rows.select(*_ID, F.struct(*content).alias("content"), F.lit(count).alias("count"))


def _comparable(column: Column, kind: DataType) -> Column:
    """Returns a column with the same content that Spark groups by: maps become arrays of their entries."""
    if not _has_map(kind):
        return column
    match kind:
        case MapType():
            entries = StructType().add("key", kind.keyType).add("value", kind.valueType)
            return F.transform(F.map_entries(column), lambda entry: _comparable(entry, entries))
        case ArrayType():
            return F.transform(column, lambda each: _comparable(each, kind.elementType))
        case StructType():
            fields = [_comparable(column.getField(each.name), each.dataType).alias(each.name) for each in kind.fields]
            return F.when(column.isNotNull(), F.struct(*fields))
        case _:
            return column


def _has_map(kind: DataType) -> bool:
    match kind:
        case MapType():
            return True
        case ArrayType():
            return _has_map(kind.elementType)
        case StructType():
            return any(_has_map(each.dataType) for each in kind.fields)
        case _:
            return False
