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
from . import write  # loads numba when first used, which a process that only plans reads does not need
from .read import (
    Columns,
    PositionBatchReader,
    ReadOptions,
    RefusedStreamReader,
    StreamReader,
    Use,
    batch_reader,
    refused_stream,
)
from .workers import end_quietly, errors_end_here, freeze_worker_imports


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
        schema = Columns.parse(self.options).schema()
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
            return StreamReader(options, options.columns.arrow_schema(schema))
        except LogStoreError as error:
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise write.refuse_overwrite()
        return write.BatchWrite(schema, write.WriteOptions.parse(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  Spark's name
        if overwrite:
            raise write.refuse_overwrite()
        return write.StreamWrite(schema, self.options)


DefaultSource = CommitLogDataSource
end_quietly()  # the process that finds, makes or plans with this class
