from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.arrow.batches import TimeBeyondSparkError, to_batch, to_records
from pyspark_commitlog.arrow.columns import read_names, schema_of
from pyspark_commitlog.storage import BinaryColumn, InvalidRecordError, Records, TopicPartition
from tests.support.logs import building

SOURCE = TopicPartition("flights", 3)
READ = schema_of(read_names(include_headers=True))
HEADERS = READ.field("headers").type
WRITE = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.timestamp("us", tz="UTC")), ("headers", HEADERS)]
)

strings = st.one_of(st.none(), st.binary(max_size=9))
headers = st.lists(st.fixed_dictionaries({"key": st.text(max_size=4), "value": strings}), max_size=3)
rows = st.lists(
    st.fixed_dictionaries(
        {"key": strings, "value": strings, "timestamp": st.integers(0, 2**40), "headers": st.none() | headers}
    ),
    min_size=1,
    max_size=12,
)


def batch_of(rows: list[dict[str, object]]) -> pa.RecordBatch:
    times = [{**row, "timestamp": row["timestamp"] * 1000} for row in rows]  # type: ignore[operator]
    return pa.RecordBatch.from_pylist(times, schema=WRITE)


@given(rows, st.data())
def test_rows_survive_the_way_to_records_and_back(rows: list[dict[str, object]], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(rows) - 1))
    piece = batch_of(rows).slice(start)  # a slice: its buffers begin before it
    back = to_batch(to_records(piece, now_ms=0), SOURCE, READ)
    assert back.select(["key", "value", "timestamp"]).equals(piece.select(["key", "value", "timestamp"]))
    assert back["headers"].to_pylist() == [row or None for row in piece["headers"].to_pylist()]
    assert back["offset"].to_pylist() == list(range(len(piece)))
    assert set(back["topic"].to_pylist()) == {"flights"}
    assert set(back["partition"].to_pylist()) == {3}
    assert set(back["timestampType"].to_pylist()) == {0}


def test_row_without_a_timestamp_gets_the_time_of_writing() -> None:
    batch = pa.RecordBatch.from_pylist([{"value": b"a", "timestamp": None}], schema=WRITE)
    assert to_records(batch, now_ms=77).timestamps.tolist() == [77]
    assert to_records(batch.select(["value"]), now_ms=77).timestamps.tolist() == [77]


def test_rows_without_a_key_column_have_null_keys() -> None:
    keys = to_records(pa.RecordBatch.from_pydict({"value": [b"a", b"b"]}), now_ms=0).keys
    assert keys is not None
    assert keys.to_list() == [None, None]


def test_header_without_a_key_is_refused() -> None:
    batch = batch_of([{"key": None, "value": None, "timestamp": 0, "headers": [{"key": None, "value": b"x"}]}])
    with pytest.raises(InvalidRecordError, match="header"):
        to_records(batch, now_ms=0)


def test_columns_that_were_not_requested_are_not_read() -> None:
    nothing = Records(np.array([5]), np.array([-1]), np.array([0], dtype=np.int8), None, None, None)
    batch = to_batch(nothing, SOURCE, pa.schema([READ.field("offset"), READ.field("timestamp")]))
    assert batch["offset"].to_pylist() == [5]
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [
        -1000
    ]  # Kafka's "no timestamp", as Spark's source has it


def test_bytes_are_passed_on_without_a_copy() -> None:
    values = BinaryColumn.from_list([b"some bytes", b"more"])
    records = Records(np.arange(2), np.arange(2), np.zeros(2, dtype=np.int8), None, values, None)
    data = to_batch(records, SOURCE, READ)["value"].buffers()[2]
    assert data.address == values.data.ctypes.data


_LAST_MS = 9_223_372_036_854_775


@pytest.mark.parametrize("time_ms", [_LAST_MS, -_LAST_MS, 0, -1])
def test_first_and_last_time_in_microseconds_are_exact(time_ms: int) -> None:
    batch = to_batch(Records.to_append([b"k"], [b"v"], time_ms), SOURCE, READ)
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [time_ms * 1000]


@pytest.mark.parametrize("time_ms", [_LAST_MS + 1, -_LAST_MS - 1, 1_700_000_000_000_000_000, 2**63 - 1, -(2**63)])
def test_time_beyond_microseconds_is_an_error_with_its_offset_or_null(time_ms: int) -> None:
    """Among other times, so that checking only the first or the last is not enough."""
    records = building.records([b"v"] * 3, timestamps=[7, time_ms, 8])
    with pytest.raises(TimeBeyondSparkError, match=rf"offset 1 of flights-3: its time is {time_ms} ms.*permissive"):
        to_batch(records, SOURCE, READ)
    assert to_batch(records, SOURCE, pa.schema([READ.field("offset")])).num_rows == 3
    batch = to_batch(records, SOURCE, READ, null_times=True)
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [7000, None, 8000]
    assert batch["value"].to_pylist() == [b"v"] * 3


def test_table_without_rows_is_converted() -> None:
    assert to_batch(building.records([]), SOURCE, READ).num_rows == 0
