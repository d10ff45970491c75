"""What a task writes at once: Arrow batches that come small are put together, whatever Spark makes of the rows."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pyspark_commitlog.pipeline.writer import gathered, joined

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.string()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
HEADERS = st.lists(st.fixed_dictionaries({"key": st.text(max_size=3), "value": st.binary(max_size=3)}), max_size=2)
ROWS = st.fixed_dictionaries(
    {
        "key": st.none() | st.binary(max_size=9),
        "value": st.none() | st.text(max_size=9),
        "headers": st.none() | HEADERS,
    }
)


@given(st.lists(st.lists(ROWS, max_size=5), max_size=12), st.integers(1, 5), st.integers(1, 400))
def test_what_is_gathered_is_all_rows_in_their_order(
    rows: list[list[dict[str, object]]], count_max: int, bytes_max: int
) -> None:
    batches = [pa.RecordBatch.from_pylist(each, schema=SCHEMA) for each in rows]
    tables = list(gathered(iter(batches), count_max, bytes_max))
    assert [row for table in tables for row in joined(table).to_pylist()] == [row for each in rows for row in each]
    assert all(len(table) <= count_max and all(map(len, table)) for table in tables)
    assert all(len(table) == 1 or sum(each.nbytes for each in table) <= bytes_max for table in tables)


def test_slices_of_a_batch_are_joined_without_what_lies_beside_them() -> None:
    whole = pa.RecordBatch.from_pylist(
        [
            {"key": b"%d" % n, "value": None if n % 3 else "v", "headers": [{"key": "h", "value": b""}]}
            for n in range(9)
        ],
        schema=SCHEMA,
    )
    assert joined([whole.slice(2, 3), whole.slice(6, 2)]).to_pylist() == whole.to_pylist()[2:5] + whole.to_pylist()[6:8]


def test_small_batches_wait_for_others_and_a_large_one_for_none() -> None:
    small = pa.RecordBatch.from_pylist([{"key": b"k"}], schema=SCHEMA)
    large = pa.RecordBatch.from_pylist([{"key": bytes(9 << 20)}], schema=SCHEMA)
    sizes = [len(table) for table in gathered([small] * 3 + [large] + [small] * 40)]
    assert sizes == [3, 1, 16, 16, 8]
