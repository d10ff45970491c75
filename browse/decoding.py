"""Keys and values as text for people: JSON, Avro, text or hex, of a bounded size, without control characters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..storage import LogStoreError, printable

FORMATS = ("auto", "json", "avro", "text", "hex")
AVRO_HEADER_BYTES = 5  # Confluent's: 00, and the schema's id in 4 bytes
DECODED_BYTES_MAX = 1 << 20  # a larger value is not decoded; a part is shown, as text or hex
HEX_ROW_BYTES = 16

_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_BLANK = re.compile(r"([\n\t])")


class AvroText(NamedTuple):
    """A value of Avro as JSON, and which schema it was written with."""

    text: str
    schema: str  # such as "schema id 7"


# Decodes a value that begins with the id of its schema. Raises LogStoreError for one that it cannot decode.
DecodeAvro = Callable[[bytes], AvroText]


class Part(NamedTuple):
    """A key, a value or the value of a header, or its beginning."""

    data: bytes | None  # None: null
    size: int  # bytes of the whole

    @classmethod
    def of(cls, data: bytes | None, bytes_max: int = DECODED_BYTES_MAX) -> Part:
        """Returns at most ``bytes_max`` bytes of ``data``."""
        return cls(None, 0) if data is None else cls(data[:bytes_max], len(data))

    @property
    def is_whole(self) -> bool:
        return self.data is None or len(self.data) == self.size


class Shown(NamedTuple):
    """A part as text."""

    format: str  # null, json, avro, text or hex
    text: str
    size: int  # bytes of the whole part
    is_cut: bool  # the text shows its beginning only
    note: str = ""  # the schema of Avro, or why the part is not shown in the requested format


class Decoder:
    """Shows parts in one of :data:`FORMATS`; ``auto`` chooses the one that fits."""

    def __init__(self, format: str, avro: DecodeAvro | None, *, chars_max: int, is_indented: bool = False) -> None:
        self._format, self._avro = format, avro
        self._chars_max, self._is_indented = chars_max, is_indented

    def __call__(self, part: Part) -> Shown:
        """Returns the part as text of at most ``chars_max`` characters.

        Raises nothing: a part that does not decode is shown as hex.
        """
        if part.data is None:
            return Shown("null", "null", 0, False)
        asked = self._fitting(part) if self._format == "auto" else self._format
        format, text, note = self._decoded(asked, part)
        is_cut = len(text) > self._chars_max or not part.is_whole
        return Shown(format, readable(text[: self._chars_max]), part.size, is_cut, note)

    def _fitting(self, part: Part) -> str:
        assert part.data is not None
        if self._avro is not None and part.data[:1] == b"\0" and part.size >= AVRO_HEADER_BYTES:
            return "avro"
        if part.is_whole and part.data.lstrip()[:1] in (b"{", b"["):
            try:
                _parsed(part.data)
            except ValueError:
                pass
            else:
                return "json"
        return "text" if _is_text(part) else "hex"

    def _decoded(self, asked: str, part: Part) -> tuple[str, str, str]:
        """Returns the format that was used, the text, and a note."""
        assert part.data is not None
        try:
            if asked in ("json", "avro") and not part.is_whole:
                return *self._plain(part), f"too large to decode as {asked} here"
            if asked == "json":
                text = _parsed(part.data)
                return "json", _indented(text) if self._is_indented else text, ""
            if asked == "avro":
                found = self._avro_text(part.data)
                return "avro", _indented(found.text) if self._is_indented else found.text, found.schema
        except (ValueError, LogStoreError) as error:
            return *self._plain(part), f"not {asked.upper() if asked == 'json' else 'Avro'}: {error}"
        return *self._plain(part, asked), ""

    def _avro_text(self, data: bytes) -> AvroText:
        if self._avro is None:
            raise ValueError("no schemas: start the page with --registry or --schema-folder")
        return self._avro(data)

    def _plain(self, part: Part, format: str | None = None) -> tuple[str, str]:
        assert part.data is not None
        if (format or ("text" if _is_text(part) else "hex")) == "text":
            return "text", part.data[: self._chars_max * 4 + 4].decode(errors="backslashreplace")
        data = part.data[: self._chars_max]
        return "hex", "\n".join(_hex_rows(data)) if self._is_indented else data.hex(" ")


def readable(text: str) -> str:
    """Returns a text with control characters escaped, including those that change its direction, but not line ends."""
    if text.isprintable():
        return text
    return "".join(each if each in ("\n", "\t") else printable(each) for each in _BLANK.split(text))


def _is_text(part: Part) -> bool:
    """Whether the part is UTF-8 without a zero byte; its end may be cut within a character."""
    assert part.data is not None
    if b"\0" in part.data:
        return False
    try:
        part.data.decode()
    except UnicodeDecodeError as error:
        return not part.is_whole and error.reason == "unexpected end of data" and error.end == len(part.data)
    return True


def _parsed(data: bytes) -> str:
    """Returns the text of JSON as it is. Raises ValueError for anything else."""
    text = data.decode()
    try:
        json.loads(text, parse_constant=_refuse, parse_int=str, parse_float=str)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return text


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no value of JSON")


def _indented(text: str) -> str:
    """Returns JSON with line ends and indents between its tokens, which stay as they are, even numbers of any size."""
    return "".join(_spaced(_JSON_TOKEN.findall(text)))


def _spaced(tokens: list[str]) -> Iterator[str]:
    depth = 0
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else ""
        is_empty = token + following in ("{}", "[]")
        if token in ("{", "["):
            depth += 1
            yield token if is_empty else f"{token}\n{'  ' * depth}"
        elif token in ("}", "]"):
            depth -= 1
            before = tokens[index - 1] if index else ""
            yield token if before + token in ("{}", "[]") else f"\n{'  ' * depth}{token}"
        elif token == ",":
            yield f",\n{'  ' * depth}"
        else:
            yield ": " if token == ":" else token


def _hex_rows(data: bytes) -> Iterator[str]:
    for start in range(0, len(data), HEX_ROW_BYTES):
        row = data[start : start + HEX_ROW_BYTES]
        text = "".join(chr(each) if 32 <= each < 127 else "." for each in row)
        yield f"{start:08x}  {row.hex(' '):<{HEX_ROW_BYTES * 3 - 1}}  {text}"
