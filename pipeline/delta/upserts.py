"""Tables with the newest record of each key.

Within a partition, the record with the larger offset is newer, as in compaction. A key may be in several partitions if
partitions were added to the topic; between partitions, the record with the later time is newer, and for equal times the
one with the larger partition number.

A key whose newest record is a tombstone has no row. An older record of the key may still arrive, from another partition
or when records are read again. So a second table, ``_commitlog_deleted`` in the first table's folder, has the newest
tombstone of each key that ever had one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession, functions as F

from .provenance.next_offsets import NextOffsets
from .table_progress import set_properties
from .table_rows import DELETED
from .undecodable import NO_KEY

_DELETED_PROPERTY = "commitlog.deleted"  # of a table that has had a tombstone
_COORDINATES = ("_key", "_partition", "_offset", "_timestamp")
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"  # a session setting, for commands
_TXN = "spark.databricks.delta.write."  # the prefix of Delta's writer options as session settings, for commands


def deleted_keys(path: str) -> str:
    """Returns the path of the table of tombstones; Delta ignores folders whose name begins with ``_``."""
    return f"{path.rstrip('/')}/_commitlog_deleted"


def has_deleted_keys(properties: Mapping[str, str]) -> bool:
    """Whether a table with these properties has had a tombstone."""
    return _DELETED_PROPERTY in properties


def newest_of_each_key(records: DataFrame) -> DataFrame:
    """Returns the newest record of each key. The query fails for a record without a key."""
    message = F.format_string(f"offset %d of partition %d {NO_KEY}", "offset", "partition")
    key = F.when(F.col("key").isNull(), F.raise_error(message).cast("binary")).otherwise(F.col("key"))
    of_partition = F.max_by(F.struct(*records.columns), "offset").alias("record")
    newest = F.max_by("record", F.struct("record.timestamp", "record.partition")).alias("record")
    by_partition = records.groupBy(key.alias("merged"), F.col("partition").alias("source")).agg(of_partition)
    return by_partition.groupBy("merged").agg(newest).select("record.*")


def merge(
    rows: DataFrame,
    path: str,
    properties: Mapping[str, str],
    app_id: str,
    version: int | None,
    following: NextOffsets | None = None,
) -> None:
    """Merges ``rows``, the newest record of each key, into the table at ``path``.

    If the table has ``version`` already, this changes nothing. With None, it always merges; records that the table has
    already change nothing. The commit records ``following``, the next offsets. After a crash, the tombstones may be
    stored already; the table has either all the records or none of them.
    """
    session, newest = rows.sparkSession, rows.persist()
    try:
        tombstones, has_deleted_table = newest.where(DELETED), has_deleted_keys(properties)
        if not tombstones.isEmpty():
            if not has_deleted_table:
                _create_deleted_table(tombstones, path)
            _store_tombstones(tombstones, path)
            has_deleted_table = True
        if has_deleted_table:
            rows = not_deleted_since(newest, session.read.format("delta").load(deleted_keys(path)))
        with _transaction(session, app_id, version), _recording(session, path, following, has_deleted_table):
            _merge(rows, path)
    finally:
        newest.unpersist()


def _create_deleted_table(tombstones: DataFrame, path: str) -> None:
    builder = DeltaTable.createIfNotExists(tombstones.sparkSession).location(deleted_keys(path))
    builder.addColumns(tombstones.select(*_COORDINATES).schema).execute()
    set_properties(tombstones.sparkSession, path, {_DELETED_PROPERTY: "true"})


def _store_tombstones(tombstones: DataFrame, path: str) -> None:
    columns = {name: f"new.{name}" for name in _COORDINATES}
    merge = _table(tombstones.sparkSession, deleted_keys(path)).merge(tombstones.alias("new"), "old._key = new._key")
    merge = merge.whenMatchedUpdate(sql_is_newer("new", "old"), columns)  # type: ignore[arg-type]  # it is invariant
    merge.whenNotMatchedInsert(values=columns).execute()  # type: ignore[arg-type]


def not_deleted_since(rows: DataFrame, deleted: DataFrame) -> DataFrame:
    joined = rows.alias("new").join(deleted.alias("old"), "_key", "left")
    is_newer = F.expr(f"new.{DELETED} OR old._offset IS NULL OR {sql_is_newer('new', 'old')}")
    return joined.where(is_newer).select("_key", *[F.col(f"new.`{name}`") for name in rows.columns if name != "_key"])


def _merge(rows: DataFrame, path: str) -> None:
    """Merges rows into the table; a record that is not newer than the row of its key changes nothing."""
    columns = {name: f"new.`{name}`" for name in rows.columns if name != DELETED}
    merge = _table(rows.sparkSession, path).merge(rows.alias("new"), "old._key = new._key")
    is_newer = sql_is_newer("new", "old")
    (
        merge.whenMatchedDelete(f"{is_newer} AND new.{DELETED}")
        .whenMatchedUpdate(is_newer, columns)  # type: ignore[arg-type]  # its columns are invariant
        .whenNotMatchedInsert(f"NOT new.{DELETED}", columns)  # type: ignore[arg-type]
        .execute()
    )


def sql_is_newer(one: str, other: str) -> str:
    """Returns the SQL condition that the record with alias ``one`` is newer than the record with alias ``other``."""
    time = "struct({0}._timestamp, {0}._partition)"
    return (
        f"(CASE WHEN {one}._partition = {other}._partition THEN {one}._offset > {other}._offset "
        f"ELSE {time.format(one)} > {time.format(other)} END)"
    )


def _table(session: SparkSession, path: str) -> DeltaTable:
    return DeltaTable.forPath(session, path).alias("old")


@contextmanager
def _transaction(session: SparkSession, app_id: str, version: int | None) -> Iterator[None]:
    """Gives merges in the block this ``txnAppId`` and ``txnVersion``, unless ``version`` is None."""
    settings = {} if version is None else {f"{_TXN}txnAppId": app_id, f"{_TXN}txnVersion": str(version)}
    with _settings(session, settings):
        yield


@contextmanager
def _recording(session: SparkSession, path: str, following: NextOffsets | None, has_deleted: bool) -> Iterator[None]:
    """Makes commits in the block record ``following``, with the version of the table of tombstones that it now has."""
    if following is None:
        yield
        return
    from ..write.classic_session import table_version  # noqa: PLC0415  needs py4j, which Connect's clients lack

    tombstones = table_version(session, deleted_keys(path)) if has_deleted else None
    with _settings(session, {_USER_METADATA: following._replace(tombstones=tombstones).to_json()}):
        yield


@contextmanager
def _settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            session.conf.unset(name)
