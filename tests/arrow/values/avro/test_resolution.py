"""Values of one Avro schema read as another's, compared with Apache's Java library (from Spark's jars)."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from pyspark_commitlog.arrow.values.avro.serde import AvroSerde, Confluent
from pyspark_commitlog.arrow.values.serde import SerializationError
from tests.support.avro_pairs import Pair, java_reads, random_pair

Schema = Any
REFUSED = object()


@dataclass(frozen=True)
class OneSchema:
    """A store whose only schema has id 1."""

    text: str

    def schema(self, schema_id: int) -> str | None:
        return self.text if schema_id == 1 else None

    def id_of(self, subject: str, schema: str) -> int:
        return 1


def record(name: str, *fields: dict[str, Any], **types: Schema) -> Schema:
    return {
        "type": "record",
        "name": name,
        "fields": [*fields, *({"name": each, "type": kind} for each, kind in types.items())],
    }


def field(name: str, kind: Schema, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def fixed(name: str, size: int = 2, **more: Any) -> Schema:
    return {"type": "fixed", "name": name, "size": size, **more}


def enum(name: str, *symbols: str, **more: Any) -> Schema:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def mapped(values: Schema) -> Schema:
    return {"type": "map", "values": values}


def read(pair: Pair, mode: str = "failfast") -> Any:
    serde = AvroSerde(pair.reader, Confluent(OneSchema(json.dumps(pair.writer))), mode)  # type: ignore[arg-type]
    return serde.decode(pa.array([b"\0\0\0\0\1" + pair.data]))[0].as_py()


def written(writer: Schema, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(writer), value)
    return out.getvalue()


def as_java(value: Any) -> Any:
    """Converts what the serde returns to what ``Resolve.java`` prints."""
    if isinstance(value, list):
        return [as_java(each) for each in value]
    if not isinstance(value, dict):
        return value
    if list(value) == ["bytes"] and isinstance(value["bytes"], str):
        return bytes.fromhex(value["bytes"])
    if list(value) == ["map"] and isinstance(value["map"], dict):
        return sorted((key, as_java(each)) for key, each in value["map"].items())
    return {key: as_java(each) for key, each in value.items()}


def in_order(value: Any) -> Any:
    """Sorts maps by their keys, since Java's have no order."""
    if isinstance(value, dict):
        return {key: in_order(each) for key, each in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return sorted((key, in_order(each)) for key, each in value)
    return [in_order(each) for each in value] if isinstance(value, list) else value


ID = field("id", "int")
NESTED = record("N", b="bytes")
DEFAULTS = {  # the type of a field that the writer does not have, its default, and the value
    "bytes": ("bytes", "ÿ\u0001", b"\xff\x01"),
    "bytes of ASCII": ("bytes", "abc", b"abc"),
    "no bytes": ("bytes", "", b""),
    "every byte": ("bytes", "".join(map(chr, range(256))), bytes(range(256))),
    "a fixed": (fixed("F"), "é\u0000", b"\xe9\0"),
    "a fixed too short": (fixed("F"), "é", b"\xe9\0"),
    "a fixed too long": (fixed("F"), "abc", b"ab"),
    "bytes or null": (["bytes", "null"], "ÿ", b"\xff"),
    "null or bytes, and bytes": (["null", "bytes"], "ÿ", b"\xff"),
    "null or a fixed": (["null", fixed("F")], "ÿÿ", b"\xff\xff"),
    "null or bytes, and null": (["null", "bytes"], None, None),
    "bytes or null, and null": (["bytes", "null"], None, None),
    "an array or null, and null": ([array("bytes"), "null"], None, REFUSED),
    "a map or null, and null": ([mapped("bytes"), "null"], None, []),
    "a record or null, and null": ([record("N", field("b", "bytes", default="ÿ")), "null"], None, {"b": b"\xff"}),
    "a record": (NESTED, {"b": "ÿ"}, {"b": b"\xff"}),
    "a record or null": (["null", NESTED], {"b": "ÿ"}, {"b": b"\xff"}),
    "a record by its own defaults": (
        record("N", field("b", "bytes", default="ÿ"), ID),
        {"id": 3},
        {"b": b"\xff", "id": 3},
    ),
    "a record in a record": (record("M", n=NESTED), {"n": {"b": "ÿ"}}, {"n": {"b": b"\xff"}}),
    "an array": (array("bytes"), ["ÿ", ""], [b"\xff", b""]),
    "an array of records": (array(NESTED), [{"b": "ÿ"}], [{"b": b"\xff"}]),
    "an array of bytes or null": (array(["null", "bytes"]), ["ÿ", None], [b"\xff", None]),
    "a map": (mapped("bytes"), {"k": "ÿ"}, [("k", b"\xff")]),
    "a map of arrays": (mapped(array(fixed("F"))), {"k": ["ÿÿ"]}, [("k", [b"\xff\xff"])]),
    "an enum": (enum("E", "A", "B"), "B", "B"),
    "text beyond ASCII": ("string", "ÿ€", "ÿ€"),
    "an integer for a float": ("float", 1, 1.0),
    "a float": ("float", 0.1, 0.10000000149011612),
    "a double": ("double", 0.1, 0.1),
    "a long": ("long", 2**63 - 1, 2**63 - 1),
    "a boolean": ("boolean", True, True),
    "no record of its type": (record("N", ID), {}, REFUSED),
    "no symbol of its enum": (enum("E", "A"), "B", REFUSED),
    "a number for bytes": ("bytes", 1, REFUSED),
    "null for text": ("string", None, REFUSED),
    "none": ("bytes", REFUSED, REFUSED),
}


def lacking(kind: Schema, default: Any) -> Pair:
    more = {} if default is REFUSED else {"default": default}
    return Pair(record("R", ID), record("R", ID, field("x", kind, **more)), written(record("R", ID), {"id": 1}))


N1, N2 = record("N1", i="int"), record("N2", i="int")
TREE = record("Tree", field("value", "int"), field("left", ["null", "Tree"]))
OLD = record("Old", field("a", "int"), field("b", "int"))
NAMES: dict[str, tuple[Schema, Schema, Any, Any]] = {  # the writer's schema, the reader's, what is written and read
    "what Spark's to_avro writes": (record("topLevelRecord", ID), record("Order", ID), {"id": 1}, {"id": 1}),
    "another namespace": (record("com.a.Order", ID), record("com.b.Order", ID), {"id": 1}, {"id": 1}),
    "a record in it": (record("R", n=N1), record("R", n=N2), {"n": {"i": 1}}, {"n": {"i": 1}}),
    "a record or null": (
        *(record("R", n=["null", N1]), record("R", n=["null", N2])),
        *({"n": {"i": 1}}, {"n": {"i": 1}}),
    ),
    "a record, or null as well": (record("R", n=N1), record("R", n=["null", N2]), {"n": {"i": 1}}, {"n": {"i": 1}}),
    "a record that was null, too": (record("R", n=["null", N1]), record("R", n=N2), {"n": {"i": 1}}, {"n": {"i": 1}}),
    "null where a record must be": (record("R", n=["null", N1]), record("R", n=N2), {"n": None}, REFUSED),
    "records in a list": (record("R", n=array(N1)), record("R", n=array(N2)), {"n": [{"i": 1}]}, {"n": [{"i": 1}]}),
    "records in a map": (
        *(record("R", n=mapped(N1)), record("R", n=mapped(N2))),
        *({"n": {"k": {"i": 1}}}, {"n": [("k", {"i": 1})]}),
    ),
    "two records that become one": (
        *(record("R", a=N1, b=N2), record("R", field("a", N1), field("b", "N1"))),
        *({"a": {"i": 1}, "b": {"i": 2}}, {"a": {"i": 1}, "b": {"i": 2}}),
    ),
    "one record that becomes two": (
        *(record("R", field("a", N1), field("b", "N1")), record("R", a=N1, b=record("N2", i="long"))),
        *({"a": {"i": 1}, "b": {"i": 2}}, {"a": {"i": 1}, "b": {"i": 2}}),
    ),
    "the record of a union that fits": (
        record("R", n=["null", record("X", s="string"), N1]),
        record("R", n=["null", N2]),
        *({"n": {"i": 1}}, {"n": {"i": 1}}),
    ),
    "the record of a union that does not fit": (
        record("R", n=["null", record("X", s="string"), N1]),
        record("R", n=["null", N2]),
        *({"n": {"s": "a"}}, REFUSED),
    ),
    "a record that lacks a field, in a union": (
        *(record("R", n=["null", record("X", s="string")]), record("R", n=["null", N2])),
        *({"n": {"s": "a"}}, REFUSED),
    ),
    "a record that holds itself, unread": (TREE, record("T", value="long"), {"value": 1, "left": None}, {"value": 1}),
    "a record that holds itself, read once": (
        *(TREE, record("T", value="long", left=["null", record("L", value="long")])),
        *({"value": 1, "left": {"value": 2, "left": {"value": 3, "left": None}}}, {"value": 1, "left": {"value": 2}}),
    ),
    "a field by its alias": (
        OLD,
        record("Old", field("z", "int", aliases=["a"]), field("b", "int")),
        {"a": 1, "b": 2},
        {"z": 1, "b": 2},
    ),
    "record and field by alias": (
        *(OLD, {**record("New", field("z", "int", aliases=["a"])), "aliases": ["Old"]}),
        *({"a": 1, "b": 2}, {"z": 1}),
    ),
    "an alias in a namespace": (
        {**OLD, "namespace": "com.a"},
        {**record("com.b.New", field("z", "int", aliases=["a"])), "aliases": ["com.a.Old"]},
        *({"a": 1, "b": 2}, {"z": 1}),
    ),
    "an alias by the record's own namespace": (
        {**OLD, "namespace": "com.a"},
        {**record("com.a.New", field("z", "int", aliases=["a"])), "aliases": ["Old"]},
        *({"a": 1, "b": 2}, {"z": 1}),
    ),
    "an alias of a field of a record of another name": (
        *(OLD, record("New", field("z", "int", aliases=["a"], default=9))),
        *({"a": 1, "b": 2}, {"z": 9}),  # Java's: aliases of fields are those of a record that is known by name
    ),
    "an enum of another name": (record("R", e=enum("E1", "A")), record("R", e=enum("E2", "A")), {"e": "A"}, REFUSED),
    "an enum of another namespace": (
        *(record("R", e=enum("a.E", "A")), record("R", e=enum("b.E", "A"))),
        *({"e": "A"}, {"e": "A"}),
    ),
    "an enum by its alias": (
        *(record("R", e=enum("E1", "A")), record("R", e=enum("E2", "A", aliases=["E1"]))),
        *({"e": "A"}, {"e": "A"}),
    ),
    "an enum of another name in a list that is empty": (
        *(record("R", e=array(enum("E1", "A"))), record("R", e=array(enum("E2", "A")))),
        *({"e": []}, {"e": []}),
    ),
    "an enum of another namespace, now or null": (
        *(record("R", e=enum("a.E", "A")), record("R", e=["null", enum("b.E", "A")])),
        *({"e": "A"}, REFUSED),
    ),
    "an enum of another namespace, always or null": (
        *(record("R", e=["null", enum("a.E", "A")]), record("R", e=["null", enum("b.E", "A")])),
        *({"e": "A"}, {"e": "A"}),
    ),
    "a symbol that is unknown": (
        record("R", e=enum("E", "A", "B")),
        record("R", e=enum("E", "A")),
        {"e": "B"},
        REFUSED,
    ),
    "a symbol that is unknown, with a default": (
        *(record("R", e=enum("E", "A", "B")), record("R", e=enum("E", "Z", "A", default="Z"))),
        *({"e": "B"}, {"e": "Z"}),
    ),
    "symbols in another order": (
        *(record("R", e=enum("E", "A", "B")), record("R", e=enum("E", "B", "A"))),
        *({"e": "B"}, {"e": "B"}),
    ),
    "an enum as text": (record("R", e=enum("E", "A")), record("R", e="string"), {"e": "A"}, REFUSED),
    "a fixed of another name": (record("R", f=fixed("F1")), record("R", f=fixed("F2")), {"f": b"ab"}, REFUSED),
    "a fixed of another size": (record("R", f=fixed("F")), record("R", f=fixed("F", 3)), {"f": b"ab"}, REFUSED),
    "a fixed by its alias": (
        *(record("R", f=fixed("F1")), record("R", f=fixed("F2", aliases=["F1"]))),
        *({"f": b"ab"}, {"f": b"ab"}),
    ),
    "an int as a float": (record("R", x="int"), record("R", x="float"), {"x": 2**31 - 1}, {"x": 2147483648.0}),
    "a long as a float": (
        record("R", x="long"),
        record("R", x="float"),
        {"x": 2**60 + 2**36 + 1},
        {"x": 1.1529216420458004e18},
    ),
    "a float as a double": (record("R", x="float"), record("R", x="double"), {"x": 0.5}, {"x": 0.5}),
    "a long as an int": (record("R", x="long"), record("R", x="int"), {"x": 1}, REFUSED),
    "text as bytes": (record("R", x="string"), record("R", x="bytes"), {"x": "é"}, {"x": b"\xc3\xa9"}),
    "bytes as text": (record("R", x="bytes"), record("R", x="string"), {"x": b"\xc3\xa9"}, {"x": "é"}),
    "one of many types": (
        *(record("R", x=["null", "string", "long", N1]), record("R", x=["null", "double"])),
        *({"x": 7}, {"x": 7.0}),
    ),
    "another of many types": (
        *(record("R", x=["null", "string", "long", N1]), record("R", x=["null", "double"])),
        *({"x": "a"}, REFUSED),
    ),
    "fields in another order, and one more": (
        *(record("R", a="int", gone=mapped(array(["null", N1])), b="string"), record("R", b="string", a="long")),
        *({"a": 1, "gone": {"k": [{"i": 1}, None]}, "b": "x"}, {"b": "x", "a": 1}),
    ),
    "a field that is gone, by the name of another's alias": (
        *(record("R", unread_0="int", a="int"), record("R", unread_0="string", a="int")),
        *({"unread_0": 7, "a": 1}, REFUSED),
    ),
    "a record that is null as a whole": (["null", record("R", ID)], record("R", ID), None, REFUSED),
    "a value that is no record": ("int", record("R", ID), 1, REFUSED),
}
PAIRS = {
    **{f"default: {name}": (lacking(kind, default), None) for name, (kind, default, _) in DEFAULTS.items()},
    **{
        f"names: {name}": (Pair(writer, reader, written(writer, value)), right)
        for name, (writer, reader, value, right) in NAMES.items()
    },
}
RIGHT = {
    **{
        f"default: {name}": REFUSED if right is REFUSED else {"id": 1, "x": right}
        for name, (_, _, right) in DEFAULTS.items()
    },
    **{f"names: {name}": right for name, (_, _, _, right) in NAMES.items()},
}
RANDOM = [random_pair(seed) for seed in range(400)]


@pytest.fixture(scope="module")
def javas() -> list[dict[str, Any]]:
    """What Java reads for all pairs, from one JVM: first the named ones, then the random ones."""
    return java_reads([*(pair for pair, _ in PAIRS.values()), *RANDOM])


class TestBesideJava:
    @pytest.mark.parametrize("name", PAIRS)
    def test_value_is_read_as_by_java(self, name: str, javas: list[dict[str, Any]]) -> None:
        pair, java, right = PAIRS[name][0], javas[list(PAIRS).index(name)], RIGHT[name]
        if right is REFUSED:
            assert "error" in java
            with pytest.raises(SerializationError, match=r"^row 0 does not decode: (field|symbol) "):
                read(pair)
            assert read(pair, "permissive") is None
        else:
            assert in_order(read(pair)) == as_java(java["value"]) == in_order(right)

    def test_random_schema_changes_are_read_as_by_java(self, javas: list[dict[str, Any]]) -> None:
        found = [read(pair, "permissive") for pair in RANDOM]
        # Java refuses such a schema as a whole, this reader a record in which two fields become one.
        whole = ["Duplicate field" in java.get("error", "") for java in javas[len(PAIRS) :]]
        right = [as_java(java.get("value")) for java in javas[len(PAIRS) :]]
        wrong = [seed for seed in range(len(RANDOM)) if in_order(found[seed]) != right[seed] and not whole[seed]]
        assert not wrong, [(seed, RANDOM[seed], found[seed], right[seed]) for seed in wrong[:3]]
        assert len(RANDOM) // 4 < found.count(None) < len(RANDOM) // 2


class TestErrors:
    @pytest.mark.parametrize(
        ("name", "told"),
        [
            ("names: an enum of another name", r'field R\.e: the writer\'s enum is called E1.*"aliases": \["E1"\]'),
            ("names: a fixed of another name", r'field R\.f: the writer\'s fixed is called F1.*"aliases": \["F1"\]'),
            ("names: a fixed of another size", r"field R\.f: .* has 2 bytes, but the reader's has 3"),
            ("names: a long as an int", r"field R\.x: the writer's long cannot be read as the reader's int"),
            (
                "names: a record that lacks a field, in a union",
                r"field R\.n: .* has no field i, and the reader's schema has no default",
            ),
            (
                "names: null where a record must be",
                r"field R\.n: the writer's null cannot be read as the reader's record N2",
            ),
            ("default: a number for bytes", r"field R: .* has no field x, and its default 1 is not of type bytes"),
            ("names: a symbol that is unknown", "symbol B of enum E is unknown"),
        ],
    )
    def test_message_names_the_field_and_what_differs(self, name: str, told: str) -> None:
        with pytest.raises(SerializationError, match=told):
            read(PAIRS[name][0])

    def test_default_with_characters_that_are_not_bytes_is_refused(self) -> None:
        """Java replaces such characters by question marks."""
        with pytest.raises(SerializationError, match=r"beyond U\+00FF"):
            read(lacking("bytes", "€"))

    def test_two_fields_that_become_one_by_an_alias_are_refused(self) -> None:
        reader = record("Old", field("b", "int", aliases=["a"]))
        with pytest.raises(SerializationError, match="as the same field: b"):
            read(Pair(OLD, reader, written(OLD, {"a": 1, "b": 2})))

    @pytest.mark.parametrize(
        ("written_as", "read_as"),
        [
            ("timestamp-micros", "timestamp-millis"),
            ("timestamp-millis", "timestamp-nanos"),
            ("timestamp-millis", "local-timestamp-micros"),
            ("time-micros", "timestamp-millis"),
        ],
    )
    def test_times_in_another_unit_are_refused(self, written_as: str, read_as: str) -> None:
        """Java reads the number, which then means another time."""
        writer, reader = (record("R", at={"type": "long", "logicalType": each}) for each in (written_as, read_as))
        with pytest.raises(SerializationError, match=f"{written_as} has another unit than the reader's {read_as}"):
            read(Pair(writer, reader, written(record("R", at="long"), {"at": 1})))


PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


class TestLogicalTypes:
    @pytest.mark.parametrize("default", ["\u0001", "ÿ", "\u0000c"])
    def test_default_of_a_decimal_is_its_bytes(self, default: str) -> None:
        unscaled = int.from_bytes(default.encode("latin-1"), signed=True)
        for kind in (PRICE, ["null", PRICE], {**PRICE, **fixed("P", len(default)), "precision": 2}):
            assert read(lacking(kind, default))["x"] == Decimal(unscaled).scaleb(-2)

    @pytest.mark.parametrize(
        ("writer", "reader", "value", "right"),
        [
            pytest.param("bytes", PRICE, b"\1\0", Decimal("2.56"), id="bytes as a decimal"),
            pytest.param(PRICE, "bytes", Decimal("2.56"), b"\1\0", id="a decimal as bytes"),
            pytest.param("string", PRICE, "A", Decimal("0.65"), id="text as a decimal"),
            pytest.param(PRICE, {**PRICE, "scale": 4}, Decimal("2.56"), Decimal("2.5600"), id="more digits"),
            pytest.param(PRICE, {**PRICE, "scale": 0}, Decimal("2.56"), REFUSED, id="fewer digits than the value has"),
        ],
    )
    def test_decimal_keeps_its_value(self, writer: Schema, reader: Schema, value: Any, right: Any) -> None:
        pair = Pair(record("R", x=writer), record("R", x=reader), written(record("R", x=writer), {"x": value}))
        if right is REFUSED:
            with pytest.raises(SerializationError):
                read(pair)
        else:
            assert read(pair) == {"x": right}

    def test_default_of_a_time_is_its_number(self) -> None:
        kind = {"type": "long", "logicalType": "timestamp-millis"}
        assert read(lacking(kind, 86_400_000))["x"].isoformat() == "1970-01-02T00:00:00+00:00"

    def test_number_without_a_unit_gets_the_readers_unit(self) -> None:
        reader = record("R", at={"type": "long", "logicalType": "timestamp-millis"})
        found = read(Pair(record("R", at="int"), reader, written(record("R", at="int"), {"at": 1000})))
        assert found["at"].isoformat() == "1970-01-01T00:00:01+00:00"
