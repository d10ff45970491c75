"""Records as text, in kcat's formats and its JSON."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import typer

from ... import storage

Text = Callable[["Message"], bytes]

_TOKEN = re.compile(r"%(.)|\\(x[0-9a-fA-F]{2}|.)|[^%\\]+|[%\\]", re.DOTALL)
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0"}


class Message(NamedTuple):
    """A record of a partition."""

    topic: str
    partition: int
    offset: int
    timestamp: int  # ms; -1: none
    timestamp_type: int  # storage.TimestampType
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]


def messages(topic: str, partition: int, records: storage.Records) -> Iterator[Message]:
    """Yields each record of ``records``, which has all columns, as a message."""
    headers = [[]] * len(records) if records.headers is None else records.headers.to_list()
    assert records.keys is not None
    assert records.values is not None
    columns = (records.offsets.tolist(), records.timestamps.tolist(), records.timestamp_types.tolist())
    for row in zip(*columns, records.keys.to_list(), records.values.to_list(), headers, strict=True):
        yield Message(topic, partition, *row)


def formatted(text: str, *, null: bytes) -> Text:
    """Returns a formatter for the argument of ``-f``, as in kcat; ``null`` is printed for null keys and values."""
    tokens = [_token(found, null) for found in _TOKEN.finditer(text)]
    return lambda message: b"".join(token(message) for token in tokens)


def delimited(key_delimiter: str | None, delimiter: str, *, null: bytes) -> Text:
    """Returns a formatter of values, each preceded by its key if ``key_delimiter`` is given."""
    end = escaped(delimiter)
    if key_delimiter is None:
        return lambda message: _or(message.value, null) + end
    between = escaped(key_delimiter)
    return lambda message: _or(message.key, null) + between + _or(message.value, null) + end


def escaped(text: str) -> bytes:
    r"""Returns ``text`` as bytes, with escapes such as ``\n``, ``\t`` and ``\x01`` replaced as in C."""
    return b"".join(_literal(found) for found in _TOKEN.finditer(text))


def as_json(message: Message) -> bytes:
    """Returns a line of JSON; keys and values that are not UTF-8 become ``key_base64`` and ``payload_base64``."""
    row: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "tstype": {0: "create", 1: "logappend"}.get(message.timestamp_type, "unknown"),
        "ts": message.timestamp,
    }
    if message.headers:
        pairs = [(_readable(name), None if value is None else _readable(value)) for name, value in message.headers]
        row["headers"] = [text for pair in pairs for text in pair]
    row |= member("key", message.key) | member("payload", message.value)
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def member(name: str, data: bytes | None) -> dict[str, str | None]:
    """Returns a member of an object; bytes that are not UTF-8 become base64, under another name."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _readable(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _token(found: re.Match[str], null: bytes) -> Text:
    if found[1] is None:
        literal = _literal(found)
        return lambda _: literal
    field = _FIELDS.get(found[1])
    if field is None:
        raise typer.BadParameter(f"--format: %{found[1]} is not one of {', '.join(f'%{name}' for name in _FIELDS)}")
    return lambda message: _or(field(message), null)


def _literal(found: re.Match[str]) -> bytes:
    escape = found[2]
    if escape is None:
        return found[0].encode()
    return bytes.fromhex(escape[1:]) if len(escape) == 3 else _ESCAPES.get(escape, escape.encode())


def _or(data: bytes | None, null: bytes) -> bytes:
    return null if data is None else data


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers(message: Message) -> bytes:
    return b",".join(name + b"=" + (b"NULL" if value is None else value) for name, value in message.headers)


_FIELDS: Mapping[str, Callable[[Message], bytes | None]] = {
    "s": lambda message: message.value,
    "S": lambda message: b"%d" % _length(message.value),
    "R": lambda message: struct.pack(">i", _length(message.value)),
    "k": lambda message: message.key,
    "K": lambda message: b"%d" % _length(message.key),
    "T": lambda message: b"%d" % message.timestamp,
    "h": _headers,
    "t": lambda message: message.topic.encode(),
    "p": lambda message: b"%d" % message.partition,
    "o": lambda message: b"%d" % message.offset,
    "%": lambda _: b"%",
}
