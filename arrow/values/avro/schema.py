"""Avro schemas as graphs: each named type is one node, however often it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NAMED = ("record", "enum", "fixed")
NO_DEFAULT: Any = object()  # not None, which is the default null


@dataclass(eq=False)
class Node:
    """A type in a schema. Names and aliases are full; ``inner`` is the type of an array's items or a map's values."""

    kind: str  # "union", or Avro's name
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: list[Field] = field(default_factory=list)
    inner: Node | None = None
    branches: list[Node] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    default: str | None = None  # of an enum
    size: int = 0
    logical: str | None = None
    digits: tuple[int, int] | None = None  # precision and scale of a decimal

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind


@dataclass(eq=False)
class Field:
    """A field of a record. ``default`` is JSON, or NO_DEFAULT."""

    name: str
    aliases: tuple[str, ...]
    type: Node
    default: Any


def graph(schema: Any) -> Node:
    """Returns the graph of a schema that fastavro has parsed: with full names, each type defined at its first use."""
    return _Graph({}).of(schema)


@dataclass(frozen=True)
class _Graph:
    named: dict[str, Node]

    def of(self, schema: Any) -> Node:
        if isinstance(schema, list):
            return Node("union", branches=[self.of(each) for each in schema])
        if isinstance(schema, str):
            return self.named.get(schema) or Node(schema)
        kind = "record" if schema["type"] == "error" else schema["type"]
        node = Node(kind, **_logical(schema))
        if kind in ("array", "map"):
            node.inner = self.of(schema["items" if kind == "array" else "values"])
        elif kind in NAMED:
            self._define(node, schema)
        return node

    def _define(self, node: Node, schema: Mapping[str, Any]) -> None:
        node.name = schema["name"]
        node.aliases = tuple(_full(alias, node.name) for alias in schema.get("aliases") or ())
        self.named[node.name] = node  # before its fields, which may refer to it
        node.symbols, node.default = list(schema.get("symbols", ())), schema.get("default")
        node.size = schema.get("size", 0)
        node.fields = [
            Field(
                each["name"],
                tuple(each.get("aliases") or ()),
                self.of(each["type"]),
                each.get("default", NO_DEFAULT),
            )
            for each in schema.get("fields", ())
        ]


def _logical(schema: Mapping[str, Any]) -> dict[str, Any]:
    name = schema.get("logicalType")
    if name != "decimal":
        return {"logical": name}
    return {"logical": name, "digits": (schema.get("precision", 0), schema.get("scale", 0))}


def _full(alias: str, name: str) -> str:
    """Returns the full name of an alias; an alias without dots is in the namespace of the type ``name``."""
    namespace = name.rpartition(".")[0]
    return f"{namespace}.{alias}" if namespace and "." not in alias else alias
