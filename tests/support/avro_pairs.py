"""Pairs of Avro schemas, one a change of the other as people change schemas, and what Apache's Java library reads."""

from __future__ import annotations

import copy
import io
import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import fastavro

from tests.support.kafka import kafka_jvm
from tests.support.spark import spark_jvm

_PROGRAM = Path(__file__).parent / "java_avro" / "Resolve.java"
_NUMBERS = ["int", "long", "float", "double"]
_TEXTS = ["string", "bytes"]
_NAMES = ["A", "B", "com.a.A", "com.b.A", "com.b.C"]


class Pair(NamedTuple):
    """A value written with one schema, to be read as another."""

    writer: Any
    reader: Any
    data: bytes


def java_reads(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """For each pair ``{"value": ...}`` or ``{"error": ...}``: bytes are ``{"bytes": hex}``, maps ``{"map": ...}``."""
    lines = [json.dumps(each._asdict() | {"data": each.data.hex()}) for each in pairs]
    command = [str(kafka_jvm.java()), *kafka_jvm.QUICK, "-cp", spark_jvm.CLASS_PATH, str(_PROGRAM)]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def random_pair(seed: int) -> Pair:
    """A record of some types that a column holds, a change of its schema, and a value of the change."""
    return _Maker(random.Random(seed)).pair()


class _Maker:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._taken = 0
        self._renamed: dict[str, str] = {}

    def pair(self) -> Pair:
        while True:
            reader = self._record(3)
            writer = self._changed(copy.deepcopy(reader))
            self._add_aliases(reader)
            try:
                fastavro.parse_schema(reader, _ignore_default_error=True)
                parsed = fastavro.parse_schema(writer, _ignore_default_error=True)
            except fastavro.schema.SchemaParseException:
                continue
            out = io.BytesIO()
            fastavro.schemaless_writer(out, parsed, self._value(writer))
            return Pair(_plain(writer), _plain(reader), out.getvalue())

    def _likely(self, chance: float) -> bool:
        return self._chance.random() < chance

    def _name(self) -> str:
        self._taken += 1
        return f"{self._chance.choice(_NAMES)}{self._taken}"

    def _record(self, depth: int) -> dict[str, Any]:
        names = [f"f{number}" for number in range(self._chance.randint(1, 3))]
        fields = [{"name": name, "type": self._type(depth - 1)} for name in names]
        for field in fields:
            if self._likely(0.8):
                field["default"] = self._default(field["type"])
            if self._likely(0.2):
                field["aliases"] = ["g0"]
        return {"type": "record", "name": self._name(), "fields": fields}

    def _type(self, depth: int) -> Any:
        kinds = ["number", "text", "boolean", "enum", "fixed"] + ["record", "array", "map", "union"] * (depth > 0)
        kind = self._chance.choice(kinds)
        if kind == "union":
            other = self._record(depth - 1) if depth > 1 and self._likely(0.5) else self._type(0)
            return self._chance.sample(["null", other], 2)
        return {
            "number": lambda: self._chance.choice(_NUMBERS),
            "text": lambda: self._chance.choice(_TEXTS),
            "boolean": lambda: "boolean",
            "enum": self._enum,
            "fixed": lambda: {"type": "fixed", "name": self._name(), "size": 2},
            "record": lambda: self._record(depth),
            "array": lambda: {"type": "array", "items": self._type(depth - 1)},
            "map": lambda: {"type": "map", "values": self._type(depth - 1)},
        }[kind]()

    def _enum(self) -> dict[str, Any]:
        found = {"type": "enum", "name": self._name(), "symbols": ["X", "Y"]}
        return found | {"default": "X"} if self._likely(0.5) else found

    def _changed(self, schema: Any, *, in_union: bool = False) -> Any:
        if isinstance(schema, list):
            branches = [self._changed(each, in_union=True) for each in schema]
            if self._likely(0.2):
                return next(each for each in branches if each != "null")
            if self._likely(0.3) and not {"int", "long"} & {each for each in branches if isinstance(each, str)}:
                branches.append("long")
            self._chance.shuffle(branches)
            return branches
        if not in_union and self._likely(0.1):
            return ["null", self._changed(schema, in_union=True)]
        if isinstance(schema, str):
            return self._changed_primitive(schema)
        self._rename(schema)
        for inner in ("items", "values"):
            if inner in schema:
                schema[inner] = self._changed(schema[inner])
        if schema["type"] == "enum" and self._likely(0.3):
            schema["symbols"] = self._chance.choice([["X"], ["Y", "X"], ["X", "Y", "Z"]])
        if schema["type"] == "fixed" and self._likely(0.1):
            schema["size"] = 3
        if schema["type"] == "record":
            schema["fields"] = self._changed_fields(schema["fields"])
        return schema

    def _changed_primitive(self, schema: str) -> str:
        for group in (_NUMBERS, _TEXTS):
            if schema in group and self._likely(0.3):
                return self._chance.choice(group)
        return schema

    def _rename(self, schema: dict[str, Any]) -> None:
        if "name" in schema and self._likely(0.3):
            space, _, short = schema["name"].rpartition(".")
            name = self._chance.choice([self._name(), f"other.{short}", short, f"{space or 'x'}.{short}"])
            self._renamed[schema["name"]] = name
            schema["name"] = name

    def _add_aliases(self, schema: Any) -> None:
        """Give every other type of the reader's that was renamed the writer's name as an alias."""
        if isinstance(schema, list):
            for each in schema:
                self._add_aliases(each)
        if not isinstance(schema, dict):
            return
        if schema.get("name") in self._renamed and self._likely(0.5):
            schema["aliases"] = [self._renamed[schema["name"]]]
        for each in (schema.get("items"), schema.get("values"), *(each["type"] for each in schema.get("fields", ()))):
            self._add_aliases(each)

    def _changed_fields(self, fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = [field for field in fields if self._likely(0.85)]
        changed = [{"name": field["name"], "type": self._changed(field["type"])} for field in kept]
        if self._likely(0.3):
            changed.append({"name": "g0", "type": self._type(1)})
        self._chance.shuffle(changed)
        return changed

    def _value(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return self._value(self._chance.choice(schema))
        kind = schema if isinstance(schema, str) else schema["type"]
        several = range(self._chance.randint(0, 2))
        return {
            "null": lambda: None,
            "boolean": lambda: self._likely(0.5),
            "int": lambda: self._chance.choice([0, 1, -7, 2**31 - 1, -(2**31)]),
            "long": lambda: self._chance.choice([0, 2**53 + 1, 2**63 - 1, -(2**63), 2**60 + 2**36 + 1]),
            "float": lambda: self._chance.choice([0.5, -2.0, 3.0e38]),
            "double": lambda: self._chance.choice([0.1, -2.5, 1e300]),
            "string": lambda: self._chance.choice(["", "a", "é\u0000€"]),
            "bytes": lambda: self._chance.choice([b"", b"a", "é€".encode()]),
            "enum": lambda: self._chance.choice(schema["symbols"]),
            "fixed": lambda: self._chance.randbytes(schema["size"]),
            "array": lambda: [self._value(schema["items"]) for _ in several],
            "map": lambda: {f"k{each}": self._value(schema["values"]) for each in several},
            "record": lambda: {each["name"]: self._value(each["type"]) for each in schema["fields"]},
        }[kind]()

    def _default(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return self._default(self._chance.choice(schema))
        kind = schema if isinstance(schema, str) else schema["type"]
        text = self._chance.choice(["", "ÿ\u0001", "abc"])
        return {
            "null": lambda: None,
            "boolean": lambda: True,
            "int": lambda: self._chance.choice([0, -(2**31)]),
            "long": lambda: self._chance.choice([0, 2**63 - 1]),
            "float": lambda: self._chance.choice([1, 0.1]),
            "double": lambda: self._chance.choice([1, 0.1]),
            "string": lambda: text,
            "bytes": lambda: text,
            "enum": lambda: self._chance.choice(schema["symbols"]),
            "fixed": lambda: text,
            "array": lambda: [self._default(schema["items"])],
            "map": lambda: {"k": self._default(schema["values"])},
            "record": lambda: {
                each["name"]: self._default(each["type"])
                for each in schema["fields"]
                if "default" not in each or self._likely(0.5)
            },
        }[kind]()


def _plain(schema: Any) -> Any:
    return json.loads(json.dumps(schema))
