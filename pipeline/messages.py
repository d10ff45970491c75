"""Short rows go into the sink's tasks as Arrow's messages, with a step less than by ``mapInArrow``.

Spark bounds a message by the number of its rows alone. So each column of bytes or text is cut behind the bytes that a
short row has; a task that finds one cut gives up, and all rows come again by ``mapInArrow``
(docs/decisions/handing_over_rows.md). For a classic session only, as ``classic``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Generic, TypeVar

import pyarrow as pa
from py4j.clientserver import ClientServer  # type: ignore[import-untyped]
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.core.rdd import RDD
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructType

from pyspark_commitlog.pipeline.arrow import LongRowError, OverMessages

T = TypeVar("T")
Batches = Iterator[pa.RecordBatch]

UNBOUNDED = 2**31 - 1  # spark.sql.execution.arrow.maxBytesPerBatch at which Spark adds up no bytes
MESSAGE_BYTES_MAX = 16 * 2**20  # the JVM has a message several times in its memory while it makes it
SHORT_BYTES = 256  # of a key, or of the name of a topic; a value has what they leave of a row
_LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"

Limits = Mapping[str, int]  # bytes, by column


def limits_for(session: SparkSession, schema: StructType) -> Limits | None:
    """How long the strings of a row may be that goes by :func:`collect_over_messages`; of columns that are not named
    any. None: rows with ``schema`` do not go this way.

    Calls back from the JVM must come in the thread that called it, as they do by default (PYSPARK_PIN_THREAD): what
    Spark knows of a query, it knows by its thread.
    """
    if not isinstance(session.sparkContext._gateway, ClientServer):
        return None
    conf = session._jsparkSession.sessionState().conf()
    bytes_max, rows_max = int(conf.arrowMaxBytesPerBatch()), int(conf.arrowMaxRecordsPerBatch())
    if bytes_max == UNBOUNDED:  # somebody said so
        return {}
    if rows_max <= 0 or any(isinstance(field.dataType, ArrayType) for field in schema.fields):
        return None
    return _shared_out(min(bytes_max, MESSAGE_BYTES_MAX) // rows_max, schema)


def _shared_out(row_bytes: int, schema: StructType) -> Limits | None:
    """The bytes of a row, among its columns; None where there are too few."""
    strings = [field.name for field in schema.fields if isinstance(field.dataType, BinaryType | StringType)]
    limits = dict.fromkeys(strings, SHORT_BYTES)
    limits["value"] = row_bytes - SHORT_BYTES * (len(strings) - 1)
    return limits if limits["value"] >= SHORT_BYTES else None


def collect_over_messages(rows: DataFrame, function: Callable[[Batches], Iterable[T]], limits: Limits) -> list[T]:
    """What ``function`` answers for the Arrow batches of each task, as ``mapInArrow`` would hand them to it.

    Spark makes of each row one of a single struct for ``mapInArrow``, and adds up bytes row by row. It does neither
    where it makes messages for itself (``Dataset.toArrowBatchRdd``). It is one SQL execution, like any query: settings
    of the session reach its tasks, and its listeners hear of it.

    Raises LongRowError where a row has more than ``limits``; what ``function`` did in the tasks counts for nothing.
    """
    session, cut = rows.sparkSession, _cut(rows, limits)
    zone, large = session.conf.get("spark.sql.session.timeZone"), session.conf.get(_LARGE_TYPES) == "true"
    schema = to_arrow_schema(rows.schema, timezone=zone, prefers_large_types=large)

    def collect() -> list[T | None]:
        messages: RDD[bytes] = RDD(cut._jdf.toArrowBatchRdd().toJavaRDD(), session.sparkContext, NoOpSerializer())
        return messages.mapPartitions(OverMessages(function, schema, limits)).collect()

    found = _as_one_execution(cut, collect)
    answers = [answer for answer in found if answer is not None]
    if len(answers) < len(found):
        raise LongRowError(f"a row has more bytes than {dict(limits)}")
    return answers


def _cut(rows: DataFrame, limits: Limits) -> DataFrame:
    """Rows whose strings are cut behind the first byte too many, so that one is seen to be; of text, the character."""

    def told(name: str) -> str:
        if name not in limits:
            return f"`{name}`"
        limit = limits[name]
        return f"if(octet_length(`{name}`) > {limit}, substring(`{name}`, 1, {limit + 1}), `{name}`) as `{name}`"

    return rows.selectExpr(*map(told, rows.columns)) if limits else rows


def _as_one_execution(rows: DataFrame, collect: Callable[[], list[T]]) -> list[T]:
    """Call ``collect`` from within Spark's record of an execution of ``rows``, in this very thread."""
    gateway = rows.sparkSession.sparkContext._gateway
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    body: _Body[list[T]] = _Body(collect)
    executions, name = _executions(gateway)
    try:
        executions.withNewExecutionId(rows._jdf.queryExecution(), name, body)
    except Py4JJavaError:
        if body.error is not None:
            raise body.error from None  # as Python had it, not as it went through the JVM
        raise
    return body.result


@lru_cache(maxsize=1)
def _executions(gateway: ClientServer) -> tuple[Any, Any]:
    """Spark's object that records executions, and what ours are called: names that the JVM takes 6 ms to look up."""
    jvm = gateway.jvm
    return jvm.org.apache.spark.sql.execution.SQLExecution, jvm.scala.Option.apply("collect")


class _Body(Generic[T]):
    """A function for the JVM to call; what it returned or raised stays here."""

    result: T

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self.error: BaseException | None = None

    def apply(self) -> None:
        try:
            self.result = self._function()
        except BaseException as error:
            self.error = error
            raise

    class Java:
        implements = ("scala.Function0",)
