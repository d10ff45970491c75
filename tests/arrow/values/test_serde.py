"""Values to columns and back: against fastavro's own files and plain JSON, and against every kind of bad value."""

from __future__ import annotations

import io
import json
import pickle
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.arrow.values.avro.serde import AvroSerde, Confluent, SingleObject
from pyspark_commitlog.arrow.values.schema_stores import (
    SchemaFolder,
    SchemaRegistry,
    SchemaRegistryError,
    SchemaStore,
)
from pyspark_commitlog.arrow.values.serde import JsonSerde, SerializationError, narrowed
from pyspark_commitlog.storage import InvalidConfigError

FLIGHT = {
    "type": "record",
    "name": "Flight",
    "namespace": "air",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "number", "type": "int"},
        {"name": "delay", "type": ["null", "double"], "default": None},
    ],
}
FLIGHTS = [{"carrier": "UA", "number": 1545, "delay": 2.5}, None, {"carrier": "B6", "number": 725, "delay": None}]
# One of every type that a column can hold.
EVERYTHING = {
    "type": "record",
    "name": "Everything",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "small", "type": "int"},
        {"name": "large", "type": "long"},
        {"name": "single", "type": "float"},
        {"name": "double", "type": ["double", "null"]},
        {"name": "text", "type": ["null", "string"]},
        {"name": "bytes", "type": "bytes"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "micros", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "again", "type": ["null", "Hash"]},
        {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["CLUBS", "HEARTS"]}},
        {"name": "list", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "map", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
        {"name": "inner", "type": ["null", {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}]},
    ],
}


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry.Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Registry(server)
        server.shutdown()
        thread.join()


class Registry:
    """A schema registry: ids from 1 on, subjects with lists of schemas, and any other answers it is set to give."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_port}"
        self.schemas: list[str] = []
        self.subjects: dict[str, list[int]] = {}
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: list[str] = []
        server.registry = self  # type: ignore[attr-defined]

    def add(self, schema: dict[str, Any]) -> int:
        self.schemas.append(json.dumps(schema))
        return len(self.schemas)

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        self.asked.append(path)
        if path in self.answers:
            return self.answers[path]
        found = self._schema(path) if path.startswith("/schemas/ids/") else self._id(path, body["schema"])
        return (404, b'{"error_code": 40403}') if found is None else (200, json.dumps(found).encode())

    def _schema(self, path: str) -> dict[str, Any] | None:
        number = int(path.removeprefix("/schemas/ids/"))
        return {"schema": self.schemas[number - 1]} if 0 < number <= len(self.schemas) else None

    def _id(self, path: str, schema: str) -> dict[str, Any] | None:
        subject = path.split("/")[2]
        if path.endswith("/versions"):
            self.subjects.setdefault(subject, []).append(self.add(json.loads(schema)))
        known = self.subjects.get(subject, [])
        return next(({"id": number} for number in known if self.schemas[number - 1] == schema), None)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else {}
            status, answer = self.server.registry.answer(self.path, body)  # type: ignore[attr-defined]
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Prints nothing."""


def avro(schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


def confluent(number: int, record: dict[str, Any], schema: dict[str, Any] = FLIGHT) -> bytes:
    return b"\0" + number.to_bytes(4) + avro(schema, record)


def folder(path: Path, **schemas: dict[str, Any]) -> str:
    for name, schema in schemas.items():
        (path / f"{name.lstrip('_')}.avsc").write_text(json.dumps(schema))
    return str(path)


GOOD = confluent(7, {"carrier": "UA", "number": 1545, "delay": 2.5})
BAD_AVRO = {
    "an empty value": (b"", "no header of 5 bytes that begins with 00"),
    "a header cut short": (b"\0\0\0\0", "no header of 5 bytes"),
    "the magic of something else": (b"{" + GOOD[1:], "begins with 00.*7b 00 00 00 07"),
    "an unknown schema": (confluent(8, {"carrier": "UA", "number": 1}), "id 8, is unknown to folder .*<id>.avsc"),
    "a record cut short": (GOOD[:-1], "ends within the record"),
    "a record cut to nothing": (GOOD[:5], "ends within the record"),
    "bytes behind the record": (GOOD + b"xy", "2 bytes follow the record"),
    "a length beyond all memory": (GOOD[:5] + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f", "record"),
    "a length below zero": (GOOD[:5] + b"\x03" + GOOD[6:], "record"),
    "a union without this branch": (GOOD[:-9] + b"\x08", "is not a record of its schema: IndexError"),
    "text that is not UTF-8": (
        GOOD[:6] + b"\xff\xfe" + GOOD[8:],
        "is not a record of its schema: UnicodeDecodeError",
    ),
    "a number beyond its type": (
        GOOD[:8] + b"\xfe\xff\xff\xff\xff\x07" + GOOD[10:],
        "out of bounds|too large|not in range",
    ),
}


class TestAvro:
    def test_single_object_encoding_is_that_of_the_specification(self) -> None:
        """Checks the fingerprint of the specification's example type, and the bytes of its example record."""
        schema = {
            "type": "record",
            "name": "test",
            "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}],
        }
        (value,) = AvroSerde(schema, SingleObject()).encode(pa.array([{"a": 27, "b": "foo"}])).to_pylist()
        assert (value[:2], value[10:]) == (b"\xc3\x01", bytes.fromhex("36 06 66 6f 6f"))
        assert SingleObject().id_of('"int"') == 0x7275D51A3F395C8F.to_bytes(8, "little")

    @pytest.mark.parametrize("schema", [FLIGHT, EVERYTHING], ids=["flight", "everything"])
    def test_type_is_kept_with_its_nulls(self, schema: dict[str, Any]) -> None:
        kind = AvroSerde(schema, SingleObject()).type
        assert [(field.name, field.nullable) for field in kind] == [
            (field["name"], isinstance(field["type"], list)) for field in schema["fields"]
        ]

    @given(st.data())
    def test_rows_of_every_type_come_back_and_fastavro_reads_the_same(self, data: st.DataObject) -> None:
        rows = data.draw(st.lists(st.none() | everything, max_size=4))
        serde = AvroSerde(EVERYTHING, SingleObject())
        column = pa.array(rows, serde.type)
        values = serde.encode(column)
        assert serde.decode(values).equals(column)
        for value, row in zip(values.to_pylist(), rows, strict=True):
            if row is not None:
                read = fastavro.schemaless_reader(io.BytesIO(value[10:]), fastavro.parse_schema(EVERYTHING), None)
                assert isinstance(read, dict)
                assert {**read, "id": str(read["id"])} == row

    def test_slices_and_chunked_columns_are_accepted(self) -> None:
        serde = AvroSerde(FLIGHT, SingleObject())
        column = pa.array(FLIGHTS * 3, serde.type)
        values = serde.encode(column[2:7])
        assert values.type == pa.binary()
        assert serde.decode(values[1:]).equals(column[3:7])
        chunks = serde.decode(pa.chunked_array([values, values[:0], values[2:]]))
        assert chunks.to_pylist() == [*column[2:7].to_pylist(), *column[4:7].to_pylist()]
        assert serde.decode(pa.chunked_array([], pa.binary())).type == serde.type

    def test_value_of_an_older_schema_is_read_as_the_new_one(self, tmp_path: Path) -> None:
        old = {**FLIGHT, "fields": [FLIGHT["fields"][0], {"name": "gate", "type": "string"}]}
        new = {**FLIGHT, "fields": [*FLIGHT["fields"][:1], FLIGHT["fields"][2]]}
        written = AvroSerde(old, SingleObject()).encode(pa.array([{"carrier": "UA", "gate": "B7"}]))
        read = AvroSerde(new, SingleObject(folder(tmp_path, flight_v1=old))).decode(written)
        assert read.to_pylist() == [{"carrier": "UA", "delay": None}]

    def test_columns_to_encode_are_found_by_name_and_fitted_to_the_schema(self) -> None:
        rows = pa.array([{"extra": 1, "delay": 1, "number": 7, "carrier": "UA"}])
        serde = AvroSerde(FLIGHT, SingleObject())
        assert serde.decode(serde.encode(rows)).to_pylist() == [{"carrier": "UA", "number": 7, "delay": 1.0}]

    def test_confluents_header_is_read_and_written_with_a_folder(self, tmp_path: Path) -> None:
        serde = AvroSerde(FLIGHT, Confluent(SchemaFolder(folder(tmp_path, _300=FLIGHT)), "flights-value"))
        values = serde.encode(pa.array(FLIGHTS, serde.type))
        assert values.to_pylist() == [None if row is None else confluent(300, row) for row in FLIGHTS]
        assert serde.decode(values).to_pylist() == FLIGHTS

    def test_confluents_header_is_read_and_written_with_a_registry(self, registry: Registry) -> None:
        serde = AvroSerde(FLIGHT, Confluent(SchemaRegistry(registry.url, register=True), "new/flights-value"))
        values = serde.encode(pa.array(FLIGHTS, serde.type))
        number = registry.subjects["new%2Fflights-value"][0]
        assert values.to_pylist()[0] == confluent(number, FLIGHTS[0] or {})
        assert pickle.loads(pickle.dumps(serde)).decode(values).to_pylist() == FLIGHTS

    def test_schema_is_requested_once_for_all_values_and_columns(self, registry: Registry) -> None:
        number = registry.add({**FLIGHT, "doc": "asked once"})
        serde = AvroSerde(FLIGHT, Confluent(SchemaRegistry(registry.url)))
        values = pa.array([confluent(number, {"carrier": "UA", "number": 1})] * 5)
        assert len(serde.decode(values).drop_null()) + len(serde.decode(values).drop_null()) == 10
        assert registry.asked.count(f"/schemas/ids/{number}") == 1

    def test_unknown_schema_is_requested_once_per_column(self, registry: Registry) -> None:
        number = len(registry.schemas) + 1
        serde = AvroSerde(FLIGHT, Confluent(SchemaRegistry(registry.url)), "permissive")
        values = pa.array([confluent(number, {"carrier": "UA", "number": 1})] * 5)
        assert serde.decode(values).null_count == 5
        assert registry.asked.count(f"/schemas/ids/{number}") == 1
        registry.add(FLIGHT)
        assert serde.decode(values).null_count == 0

    @pytest.mark.parametrize(("value", "told"), BAD_AVRO.values(), ids=BAD_AVRO)
    def test_bad_value_is_an_error_with_its_row_or_null(self, tmp_path: Path, value: bytes, told: str) -> None:
        framing = Confluent(SchemaFolder(folder(tmp_path, _7=FLIGHT)))
        column = pa.array([None, GOOD, value, GOOD])
        with pytest.raises(SerializationError, match=rf"(?s)^row 2 .*{told}.*mode='permissive'"):
            AvroSerde(FLIGHT, framing).decode(column)
        rows = AvroSerde(FLIGHT, framing, "permissive").decode(column).to_pylist()
        good = {"carrier": "UA", "number": 1545, "delay": 2.5}
        assert rows == [None, good, None, good]

    @given(st.data())
    def test_damaged_value_is_a_serialization_error_or_decodes(self, data: st.DataObject) -> None:
        serde = AvroSerde(EVERYTHING, SingleObject())
        value = bytearray(serde.encode(pa.array([data.draw(everything)], serde.type))[0].as_py())
        for _ in range(data.draw(st.integers(1, 3))):
            value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
        damaged = pa.array([bytes(value[: data.draw(st.integers(0, len(value)))])])
        permissive = AvroSerde(EVERYTHING, SingleObject(), "permissive").decode(damaged)
        try:
            assert serde.decode(damaged).equals(permissive)
        except SerializationError:
            assert permissive.null_count == 1

    @pytest.mark.parametrize(
        ("rows", "told"),
        [
            pytest.param(
                [FLIGHTS[0], {"carrier": None, "number": 1}], "row 1 does not fit.*'carrier': None", id="null"
            ),
            pytest.param([{"carrier": "UA"}], "lack the fields number, delay", id="fields missing"),
            pytest.param([{"carrier": "UA", "number": 2**40, "delay": 1.0}], "not in range", id="number too large"),
            pytest.param([{"carrier": "UA", "number": "x", "delay": 1.0}], "rows of .* do not fit", id="other type"),
        ],
    )
    def test_row_that_does_not_fit_is_an_error_even_in_permissive_mode(self, rows: list[Any], told: str) -> None:
        with pytest.raises(SerializationError, match=told):
            AvroSerde(FLIGHT, SingleObject(), "permissive").encode(pa.array(rows))

    @pytest.mark.parametrize(
        ("kind", "told"),
        [
            pytest.param(["int", "string"], "field R.f: a union must be of null and one other type", id="union"),
            pytest.param(["null", "R"], "field R.f: a type that contains itself", id="recursion"),
            pytest.param("null", "field R.f: a type that is null", id="null"),
            pytest.param({"type": "record", "name": "E", "fields": []}, "record without fields", id="empty record"),
            pytest.param(
                {"type": "bytes", "logicalType": "decimal", "precision": 40}, "decimal of 40 digits", id="decimal"
            ),
            pytest.param("Unheard", "Unheard", id="unknown name"),
        ],
    )
    def test_schema_without_arrow_type_is_refused_with_the_field(self, kind: Any, told: str) -> None:
        schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}
        with pytest.raises(InvalidConfigError, match=told):
            AvroSerde(schema, SingleObject())

    @pytest.mark.parametrize("schema", ['"string"', '{"type": "array", "items": "int"}'])
    def test_schema_that_is_not_a_record_is_refused(self, schema: str) -> None:
        with pytest.raises(InvalidConfigError, match="must be a record"):
            AvroSerde(schema, SingleObject())


JSON_TYPES = pa.schema(
    [
        ("carrier", pa.string()),
        ("number", pa.int32()),
        ("delay", pa.float64()),
        ("late", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("ms")),
        ("price", pa.decimal128(9, 2)),
        ("stops", pa.list_(pa.struct([("gate", pa.string()), ("day", pa.date32())]))),
    ]
)


BAD_JSON = {
    "an empty value": b"",
    "blanks": b" \n",
    "no object": b"[1]",
    "a null that is text": b"null",
    "an object cut short": b'{"number": 1',
    "two objects": b'{"number": 1}{"number": 2}',
    "an object and more": b'{"number": 1} x',
    "another type": b'{"number": "1"}',
    "a number beyond its type": b'{"number": 3000000000}',
    "text that is not UTF-8": b'{"carrier": "\xff"}',
    "a line break in text": b'{"carrier": "a\nb"}',
    "no date": b'{"day": "yesterday"}',
}


class TestJson:
    @given(st.data())
    def test_rows_survive_the_way_to_plain_json_and_back(self, data: st.DataObject) -> None:
        serde = JsonSerde(JSON_TYPES)
        column = pa.array(data.draw(st.lists(st.none() | json_rows, max_size=4)), serde.type)
        values = serde.encode(column)
        assert values.type == pa.binary()
        assert serde.decode(values).equals(column)
        for value, row in zip(values.to_pylist(), column.to_pylist(), strict=True):
            assert (value and list(json.loads(value))) == (row and list(row))

    def test_dates_and_decimals_are_text(self) -> None:
        row = {
            "day": date(2013, 1, 1),
            "price": Decimal("1.50"),
            "carrier": "Ü",
            "at": datetime(2013, 1, 1, 5, tzinfo=UTC),
        }
        (value,) = (
            JsonSerde(JSON_TYPES).encode(pa.array([{name: row.get(name) for name in JSON_TYPES.names}])).to_pylist()
        )
        found = {name: told for name, told in json.loads(value).items() if told is not None}
        assert found == {"day": "2013-01-01", "price": "1.50", "carrier": "Ü", "at": "2013-01-01T05:00:00+00:00"}
        assert "Ü".encode() in value

    @pytest.mark.parametrize(
        ("value", "row"),
        [
            pytest.param("{}", {}, id="nothing"),
            pytest.param(' {\n "number" :\n 7 }\r\n', {"number": 7}, id="spread over lines"),
            pytest.param('{"gate": {"x": [1, {}]}, "number": 7}', {"number": 7}, id="fields not asked for"),
            pytest.param('{"number": null}', {}, id="a null field"),
            pytest.param('{"carrier": "}{\\" \\u00e9\\n"}', {"carrier": '}{" é\n'}, id="text with braces and escapes"),
            pytest.param('{"price": 1.5, "delay": 1}', {"price": Decimal("1.50"), "delay": 1.0}, id="numbers"),
            pytest.param(
                '{"stops": [{"gate": "B7"}, null]}', {"stops": [{"gate": "B7", "day": None}, None]}, id="nested"
            ),
        ],
    )
    def test_value_is_read_as_json_says(self, value: str, row: dict[str, Any]) -> None:
        found = JsonSerde(JSON_TYPES).decode(pa.array([None, value])).to_pylist()
        assert found == [None, {name: row.get(name) for name in JSON_TYPES.names}]

    @pytest.mark.parametrize("value", BAD_JSON.values(), ids=BAD_JSON)
    def test_bad_value_is_an_error_with_its_row_or_null(self, value: bytes) -> None:
        column = pa.array([b'{"number": 1}', None, value, b'{"number": 2}', value])
        with pytest.raises(
            SerializationError, match=r"(?s)^row 2 is not the JSON that was expected: .*mode='permissive'"
        ):
            JsonSerde(JSON_TYPES).decode(column)
        rows = JsonSerde(JSON_TYPES, "permissive").decode(column).to_pylist()
        assert [row and row["number"] for row in rows] == [1, None, None, 2, None]

    @pytest.mark.parametrize("number", [0, 7, 0x0A0D2022, 0xC3A9C3A9, 0xFFFFFFFF])
    def test_confluents_header_is_named_or_skipped_on_request(self, number: int) -> None:
        column = pa.array([b'{"number": 1}', b"\0" + number.to_bytes(4) + b' {"number": 2}', None])
        with pytest.raises(
            SerializationError, match=rf"^row 1 .*Confluent's header .* {number}\), which confluent_header"
        ):
            JsonSerde(JSON_TYPES).decode(column)
        for mode in ("failfast", "permissive"):
            rows = JsonSerde(JSON_TYPES, mode, confluent_header=True).decode(column).to_pylist()  # type: ignore[arg-type]
            assert [row and row["number"] for row in rows] == [1, 2, None]

    @pytest.mark.parametrize("value", [b"\0", b"\0\0\0\0", b"\0\0\0\0\1", b'\1\0\0\0\0{"number": 1}', b"\0" * 5 + b"x"])
    def test_truncated_or_wrong_header_is_refused(self, value: bytes) -> None:
        with pytest.raises(SerializationError, match=f"its value has {len(value)} bytes: {value.hex(' ')}"):
            JsonSerde(JSON_TYPES, confluent_header=True).decode(pa.array([value]))
        assert JsonSerde(JSON_TYPES, "permissive", confluent_header=True).decode(pa.array([value])).null_count == 1

    def test_serde_that_skips_headers_does_not_write(self) -> None:
        with pytest.raises(InvalidConfigError, match="can read, but cannot write"):
            JsonSerde(JSON_TYPES, confluent_header=True).encode(pa.array([{}]))

    @pytest.mark.parametrize(
        "values",
        [
            pytest.param(['{"number": 1}{"number": 2}', ""], id="two in one, none in the next"),
            pytest.param(['{"number": 1}{"number":', "2}"], id="the next ends what one begins"),
            pytest.param(['{"stops": [{}', '{}]}{"number": 1}'], id="a list over two"),
            pytest.param(['{"carrier": "{}', '{}"}{}'], id="a text over two"),
        ],
    )
    def test_values_that_form_an_object_only_together_are_each_bad(self, values: list[str]) -> None:
        assert JsonSerde(JSON_TYPES, "permissive").decode(pa.array(values)).null_count == len(values)

    @pytest.mark.parametrize("depth", [10, 100_000])
    def test_deeply_nested_value_does_not_end_the_process(self, depth: int) -> None:
        unread, read = (f'{{"{name}":{"[" * depth}{"]" * depth}}}' for name in ("x", "carrier"))
        found = JsonSerde(JSON_TYPES, "permissive").decode(pa.array(['{"number":1}', unread, read, "{'number':2}"]))
        assert [row and row["number"] for row in (found[0].as_py(), found[3].as_py())] == [1, 2]

    @given(st.lists(st.text('{}[],:" 1\n', max_size=6), max_size=4))
    def test_column_is_decoded_like_its_single_values(self, values: list[str]) -> None:
        serde = JsonSerde(pa.schema([("", pa.int64())]), "permissive")
        alone = [serde.decode(pa.array([value])).to_pylist()[0] for value in values]
        assert serde.decode(pa.array(values, pa.string())).to_pylist() == alone

    @pytest.mark.parametrize("kind", [pa.binary(), pa.map_(pa.string(), pa.int32()), pa.list_(pa.time32("s"))], ids=str)
    def test_type_without_a_form_in_json_is_refused_with_the_field(self, kind: pa.DataType) -> None:
        with pytest.raises(InvalidConfigError, match=r"field outer\.inner.* is not supported in JSON"):
            JsonSerde(pa.schema([("outer", pa.struct([("inner", kind)]))]))

    def test_number_that_json_lacks_is_an_error_with_its_row(self) -> None:
        schema = pa.schema([("delay", pa.float64())])
        with pytest.raises(SerializationError, match="row 1 does not fit"):
            JsonSerde(schema).encode(pa.array([{"delay": 1.0}, {"delay": float("nan")}]))


class TestRegistryFaults:
    """Errors in any mode: they are not about the values."""

    @pytest.mark.parametrize(
        ("status", "body", "told"),
        [
            pytest.param(500, b'{"message": "no leader"}', "answered 500 to /schemas/ids/1: .*no leader", id="refusal"),
            pytest.param(200, b"<html>", "did not answer to", id="not JSON"),
            pytest.param(200, b"[]", r"answered .* with \[\]", id="no object"),
            pytest.param(200, b"{}", "returned no schema", id="no schema"),
            pytest.param(200, b'{"schema": "x", "schemaType": "PROTOBUF"}', "a schema of PROTOBUF", id="other kind"),
            pytest.param(200, b'{"schema": "x", "references": [{}]}', "references to others", id="references"),
        ],
    )
    def test_answer_that_is_not_a_schema(self, registry: Registry, status: int, body: bytes, told: str) -> None:
        registry.answers["/schemas/ids/1"] = status, body
        try:
            with pytest.raises(SchemaRegistryError, match=told):
                SchemaRegistry(registry.url, timeout_s=0.2).schema(1)
        finally:
            del registry.answers["/schemas/ids/1"]

    def test_unreachable_registry_makes_no_value_null(self) -> None:
        with ThreadingHTTPServer(("127.0.0.1", 0), Registry.Handler) as server:
            gone = f"http://127.0.0.1:{server.server_port}"
        store = SchemaRegistry(gone, timeout_s=0.2)
        with pytest.raises(SchemaRegistryError, match=f"{gone} did not answer"):
            AvroSerde(FLIGHT, Confluent(store), "permissive").decode(pa.array([GOOD]))

    def test_schema_to_write_with_must_exist(self, registry: Registry, tmp_path: Path) -> None:
        rows = pa.array(FLIGHTS[:1])
        stores: list[tuple[SchemaStore, str]] = [
            (SchemaRegistry(registry.url), "does not have this schema for subject 's'.*register=True"),
            (SchemaFolder(folder(tmp_path, _1=EVERYTHING)), "no file with the schema for s"),
        ]
        for store, told in stores:
            with pytest.raises(InvalidConfigError, match=told):
                AvroSerde(FLIGHT, Confluent(store, "s")).encode(rows)

    @pytest.mark.parametrize("content", [b"{", b"\xff", b'{"type": "array"}', b"[" * 100_000, None])
    def test_file_without_a_schema_is_named(self, tmp_path: Path, content: bytes | None) -> None:
        file = tmp_path / "7.avsc"
        file.mkdir() if content is None else file.write_bytes(content)
        single = AvroSerde(FLIGHT, SingleObject())
        for framing, value in (
            (Confluent(SchemaFolder(str(tmp_path))), GOOD),
            (SingleObject(str(tmp_path)), single.encode(pa.array(FLIGHTS[:1]))[0].as_py()[:2] + b"12345678"),
        ):
            with pytest.raises(InvalidConfigError, match=r"7\.avsc|is invalid"):
                AvroSerde(FLIGHT, framing).decode(pa.array([value]))

    def test_settings_that_are_wrong_in_themselves(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidConfigError, match="begins with http"):
            SchemaRegistry("file:///etc/passwd")
        with pytest.raises(InvalidConfigError, match="needs a subject"):
            AvroSerde(FLIGHT, Confluent(SchemaFolder(str(tmp_path)))).encode(pa.array(FLIGHTS[:1]))
        with pytest.raises(InvalidConfigError, match="mode is 'lenient'"):
            AvroSerde(FLIGHT, SingleObject(), "lenient")  # type: ignore[arg-type]


# In milliseconds and in range of what Python's own types hold.
moments = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
everything = st.fixed_dictionaries(
    {
        "flag": st.booleans(),
        "small": st.integers(-(2**31), 2**31 - 1),
        "large": st.integers(-(2**63), 2**63 - 1),
        "single": st.floats(width=32, allow_nan=False),
        "double": st.none() | st.floats(allow_nan=False),
        "text": st.none() | st.text(max_size=5),
        "bytes": st.binary(max_size=5),
        "day": st.dates(date(1, 1, 1)),
        "at": moments.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),
        "micros": st.none() | moments,
        "time": st.times().map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),
        "price": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda cents: Decimal(cents).scaleb(-2)),
        "id": st.uuids().map(str),
        "hash": st.binary(min_size=4, max_size=4),
        "again": st.none() | st.binary(min_size=4, max_size=4),
        "suit": st.sampled_from(["CLUBS", "HEARTS"]),
        "list": st.lists(st.none() | st.integers(-5, 2**63 - 1), max_size=3),
        "map": st.dictionaries(st.text("abc", max_size=2), st.lists(st.text("xyz"), max_size=2), max_size=3),
        "inner": st.none() | st.fixed_dictionaries({"x": st.integers(-9, 9)}),
    }
)
json_rows = st.fixed_dictionaries(
    {
        "carrier": st.none() | st.text(max_size=5),
        "number": st.none() | st.integers(-(2**31), 2**31 - 1),
        "delay": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "late": st.none() | st.booleans(),
        "day": st.none() | st.dates(date(1, 1, 1)),
        "at": st.none() | moments,
        "local": st.none() | st.datetimes(datetime(1900, 1, 1)).map(lambda at: at.replace(microsecond=0)),
        "price": st.none() | everything.map(lambda row: row["price"]),
        "stops": st.none()
        | st.lists(
            st.none() | st.fixed_dictionaries({"gate": st.none() | st.just("B7"), "day": st.none() | st.dates()}),
            max_size=2,
        ),
    }
)


def test_serde_that_is_narrowed_decodes_only_the_fields_that_are_wanted() -> None:
    """What the others hold is not looked at."""
    serde = JsonSerde(pa.schema([("carrier", pa.string()), ("delay", pa.int32())]))
    values = pa.array([b'{"carrier": "UA", "delay": "late"}', None])
    assert narrowed(serde, ["Carrier", "unknown"]).decode(values).to_pylist() == [{"carrier": "UA"}, None]
    assert narrowed(serde, ["unknown"]) is serde
    with pytest.raises(SerializationError):
        serde.decode(values)
