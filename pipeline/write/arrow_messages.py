"""Sends short rows to the sink's tasks as Arrow messages, which saves a step that ``mapInArrow`` takes.

Spark limits a message only by its number of rows. So each string (bytes or text) is truncated just after the length
that a short row may have. A task that finds a truncated string gives up, and all rows are sent again by ``mapInArrow``
(docs/decisions/handing_over_rows.md). Works only in a classic session, because it calls the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Generic, TypeVar

import pyarrow as pa
from py4j.clientserver import ClientServer
from py4j.protocol import Py4JJavaError
from pyspark.core.rdd import RDD
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructType

from ..rows.arrow_schema import as_arrow
from ..rows.messages import LongRowError, OverMessages

T = TypeVar("T")
Batches = Iterator[pa.RecordBatch]

UNBOUNDED = 2**31 - 1  # the value of spark.sql.execution.arrow.maxBytesPerBatch that means no limit
MESSAGE_BYTES_MAX = 16 * 2**20  # the JVM has several copies of a message in memory while it builds it
SHORT_BYTES = 256  # the limit for a key or a topic's name; a value may have the rest of a row
_LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"

Limits = Mapping[str, int]  # bytes, by column


def limits_for(session: SparkSession, schema: StructType) -> Limits | None:
    """Returns the most bytes, by column of strings, that a row sent by :func:`collect_over_messages` may have.

    Returns None if rows with ``schema`` cannot be sent that way. An empty mapping means that there is no limit.
    Callbacks from the JVM must arrive in the calling thread, as they do by default (PYSPARK_PIN_THREAD), because Spark
    associates a query with its thread.
    """
    if not isinstance(session.sparkContext._gateway, ClientServer):
        return None
    conf = session._jsparkSession.sessionState().conf()
    bytes_max, rows_max = int(conf.arrowMaxBytesPerBatch()), int(conf.arrowMaxRecordsPerBatch())
    if bytes_max == UNBOUNDED:  # set by the user
        return {}
    if rows_max <= 0 or any(isinstance(field.dataType, ArrayType) for field in schema.fields):
        return None
    return _limits_within(min(bytes_max, MESSAGE_BYTES_MAX) // rows_max, schema)


def _limits_within(row_bytes: int, schema: StructType) -> Limits | None:
    """Divides ``row_bytes`` among the columns of strings; returns None if fewer than 256 bytes remain for a value."""
    strings = [field.name for field in schema.fields if isinstance(field.dataType, BinaryType | StringType)]
    limits = dict.fromkeys(strings, SHORT_BYTES)
    limits["value"] = row_bytes - SHORT_BYTES * (len(strings) - 1)
    return limits if limits["value"] >= SHORT_BYTES else None


def collect_over_messages(rows: DataFrame, function: Callable[[Batches], Iterable[T]], limits: Limits) -> list[T]:
    """Applies ``function`` to the Arrow batches of each task, as ``mapInArrow`` would, and returns all results.

    For ``mapInArrow``, Spark wraps each row in a struct and adds up bytes row by row. It does neither for the messages
    used here (``Dataset.toArrowBatchRdd``). The call is one SQL execution, like any query: the session's settings reach
    the tasks, and listeners are notified.

    Raises LongRowError if a row has more bytes than ``limits`` allow; the caller must then undo what ``function`` did
    in the tasks.
    """
    session, cut = rows.sparkSession, _cut(rows, limits)
    zone, large = session.conf.get("spark.sql.session.timeZone"), session.conf.get(_LARGE_TYPES) == "true"
    schema = as_arrow(rows.schema, timezone=zone, large=large)

    def collect() -> list[T | None]:
        messages: RDD[bytes] = RDD(cut._jdf.toArrowBatchRdd().toJavaRDD(), session.sparkContext, NoOpSerializer())
        return messages.mapPartitions(OverMessages(function, schema, limits)).collect()

    found = _as_one_execution(cut, collect)
    answers = [answer for answer in found if answer is not None]
    if len(answers) < len(found):
        raise LongRowError(f"a row has more bytes than Arrow messages may have, by column {dict(limits)}")
    return answers


def _cut(rows: DataFrame, limits: Limits) -> DataFrame:
    """Returns ``rows`` with each string truncated one byte (text: one character) after its limit in ``limits``.

    A task sees from this byte that the string was too long.
    """

    def expression(name: str) -> str:
        if name not in limits:
            return f"`{name}`"
        limit = limits[name]
        return f"if(octet_length(`{name}`) > {limit}, substring(`{name}`, 1, {limit + 1}), `{name}`) as `{name}`"

    return rows.selectExpr(*map(expression, rows.columns)) if limits else rows


def _as_one_execution(rows: DataFrame, collect: Callable[[], list[T]]) -> list[T]:
    """Returns the result of ``collect``, called in this thread and recorded by Spark as an execution of ``rows``."""
    gateway = rows.sparkSession.sparkContext._gateway
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    body: _Body[list[T]] = _Body(collect)
    executions, name = _executions(gateway)
    try:
        executions.withNewExecutionId(rows._jdf.queryExecution(), name, body)
    except Py4JJavaError:
        if body.error is not None:
            raise body.error from None  # the Python error itself, not the JVM's wrapper
        raise
    return body.result


@lru_cache(maxsize=1)
def _executions(gateway: ClientServer) -> tuple[Any, Any]:
    """Returns Spark's SQLExecution and the name for our executions; cached, as the JVM takes 6 ms to look them up."""
    jvm = gateway.jvm
    return jvm.org.apache.spark.sql.execution.SQLExecution, jvm.scala.Option.apply("collect")


class _Body(Generic[T]):
    """A Python function that the JVM calls; stores its result, or the error that it raised."""

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
