"""Avro values as JSON: by whichever schema each was written with, and what is wrong with the others."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import pytest

from pyspark_commitlog.arrow.values.avro.as_json import AvroAsJson
from pyspark_commitlog.arrow.values.avro.serde import Confluent
from pyspark_commitlog.arrow.values.schema_stores import SchemaFolder
from pyspark_commitlog.arrow.values.serde import SerializationError
from pyspark_commitlog.storage import InvalidConfigError

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string", "int"]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "raw", "type": "bytes"},
        {"name": "before", "type": ["null", "Order"]},
    ],
}


class Folder:
    """Schemas in a folder, and how often one was asked for."""

    def __init__(self, path: Path) -> None:
        self.asked = 0
        self._store = SchemaFolder(str(path))

    def schema(self, schema_id: int) -> str | None:
        self.asked += 1
        return self._store.schema(schema_id)

    def id_of(self, subject: str, schema: str) -> int:
        return self._store.id_of(subject, schema)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "7.avsc").write_text(json.dumps(ORDER))
    (tmp_path / "8.avsc").write_text('"string"')
    (tmp_path / "9.avsc").write_text('{"type": "unknown"}')
    return Folder(tmp_path)


def value(schema_id: int, schema: object, content: object) -> bytes:
    out = io.BytesIO(b"\0" + schema_id.to_bytes(4))
    out.seek(5)
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), content)
    return out.getvalue()


def test_each_value_is_shown_by_its_own_schema(folder: Folder) -> None:
    show = AvroAsJson(Confluent(folder))
    order = {"id": 2**60, "note": "two apples", "day": 20_000, "raw": b"\xff\0", "before": None}
    text, schema = show(value(7, ORDER, {**order, "before": order}))
    found = json.loads(text)
    assert schema == "schema id 7"
    assert (found["id"], found["note"], found["day"], found["raw"]) == (2**60, "two apples", "2024-10-04", "\xff\0")
    assert found["before"]["before"] is None
    assert show(value(8, "string", "tea")) == ('"tea"', "schema id 8")
    assert show(value(8, "string", "milk")) == ('"milk"', "schema id 8")
    assert folder.asked == 2


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (b"", "no header of 5 bytes"),
        (b"\0\0\0\0", "no header of 5 bytes"),
        (b"text of a person", "no header of 5 bytes"),
        (value(8, "string", "tea") + b"x", "1 bytes follow the value"),
        (value(8, "string", "tea")[:-1], "not of its schema"),
        (b"\0\0\0\0\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "not of its schema"),
    ],
)
def test_a_value_that_does_not_fit_its_schema_says_so(folder: Folder, given: bytes, reason: str) -> None:
    with pytest.raises(SerializationError, match=reason):
        AvroAsJson(Confluent(folder))(given)


def test_a_schema_that_is_missing_is_not_asked_for_at_each_value(folder: Folder) -> None:
    show = AvroAsJson(Confluent(folder))
    for _ in range(3):
        with pytest.raises(SerializationError, match="schema, id 10, is unknown"):
            show(b"\0\0\0\0\x0a\2")
    assert folder.asked == 1


def test_a_schema_that_is_wrong_is_named(folder: Folder) -> None:
    with pytest.raises(InvalidConfigError, match="unknown"):
        AvroAsJson(Confluent(folder))(b"\0\0\0\0\x09\2")
