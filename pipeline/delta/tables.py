"""Copies topics to Delta tables, and the changes of a table to records: docs/tables.md.

A row has the columns of the decoded value, or a column ``value``, and the columns of ``COORDINATES``, which have the
record's key, headers, time, partition and offset. A micro-batch is one Delta commit with ``txnAppId`` and
``txnVersion``; one that is already in the table is skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window, functions as F
from pyspark.sql.types import BinaryType

from ...arrow.values.recorded import serde_to_text
from ...arrow.values.serde import Serde, SerializationError
from ...storage import InvalidConfigError, LogManager, TopicPartition, did_you_mean
from ..job.delta_jars import check_delta, check_reachable
from ..locations import table_location
from ..rows.offsets import EARLIEST, Offsets, offsets_to_nested
from ..rows.values import encoded
from ..write.exactly_once.connect_queries import KnowsItsQuery
from ..write.exactly_once.progress import Run
from .command.words import BAD_RECORDS_PROPERTY, COORDINATES, MODE_PROPERTY, SERDE_PROPERTY, TableMode
from .provenance.next_offsets import NextOffsets
from .table_ends import check_same_log, last_rows
from .table_progress import TableProgress, properties_of, query_property, set_properties
from .table_rows import DELETED, check_columns, differ, in_table, nullable, to_rows
from .undecodable import REASON, first_bad, keep_bad, with_reasons
from .upserts import merge, newest_of_each_key

_CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")  # of a table's change feed


def table_sink(
    *,
    path: str,
    mode: str = "append",
    serde: Serde | None = None,
    txnAppId: str | None = None,  # noqa: N803  Spark's name for it, as in Delta's writer
    badRecords: str | None = None,  # noqa: N803  as in commitlog_sink
) -> TableSink:
    """Returns a function for ``writeStream.foreachBatch`` that writes each record once to the Delta table at ``path``.

    The stream must have the columns of ``format("commitlog")`` with ``includeHeaders``. ``serde`` decodes values to
    columns; without it, the column ``value`` has their bytes. A field that the table lacks is added to the table, and
    is null in existing rows. With ``mode="upsert"`` the table has the newest record of each key (see ``upserts``):
    tombstones delete rows, and a record without a key fails the query.

    A value that does not decode fails the query. With ``badRecords``, the path of another Delta table, the record is
    written there with its bytes and the reason instead, and so is a record without a key in mode upsert.

    ``txnAppId`` names the writer, by default the query's id; the batch id is the ``txnVersion``. Two queries need two
    names. Raises InvalidConfigError for an unknown mode, and for values with fields named as in ``COORDINATES``. The
    returned function raises InvalidConfigError for a table of the other mode, for a table with columns that the values
    lack or have with another type, and for a ``txnAppId`` of another query; and ProgressMismatchError for a checkpoint
    or a table that was set back, or a table that was deleted.
    """
    modes = [each.value for each in TableMode]
    if mode not in modes:
        hint = did_you_mean(mode, modes)
        raise InvalidConfigError(f"mode = {mode!r}{hint}; a table is written with {' or '.join(modes)}")
    if serde is not None and (taken := [field.name for field in serde.type if field.name in (*COORDINATES, DELETED)]):
        raise InvalidConfigError(
            f"values have the fields {', '.join(taken)}, but a table has columns of these names: rename the fields"
        )
    bad = None if badRecords is None else table_location(badRecords)
    if bad == table_location(path):
        raise InvalidConfigError(f"badRecords = {badRecords!r} is the table that rejects them: name another table")
    return TableSink(table_location(path), TableMode(mode), serde, txnAppId, bad)


@dataclass(frozen=True)
class TableSink(KnowsItsQuery):
    """The function that :func:`table_sink` returns: call it with records and a batch id."""

    path: str
    mode: TableMode
    serde: Serde | None
    app_id: str | None
    bad_records: str | None = None

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Commits the records to the table; does nothing if this version was committed before.

        Bad records are committed first, to their own table, and then the others. After a crash, each table has all its
        records or none. Spark then repeats the micro-batch, and records that a table has already are skipped.
        """
        check_delta(records.sparkSession)
        check_reachable(records.sparkSession, self.path)
        run = Run.of(records.sparkSession, self.app_id)
        with self._good(records, batch_id) as good:
            self._write(self._rows(good), run, batch_id)

    def replace(self, records: DataFrame, where: str) -> bool:
        """Replaces the rows for which the SQL condition ``where`` holds by ``records``, in one commit.

        Does nothing, and returns False, if these rows are there already. The table must exist, and be of mode append.
        Bad records are committed first, as in a micro-batch; a new field in a commit of its own, without rows.
        """
        session = records.sparkSession
        check_mode(self.path, properties_of(session, self.path), self.mode)
        with self._good(records, None) as good:
            rows = in_table(session, self.path, to_rows(good, self.serde))
            if not differ(session.read.format("delta").load(self.path).where(where), rows):
                return False
            self._overwrite(rows, where, "loaded again")
        return True

    def load(self, records: DataFrame, where: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Like :meth:`replace`, for records that are new: does not compare them, creates a missing table.

        ``before`` and ``after``: properties that the table has when the rows are committed, and afterwards. Each is set
        in a commit of its own. Raises the errors of :meth:`replace`.
        """
        session = records.sparkSession
        check_delta(session)
        with self._good(records, None) as good:
            rows = self._rows(good)
            self._create(rows, {**self._described(), **before})
            found = properties_of(session, self.path)
            check_mode(self.path, found, self.mode)
            set_properties(session, self.path, _other({**self._described(), **before}, found))
            self._overwrite(in_table(session, self.path, rows), where, "loaded")
            set_properties(session, self.path, _other(after, {**found, **before}))

    def _described(self) -> dict[str, str]:
        """Returns the properties that describe this sink, so that readers decode the tail of the log alike."""
        keeps_bad = {BAD_RECORDS_PROPERTY: self.bad_records or ""}
        return {MODE_PROPERTY: self.mode.value, SERDE_PROPERTY: serde_to_text(self.serde), **keeps_bad}

    def _overwrite(self, rows: DataFrame, where: str, what: str) -> None:
        writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", where)
        writer.option("userMetadata", f"{what} where {where}").save(self.path)

    def _create(self, rows: DataFrame, properties: Mapping[str, str]) -> None:
        """Creates the table if it is missing."""
        if not DeltaTable.isDeltaTable(rows.sparkSession, self.path):
            builder = DeltaTable.createIfNotExists(rows.sparkSession).location(self.path)
            builder = builder.addColumns(nullable(rows.drop(DELETED).schema))
            for name, value in {"delta.enableChangeDataFeed": "true", **properties}.items():
                builder = builder.property(name, value)
            builder.execute()

    @contextmanager
    def _good(self, records: DataFrame, version: int | None) -> Iterator[DataFrame]:
        """Commits the bad records, if there is a table for them, and yields the others, which are decoded once."""
        check_columns(records)
        if self.bad_records is None:
            try:
                yield records
            except (PySparkException, Py4JJavaError) as error:  # Delta raises the latter
                raise self._of_record(records, error) from None
            return
        with_reason = with_reasons(records, self.serde, by_key=self.mode is TableMode.UPSERT).persist()
        try:
            keep_bad(with_reason, self.bad_records, version)
            yield with_reason.where(F.col(REASON).isNull())
        finally:
            with_reason.unpersist()

    def _of_record(self, records: DataFrame, error: Exception) -> Exception:
        """Returns an error that names the record, if one did not decode; else ``error``."""
        if SerializationError.__name__ not in str(error):
            return error
        bad = first_bad(records, self.serde, by_key=self.mode is TableMode.UPSERT)
        return (
            SerializationError(f"{bad}; badRecords (--bad-records) keeps such records in another table")
            if bad
            else error
        )

    def _rows(self, records: DataFrame) -> DataFrame:
        if self.mode is TableMode.APPEND:
            return to_rows(records, self.serde)
        return to_rows(newest_of_each_key(records), self.serde, DELETED)

    def _write(self, rows: DataFrame, run: Run, batch_id: int) -> None:
        from ..write.foreach_batch import checkpoint_of  # noqa: PLC0415  loads numba, which readers do not need

        session = rows.sparkSession
        checkpoint, planned = checkpoint_of(session, run, batch_id)
        progress = TableProgress(session, self.path, run, batch_id, checkpoint)
        progress.check_has_noted()
        properties = self._prepare(rows, run, progress)
        rows = in_table(session, self.path, rows)
        following = NextOffsets.from_plan(checkpoint.plan_text(planned))
        with progress.noted():
            if self.mode is TableMode.UPSERT:
                merge(rows, self.path, properties, run.app_id, None if progress.is_there else batch_id, following)
            elif progress.is_there:
                progress.check_there(rows, following)
            else:
                writer = rows.write.format("delta").option("txnAppId", run.app_id).option("txnVersion", batch_id)
                writer.options(**_metadata(following)).mode("append").save(self.path)
        progress.note()

    def _prepare(self, rows: DataFrame, run: Run, progress: TableProgress) -> dict[str, str]:
        """Creates the table if it is missing, and stores mode and query in its properties, which it returns.

        Raises the errors of :meth:`TableProgress.check`, and InvalidConfigError for a table of the other mode.
        """
        session, wanted = rows.sparkSession, {**self._described(), **query_property(run)}
        self._create(rows, wanted)
        found = properties_of(session, self.path)
        check_mode(self.path, found, self.mode)
        progress.check(found)
        set_properties(session, self.path, _other(wanted, found))
        return found


def _metadata(following: NextOffsets | None) -> dict[str, str]:
    return {} if following is None else {"userMetadata": following.to_json()}


def _other(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """Returns the wanted properties that a table does not have yet."""
    return {name: value for name, value in wanted.items() if found.get(name) != value}


def check_mode(path: str, properties: Mapping[str, str], mode: TableMode) -> None:
    """Raises InvalidConfigError if the table at ``path`` was created with another mode, by its properties."""
    if properties.get(MODE_PROPERTY, mode.value) != mode.value:
        raise InvalidConfigError(
            f"table {path} was created with mode {properties[MODE_PROPERTY]!r}, not {mode.value!r}: use that mode, or "
            "write to another table"
        )


def starting_offsets(
    session: SparkSession, path: str, log_dir: str, topic: str, without_rows: Offsets | None = None
) -> str:
    """Returns the option ``startingOffsets`` with which a query begins after the largest offsets of the table's rows.

    Set it at every start: it applies until a micro-batch is committed, and Spark uses it again if the first one failed.
    Tombstones and bad records after the last row are read again, and change nothing. A partition without rows begins at
    its offset in ``without_rows``, by default at the earliest. Raises ProgressMismatchError if
    the table's last rows did not come from this log (``table_ends``).
    """
    with LogManager.open(log_dir) as manager:
        starts = dict.fromkeys(manager.topic(topic).topic_partitions, EARLIEST)
        starts |= without_rows or {}
        if DeltaTable.isDeltaTable(session, table_location(path)):
            for last in last_rows(session.read.format("delta").load(table_location(path))):
                check_same_log(manager, topic, last, path)
                starts[TopicPartition(topic, last.partition)] = last.offset + 1
    return json.dumps(offsets_to_nested(starts))


def changes_to_records(
    changes: DataFrame, *, serde: Serde | None = None, key: str | None = None, keep_partitions: bool = False
) -> DataFrame:
    """Returns the change feed of a table as rows for ``commitlog_sink``; a deleted row becomes a tombstone.

    A table of :func:`table_sink` has the columns ``_key`` and, if it was written without a serde, ``value``. For any
    other table, ``key`` names the column with the key. ``serde`` encodes the columns of its schema. The old row of an
    update is skipped, so a key must not change. With ``keep_partitions``, a record is written to the partition in its
    column ``_partition``.

    Records of a key, and of a partition, are in the order of Delta's versions and then of their offsets. If a key is in
    several partitions, its records are in the order of their times. (Without ``keep_partitions``, they then keep their
    order among the records of other keys in only one of these partitions.)

    Raises InvalidConfigError if a column is missing.
    """
    key = key or "_key"
    names = [*(["value"] if serde is None else [field.name for field in serde.type]), key, *_CHANGE_COLUMNS]
    if missing := [name for name in names if name not in changes.columns]:
        raise InvalidConfigError(
            f"the changes lack the columns {', '.join(missing)}; they have {', '.join(changes.columns)}"
        )
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
    return _in_order(changes, key, is_deleted, keep_partitions).select(
        *[column.alias(name) for name, column in fields.items()]
    )


def _in_order(changes: DataFrame, key: str, is_deleted: Column, keep_partitions: bool) -> DataFrame:
    """Returns the changes, sorted within each task into the order in which they are to be written.

    In each version, deletions come before insertions, because a row may be replaced by both. All records of a key, and
    all others of their partition, are in one task. Sorting by time keeps the order of each partition, because a
    record's time counts as the largest time up to it in its partition.
    """
    after = changes.where("_change_type <> 'update_preimage'")
    if "_offset" not in changes.columns or "_timestamp" not in changes.columns:
        return after.repartition(key).sortWithinPartitions("_commit_version", is_deleted.desc())
    by_key = Window.partitionBy(F.col(key), F.when(F.col(key).isNull(), F.col("_partition")))
    task = F.col("_partition") if keep_partitions else F.min("_partition").over(by_key)
    tasks = after.withColumn("_task", task).repartition("_task")
    in_partition = Window.partitionBy("_task", "_commit_version", "_partition").orderBy("_offset")
    timed = tasks.withColumn("_time", F.max("_timestamp").over(in_partition))
    return timed.sortWithinPartitions("_commit_version", is_deleted.desc(), "_time", "_partition", "_offset")


def _encoded(serde: Serde) -> Column:
    """Returns the encoded values; null, a tombstone, for a row in which all columns are null."""
    fields = [F.col(f"`{field.name}`") for field in serde.type]
    value = encoded(F.struct(*fields), serde)
    return F.when(F.coalesce(*[field.isNotNull() for field in fields]), value)
