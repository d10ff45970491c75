"""find in Python programs: what it yields, how bounds are given, and what it says of an incomplete search."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_commitlog import AvroSerde, append, find
from pyspark_commitlog.arrow.values.avro.serde import SingleObject
from pyspark_commitlog.storage import IncompleteSearchError, InvalidConfigError, Unsearched

T0 = datetime(2026, 11, 21, 6, tzinfo=UTC)
T0_MS = int(T0.timestamp() * 1000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = [
        {"key": f"k{n % 2}", "value": f"apple {n}", "timestamp": T0_MS + n, "headers": {"n": str(n)}} for n in range(6)
    ]
    for half in (rows[:3], rows[3:]):  # a batch each
        append(tmp_path / "log", "orders", half, partitions=3)
    return tmp_path / "log"


def test_records_are_found_by_key_value_and_header(path: Path) -> None:
    assert [record.value for record in find(path, "orders", key="k1")] == [b"apple 1", b"apple 3", b"apple 5"]
    assert [record.key for record in find(path, "orders", value_contains=b"le 4")] == [b"k0"]
    [record] = find(path, "orders", headers={"n": "2"}, key_prefix="k")
    assert (record.topic, record.headers, record.timestamp) == ("orders", (("n", b"2"),), T0_MS + 2)


def test_the_newest_come_first_and_the_count_is_limited(path: Path) -> None:
    found = find(path, "orders", value_contains="apple", newest_first=True, max_records=3)
    assert [record.value for record in found] == [b"apple 5", b"apple 4", b"apple 3"]
    assert list(find(path, "orders", max_records=0)) == []


def test_a_bound_is_an_offset_a_time_or_both(path: Path) -> None:
    later = datetime.fromtimestamp((T0_MS + 3) / 1000, UTC)
    assert [record.value for record in find(path, "orders", key="k1", start=later)] == [b"apple 3", b"apple 5"]
    assert [record.value for record in find(path, "orders", key="k1", start=2)] == [b"apple 3", b"apple 5"]
    assert [record.value for record in find(path, "orders", key="k1", start=(1, later), end=5)] == [b"apple 3"]
    assert list(find(path, "orders", key="k1", start=later.isoformat(), end=later.isoformat())) == []


def test_damage_is_raised_after_the_last_record_or_listed(path: Path) -> None:
    file = next(each for each in path.glob("orders-*/*.log") if each.stat().st_size)
    data = bytearray(file.read_bytes())
    data[-2] ^= 1  # in the second batch
    file.write_bytes(data)
    found = find(path, "orders", value_contains="apple")
    with pytest.raises(IncompleteSearchError, match=r"orders-\d.*does not match its checksum"):
        for _ in found:
            pass
    missing: list[Unsearched] = []
    assert len(list(find(path, "orders", value_contains="apple", unsearched=missing))) == 3
    assert [each.kind for each in missing] == ["damaged"]


def test_sql_gives_arrow_batches(path: Path) -> None:
    found = find(
        path, "orders", key_prefix="k", where="value_text > 'apple 3'", select="key_text AS k, value_text AS v"
    )
    assert sorted(row["v"] for batch in found for row in batch.to_pylist()) == ["apple 4", "apple 5"]
    plain = list(find(path, "orders", where="timestamp > '2026-11-21 06:00:00.003'"))
    assert {"topic", "key", "value", "offset", "headers"} <= {name for batch in plain for name in batch.schema.names}
    assert sorted(value for batch in plain for value in batch["value"].to_pylist()) == [b"apple 4", b"apple 5"]


def test_the_count_limits_the_rows_of_batches(path: Path) -> None:
    for most in (0, 1, 4, 100):
        found = find(path, "orders", where="true", max_records=most)
        assert sum(map(len, found)) == min(most, 6)


def test_sql_reads_values_of_avro_by_the_given_schemas(tmp_path: Path) -> None:
    schema = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}]}
    (tmp_path / "order.avsc").write_text(json.dumps(schema))
    schemas = SingleObject(str(tmp_path))
    values = AvroSerde(schema, schemas).encode(pa.array([{"n": n} for n in range(4)])).to_pylist()
    spoiled = values[0][:2] + b"\1" * 9
    append(tmp_path / "log", "orders", [{"value": value} for value in [*values, spoiled]])
    missing: list[Unsearched] = []
    found = find(
        tmp_path / "log", "orders", where="(json->>'n')::int >= 2", select="json", schemas=schemas, unsearched=missing
    )
    assert [json.loads(text) for batch in found for text in batch["json"].to_pylist()] == [{"n": 2}, {"n": 3}]
    assert [(each.kind, "offset 4" in each.reason) for each in missing] == [("undecoded", True)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start": -1}, "start is -1; it must be an offset of 0 or more, a time, or a pair of both"),
        ({"end": datetime(2026, 11, 21)}, "has no time zone"),
        ({"start": "soon"}, "start '@?soon' is neither ISO 8601"),
        ({"max_records": -1}, "max_records is -1"),
        ({"isolation": "none"}, "isolation is 'none'"),
        ({"where": "nonsense = 1"}, "where or select: .*Referenced column"),
        ({"where": "true", "select": "count(*)"}, "^select has an aggregate"),
    ],
)
def test_an_invalid_argument_is_named(path: Path, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        list(find(path, "orders", **arguments))  # type: ignore[arg-type]
