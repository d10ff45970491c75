"""Topics as Delta tables, and the changes of a table as records: docs/tables.md.

A row has the columns of the decoded value, or ``value``, and those of ``COORDINATES``, which say where it comes from. A
micro-batch is one commit of Delta's under ``txnAppId`` and ``txnVersion``; one that is in the table is passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from urllib.parse import urlsplit

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructType

from pyspark_commitlog.pipeline.columns import nearest
from pyspark_commitlog.pipeline.offsets import EARLIEST, TopicPartition, offsets_to_nested
from pyspark_commitlog.pipeline.progress import Run
from pyspark_commitlog.pipeline.serdes import Serde
from pyspark_commitlog.pipeline.values import decoded, encoded
from pyspark_commitlog.storage import InvalidConfigError, LogManager

# What a row has beside its value, and the column of the record that it comes from.
COORDINATES = {
    "_key": "key",
    "_partition": "partition",
    "_offset": "offset",
    "_timestamp": "timestamp",
    "_headers": "headers",
}
_DELETED = "_deleted"  # beside them while a micro-batch is merged
_MODE_PROPERTY = "commitlog.mode"
_TXN = "spark.databricks.delta.write."  # what the options of Delta's writer are called for commands, which take none
_CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")  # of a table's change feed


class Mode(Enum):
    """What a table holds of a topic."""

    APPEND = "append"  # a row a record
    UPSERT = "upsert"  # the newest record of each key, none where that is a tombstone


def table_sink(
    *,
    path: str,
    mode: str = "append",
    serde: Serde | None = None,
    txnAppId: str | None = None,  # noqa: N803  Spark's name for it, as in Delta's writer
) -> TableSink:
    """The function for ``writeStream.foreachBatch`` that writes records to the Delta table at ``path``, each once.

    The stream has the columns of ``format("commitlog")`` with ``includeHeaders``. ``serde`` decodes values to columns;
    without, the column ``value`` has their bytes. With ``mode="upsert"`` the table holds the newest record of each key,
    as a compacted topic does: tombstones delete, and a record without a key fails the query.

    ``txnAppId`` names the writer, by default the query's id; the batch id is the ``txnVersion``. Raises
    InvalidConfigError for an unknown mode, and for values with fields of the names in ``COORDINATES``; the function
    itself raises it for a table of the other mode.
    """
    modes = [each.value for each in Mode]
    if mode not in modes:
        raise InvalidConfigError(f"mode = {mode!r}{nearest(mode, modes)}; a table is written with {' or '.join(modes)}")
    if serde is not None and (taken := [field.name for field in serde.type if field.name in (*COORDINATES, _DELETED)]):
        raise InvalidConfigError(f"values have the fields {', '.join(taken)}: names of columns that every table has")
    return TableSink(absolute(path), Mode(mode), serde, txnAppId)


def absolute(path: str) -> str:
    """``path`` as Delta must have it: a relative one it takes for the name of a table. Those with a scheme stay."""
    return path if urlsplit(path).scheme else os.path.abspath(path)


@dataclass(frozen=True)
class TableSink:
    """What :func:`table_sink` returns: call it with records and a batch id."""

    path: str
    mode: Mode
    serde: Serde | None
    app_id: str | None

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Commit the records; nothing happens where this version was committed before."""
        session = records.sparkSession
        app_id = Run.of(session, self.app_id).app_id
        if self.mode is Mode.APPEND:
            rows = _to_rows(records, self.serde)
            self._ensure_table(session, rows.schema)
            writer = rows.write.format("delta").option("txnAppId", app_id).option("txnVersion", batch_id)
            writer.mode("append").save(self.path)
        else:
            rows = _to_rows(_newest_of_each_key(records), self.serde, _DELETED)
            self._ensure_table(session, rows.drop(_DELETED).schema)
            with _transaction(session, app_id, batch_id):
                self._merge(rows)

    def _ensure_table(self, session: SparkSession, schema: StructType) -> None:
        """Raises InvalidConfigError where the table is kept in the other mode."""
        if not DeltaTable.isDeltaTable(session, self.path):
            builder = DeltaTable.createIfNotExists(session).location(self.path).addColumns(schema)
            builder.property("delta.enableChangeDataFeed", "true").property(_MODE_PROPERTY, self.mode.value).execute()
        details = DeltaTable.forPath(session, self.path).detail().select("properties").head()
        found = (details[0] if details else {}).get(_MODE_PROPERTY, self.mode.value)
        if found != self.mode.value:
            raise InvalidConfigError(f"table {self.path} was begun with mode {found!r}, not {self.mode.value!r}")

    def _merge(self, rows: DataFrame) -> None:
        """A row that is there knows its offset: a record that is not newer changes nothing."""
        columns = {name: f"new.`{name}`" for name in rows.columns if name != _DELETED}
        table = DeltaTable.forPath(rows.sparkSession, self.path).alias("old")
        merge = table.merge(rows.alias("new"), "old._key = new._key")
        is_newer = "(new._partition <> old._partition OR new._offset > old._offset)"
        (
            merge.whenMatchedDelete(f"{is_newer} AND new.{_DELETED}")
            .whenMatchedUpdate(is_newer, columns)  # type: ignore[arg-type]  # its columns are invariant
            .whenNotMatchedInsert(f"NOT new.{_DELETED}", columns)  # type: ignore[arg-type]
            .execute()
        )


def _newest_of_each_key(records: DataFrame) -> DataFrame:
    """A key lies in one partition, where the largest offset is the newest."""
    told = F.format_string(
        "offset %d of partition %d has no key: a table of mode upsert has none", "offset", "partition"
    )
    key = F.when(F.col("key").isNull(), F.raise_error(told).cast("binary")).otherwise(F.col("key"))
    newest = F.max_by(F.struct(*COORDINATES.values(), "value"), F.struct("offset", "partition"))
    return records.groupBy(key.alias("merged")).agg(newest.alias("record")).select("record.*")


def _to_rows(records: DataFrame, serde: Serde | None, *more: str) -> DataFrame:
    """Records as rows of a table; ``more`` may name the column that tells tombstones."""
    coordinates = [F.col(source).alias(name) for name, source in COORDINATES.items()]
    coordinates += [F.col("value").isNull().alias(name) for name in more]
    if serde is None:
        return records.select(*coordinates, "value")
    whole = records.select(*coordinates, decoded(F.col("value"), serde).alias("value"))
    return whole.select(*COORDINATES, *more, "value.*")


@contextmanager
def _transaction(session: SparkSession, app_id: str, version: int) -> Iterator[None]:
    """What a merge inside is committed as."""
    settings = {f"{_TXN}txnAppId": app_id, f"{_TXN}txnVersion": str(version)}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            session.conf.unset(name)


def starting_offsets(session: SparkSession, path: str, log_dir: str, topic: str) -> str:
    """The option ``startingOffsets`` that goes on behind what is in the table, for a query without a checkpoint."""
    with LogManager.open(log_dir) as manager:
        starts = dict.fromkeys((TopicPartition(topic, number) for number in manager.topic(topic).partitions), EARLIEST)
    if DeltaTable.isDeltaTable(session, absolute(path)):
        rows = session.read.format("delta").load(absolute(path)).groupBy("_partition").agg(F.max("_offset")).collect()
        starts |= {TopicPartition(topic, partition): offset + 1 for partition, offset in rows}
    return json.dumps(offsets_to_nested(starts))


def changes_to_records(
    changes: DataFrame, *, serde: Serde | None = None, key: str | None = None, keep_partitions: bool = False
) -> DataFrame:
    """The change feed of a table as rows for ``commitlog_sink``: a deleted row is a tombstone.

    A table of :func:`table_sink` has keys and, without ``serde``, values; of any other ``key`` names the column with
    the key. ``serde`` encodes the columns of its schema. What a row was before an update is passed over, so a key must
    not change. With ``keep_partitions`` a record goes where the column ``_partition`` says. Records of a key, and of a
    partition, are in the order of Delta's versions and then of their offsets.

    Raises InvalidConfigError where a column is missing.
    """
    key = key or "_key"
    names = [*(["value"] if serde is None else [field.name for field in serde.type]), key, *_CHANGE_COLUMNS]
    if missing := [name for name in names if name not in changes.columns]:
        raise InvalidConfigError(f"the changes lack {', '.join(missing)}; they have {', '.join(changes.columns)}")
    is_deleted = F.col("_change_type") == "delete"
    fields = {
        "key": F.col(key) if changes.schema[key].dataType == BinaryType() else F.col(key).cast("string"),
        "value": F.when(~is_deleted, F.col("value") if serde is None else _encoded(serde)),
        "timestamp": F.col("_commit_timestamp"),
    }
    if "_timestamp" in changes.columns:
        fields["timestamp"] = F.when(is_deleted, F.col("_commit_timestamp")).otherwise(F.col("_timestamp"))
    if "_headers" in changes.columns:
        fields["headers"] = F.when(~is_deleted, F.col("_headers"))
    if keep_partitions:
        fields["partition"] = F.col("_partition")
    return _in_order(changes, key, is_deleted).select(*[column.alias(name) for name, column in fields.items()])


def _in_order(changes: DataFrame, key: str, is_deleted: Column) -> DataFrame:
    """What was deleted goes before what was inserted at once: a row may be replaced so."""
    after = changes.where("_change_type <> 'update_preimage'")
    if "_offset" not in changes.columns:
        return after.repartition(key).sortWithinPartitions("_commit_version", is_deleted.desc())
    order = ("_commit_version", is_deleted.desc(), "_partition", "_offset")
    return after.repartition("_partition").sortWithinPartitions(*order)


def _encoded(serde: Serde) -> Column:
    """A row without a value is a tombstone in a table of mode append."""
    fields = [F.col(f"`{field.name}`") for field in serde.type]
    value = encoded(F.struct(*fields), serde)
    return F.when(F.coalesce(*[field.isNotNull() for field in fields]), value)
