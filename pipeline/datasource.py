"""``spark.read.format("commitlog")``: topics of a log directory, with the columns of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from pyspark_commitlog.pipeline.batch_reader import CommitLogReader
from pyspark_commitlog.pipeline.options import ReadOptions
from pyspark_commitlog.pipeline.schema import arrow_schema, read_schema


class CommitLogDataSource(DataSource):
    """The data source ``commitlog``.

    Options: ``path`` (the log directory), one of ``subscribe`` (``a,b``), ``assign`` (``{"a": [0, 1]}``) and
    ``subscribePattern``; ``startingOffsets`` (``earliest``), ``endingOffsets`` (``latest``), each also
    ``{"a": {"0": 23, "1": -2}}``; ``includeHeaders`` (``false``); ``isolation.level`` (``read_committed``).
    A schema given with ``spark.read.schema`` may leave columns out: keys and values left out are not even built.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = ReadOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        return "commitlog"

    def schema(self) -> StructType:
        return read_schema(self._options.include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        return CommitLogReader(self._options, arrow_schema(schema))


DefaultSource = CommitLogDataSource
