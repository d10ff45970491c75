"""Avro's schema resolution as in Apache's Java library (1.12): reads values of one schema as values of another.

The specification does not say what to do with records whose names differ; Java reads them, as do Spark's from_avro and
Confluent's clients. The details are in ``org.apache.avro.Resolver``: https://github.com/apache/avro.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from fastavro.read import LOGICAL_READERS

from ..serde import SerializationError
from .defaults import WrongDefaultError, decimal, default_value, single
from .schema import NAMED, NO_DEFAULT, Field, Node

Convert = Callable[[Any], Any]

_MARK = "commitlog-resolve"  # the logical type of values to convert once fastavro has read them
_KINDS = ("null", "boolean", "int", "long", "float", "double", "bytes", "string", *NAMED, "array", "map")
_PROMOTIONS: dict[tuple[str, str], Convert | None] = {
    ("int", "long"): None,
    ("int", "float"): single,
    ("int", "double"): float,
    ("long", "float"): single,
    ("long", "double"): float,
    ("float", "double"): None,
    ("string", "bytes"): str.encode,
    ("bytes", "string"): bytes.decode,
}
_UNITS = {"date": "days"} | {
    f"{kind}-{unit}": unit
    for kind in ("time", "timestamp", "local-timestamp")
    for unit in ("millis", "micros", "nanos")
}


def _converted(data: Any, schema: Any, _reader: object = None) -> Any:
    return schema[_MARK](data)


LOGICAL_READERS.update({f"{kind}-{_MARK}": _converted for kind in _KINDS})


class _MismatchError(Exception):
    """A type of the writer's schema cannot be read as the corresponding type of the reader's schema."""


def resolved(writer: Node, reader: Node) -> Any:
    """Returns a schema for fastavro that reads what ``writer`` wrote as values of ``reader``, a record.

    Fields that only the writer has are read under names that ``reader`` does not use. If a part of a value cannot be
    read as ``reader`` requires, reading the value raises SerializationError, which names the field; other values are
    read.
    """
    return _Resolution(reader).of(writer, reader, reader.name)


class _Resolution:
    """Resolves one pair of schemas. In the result, each use of a named type defines it again, under a new name."""

    def __init__(self, reader: Node) -> None:
        self._numbers = count()
        self._new_names: dict[str, str] = {}  # new names of the reader's types, by alias
        self._new_fields: dict[str, dict[str, str]] = {}  # new names of the fields of the reader's records, by alias
        for node in _all(reader, set()):
            self._new_names |= dict.fromkeys(node.aliases, node.name)
            aliases = {alias: each.name for each in node.fields for alias in each.aliases}
            self._new_fields[node.name] = self._new_fields.get(node.name, {}) | aliases

    def of(self, writer: Node, reader: Node, where: str) -> Any:
        """Returns a schema that reads ``writer`` as ``reader``, or rejects each value if that is impossible."""
        try:
            return self._pair(writer, reader, where)
        except _MismatchError as error:
            why = f"field {where}: {error}"
            return _marked(self._skipped(writer, {}), _refuse(why))

    def _pair(self, writer: Node, reader: Node, where: str) -> Any:
        if writer.kind == "union":
            same = self._equivalent(writer, reader, set())
            readers = reader.branches if same else [reader] * len(writer.branches)
            return [self.of(*pair, where) for pair in zip(writer.branches, readers, strict=True)]
        if reader.kind == "union":
            return self._pair(writer, self._branch(writer, reader, where), where)
        if writer.kind == "record" == reader.kind:
            return self._record(writer, reader, where)
        if writer.kind == "enum" == reader.kind:
            return self._enum(writer, reader)
        if writer.kind == reader.kind and writer.inner and reader.inner:
            inner = self.of(writer.inner, reader.inner, f"{where}{'[]' if writer.kind == 'array' else '{}'}")
            return {"type": writer.kind, "items" if writer.kind == "array" else "values": inner}
        return self._leaf(writer, reader)

    def _branch(self, writer: Node, reader: Node, where: str) -> Node:
        """Returns the branch of the reader's union that ``writer`` is read as.

        An enum or fixed needs a branch of the same name; a record may be read as any record that fits. Raises
        _MismatchError if there is no branch.
        """
        same = [each for each in reader.branches if each.kind == writer.kind]
        for each in same:
            if each.kind not in NAMED or each.name == self._name(writer):
                return each
        fitting = [each for each in same if each.kind == "record" and self._fits(writer, each, where)]
        by_name = [each for each in fitting if each.short_name == _short(self._name(writer))]
        promoted = [each for each in reader.branches if (writer.kind, each.kind) in _PROMOTIONS]
        if found := by_name[-1:] + fitting + promoted:
            return found[0]
        if same and writer.kind == "record":
            self._record(writer, same[0], where, strict=True)  # raises, and says what does not fit
        raise _MismatchError(_only_names(writer.name, same[0]) if same else f"its union has no branch for {writer}")

    def _fits(self, writer: Node, reader: Node, where: str) -> bool:
        try:
            self._record(writer, reader, where, strict=True)
        except _MismatchError:
            return False
        return True

    def _record(self, writer: Node, reader: Node, where: str, *, strict: bool = False) -> Any:
        """Returns a schema that reads records; with ``strict``, raises _MismatchError if a field cannot be read."""
        new_names = self._new_fields.get(self._name(writer), {})
        names = [new_names.get(each.name, each.name) for each in writer.fields]
        if twice := {name for name in names if names.count(name) > 1}:
            raise _MismatchError(
                f"aliases read two fields of the writer's {writer} as the same field: {', '.join(twice)}"
            )
        wanted = {each.name: each for each in reader.fields}
        defaults = {name: _default(each, writer) for name, each in wanted.items() if name not in names}
        read = self._pair if strict else self.of
        memo: dict[int, str] = {}
        fields = [
            {"name": name, "type": read(each.type, wanted[name].type, f"{where}.{name}")}
            if name in wanted
            else {"name": self._unused(wanted), "type": self._skipped(each.type, memo)}
            for name, each in zip(names, writer.fields, strict=True)
        ]
        found = {"type": "record", "name": self._fresh(), "fields": fields}
        return _marked(found, lambda row: row | defaults) if defaults else found

    def _enum(self, writer: Node, reader: Node) -> Any:
        self._check_name(writer, reader)
        symbols = {each: each if each in reader.symbols else reader.default for each in writer.symbols}
        found = {"type": "enum", "name": self._fresh(), "symbols": writer.symbols}
        if all(symbols[each] == each for each in symbols):
            return found

        def convert(symbol: str) -> str:
            if (known := symbols[symbol]) is None:
                raise SerializationError(f"symbol {symbol} of enum {reader.name} is unknown to the reader's schema")
            return known

        return _marked(found, convert)

    def _leaf(self, writer: Node, reader: Node) -> Any:
        units = _UNITS.get(writer.logical or ""), _UNITS.get(reader.logical or "")
        if None not in units and units[0] != units[1]:
            raise _MismatchError(f"the writer's {writer.logical} has another unit than the reader's {reader.logical}")
        found: dict[str, Any] = {"type": writer.kind}
        if writer.kind == "fixed":
            found |= {"name": self._fresh(), "size": writer.size}
        if writer.kind != reader.kind:
            return self._promoted(writer, reader, found)
        if writer.kind == "fixed":
            self._check_name(writer, reader)
            if writer.size != reader.size:
                raise _MismatchError(
                    f"the writer's {writer} has {writer.size} bytes, but the reader's has {reader.size}"
                )
        digits = reader.digits and (writer.digits or reader.digits)
        if digits:
            return found | {"logicalType": "decimal", "precision": digits[0], "scale": digits[1]}
        return found

    def _promoted(self, writer: Node, reader: Node, found: dict[str, Any]) -> Any:
        if (writer.kind, reader.kind) not in _PROMOTIONS:
            raise _MismatchError(f"the writer's {writer} cannot be read as the reader's {reader}")
        convert = _PROMOTIONS[writer.kind, reader.kind]
        if reader.digits is not None and reader.kind == "bytes":
            scale = reader.digits[1]
            return _marked(found, lambda text: decimal(text.encode(), scale))
        return found if convert is None else _marked(found, convert)

    def _equivalent(self, writer: Node, reader: Node, seen: set[tuple[int, int]]) -> bool:
        """Whether two unions match branch by branch: each branch is then read as the branch at the same position."""
        if writer.kind != reader.kind or (id(writer), id(reader)) in seen:
            return writer.kind == reader.kind
        seen.add((id(writer), id(reader)))
        if writer.kind in NAMED and _short(self._name(writer)) != reader.short_name:
            return False
        if (writer.size, writer.symbols) != (reader.size, reader.symbols):
            return False
        new_names = self._new_fields.get(self._name(writer), {})
        names = [new_names.get(each.name, each.name) for each in writer.fields]
        if names != [each.name for each in reader.fields] or len(writer.branches) != len(reader.branches):
            return False
        return all(self._equivalent(*pair, seen) for pair in zip(_parts(writer), _parts(reader), strict=True))

    def _check_name(self, writer: Node, reader: Node) -> None:
        if _short(self._name(writer)) != reader.short_name:
            raise _MismatchError(_only_names(writer.name, reader))

    def _name(self, writer: Node) -> str:
        return self._new_names.get(writer.name, writer.name)

    def _fresh(self) -> str:
        return f"n{next(self._numbers)}"

    def _unused(self, wanted: dict[str, Field]) -> str:
        """Returns a field name that the reader does not use."""
        return next(name for number in self._numbers if (name := f"unread_{number}") not in wanted)

    def _skipped(self, node: Node, names: dict[int, str]) -> Any:
        """Returns the schema of ``node`` without logical types; ``names`` has the types that are defined already."""
        if node.kind == "union":
            return [self._skipped(each, names) for each in node.branches]
        if node.inner is not None:
            inner = self._skipped(node.inner, names)
            return {"type": node.kind, "items" if node.kind == "array" else "values": inner}
        return self._skipped_named(node, names) if node.kind in NAMED else {"type": node.kind}

    def _skipped_named(self, node: Node, names: dict[int, str]) -> Any:
        if id(node) in names:
            return names[id(node)]
        names[id(node)] = name = self._fresh()
        found: dict[str, Any] = {"type": node.kind, "name": name, "size": node.size, "symbols": node.symbols}
        fields = [{"name": each.name, "type": self._skipped(each.type, names)} for each in node.fields]
        return found | {"fields": fields}


def _default(wanted: Field, writer: Node) -> Any:
    if wanted.default is NO_DEFAULT:
        raise _MismatchError(
            f"the writer's {writer} has no field {wanted.name}, and the reader's schema has no default for it"
        )
    try:
        return default_value(wanted.type, wanted.default)
    except WrongDefaultError as error:
        raise _MismatchError(f"the writer's {writer} has no field {wanted.name}, and {error}") from None


def _only_names(written: str, reader: Node) -> str:
    return (
        f"the writer's {reader.kind} is called {written}, the reader's {reader.name}; if only the names differ, "
        f'add "aliases": ["{written}"] to the reader\'s schema'
    )


def _marked(schema: Any, convert: Convert) -> Any:
    return schema | {"logicalType": _MARK, _MARK: convert}


def _refuse(why: str) -> Convert:
    def refuse(_: Any) -> Any:
        raise SerializationError(why)

    return refuse


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _parts(node: Node) -> list[Node]:
    return [*node.branches, *([node.inner] if node.inner else ()), *(each.type for each in node.fields)]


def _all(node: Node, seen: set[int]) -> Iterator[Node]:
    """Yields ``node`` and all it contains, each once, in the order of the schema."""
    if id(node) not in seen:
        seen.add(id(node))
        yield node
        for part in _parts(node):
            yield from _all(part, seen)
