"""``spark.read.format("commitlog")``: topics of a log directory, with the columns of Spark's Kafka source."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from ..storage import LogStoreError
from .read.batch import batch_reader
from .read.options import Columns, ReadOptions, Use
from .read.positions import PositionBatchReader, refused_stream
from .read.stream import RefusedStreamReader, StreamReader
from .workers.border import errors_end_here
from .workers.memory import freeze_worker_imports
from .workers.quiet_end import end_quietly


@errors_end_here
class CommitLogDataSource(DataSource):
    """The data source ``commitlog``: reads topics in batches and streams, and writes DataFrames to topics.

    Options of a read: ``path`` (the log directory), one of ``subscribe`` (``a,b``), ``assign`` (``{"a": [0, 1]}``) and
    ``subscribePattern``, and the options of Spark's Kafka source (``read.options``). A schema given with
    ``spark.read.schema`` may omit columns: omitted keys and values are not even built. The option ``columns`` does the
    same if no schema can be given. A schema may also say NOT NULL, so that Spark checks no value for null; a null key
    or value then raises InvalidRecordError.
    """

    @classmethod
    def name(cls) -> str:
        return "commitlog"

    def schema(self) -> StructType:
        columns = Columns.parse(self.options)
        schema = columns.schema() if columns.table is None else _table_schema(columns)
        freeze_worker_imports()
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        options = ReadOptions.parse(self.options, Use.BATCH)
        options.log_notices()
        make = PositionBatchReader if options.is_kafka_0_7 else batch_reader
        return make(options, options.columns.arrow_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        try:
            options = ReadOptions.parse(self.options, Use.STREAM)
            if options.is_kafka_0_7:
                raise refused_stream()
            if options.table is not None:
                from .delta.table_stream.reader import TableStreamReader  # noqa: PLC0415  needs the extra tables

                return TableStreamReader(options, schema)
            return StreamReader(options, options.columns.arrow_schema(schema))
        except LogStoreError as error:
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from .write.dataframe import BatchWrite, WriteOptions, refuse_overwrite  # noqa: PLC0415  loads numba

        if overwrite:
            raise refuse_overwrite()
        return BatchWrite(schema, WriteOptions.parse(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  Spark's name
        from .write.dataframe import refuse_overwrite  # noqa: PLC0415  loads numba
        from .write.stream import StreamWrite  # noqa: PLC0415

        if overwrite:
            raise refuse_overwrite()
        return StreamWrite(schema, self.options)


def _table_schema(columns: Columns) -> StructType:
    from .delta.table_stream.reader import table_schema  # noqa: PLC0415  needs the extra tables

    assert columns.table is not None
    return table_schema(columns.table, columns.names)


DefaultSource = CommitLogDataSource
end_quietly()  # the process that finds, creates or plans with this class
