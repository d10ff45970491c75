"""Keys and values as text: what each format shows, of what size, and what it says if a value does not fit."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as some

from pyspark_commitlog.browse.decoding import FORMATS, AvroText, Decoder, Part, readable
from pyspark_commitlog.storage import LogStoreError


def schema_7(data: bytes) -> AvroText:
    if data[4:5] != b"\7":
        raise LogStoreError("its schema, id 8, is unknown")
    return AvroText('{"a":1}', "schema id 7")


def shown(data: bytes | None, format: str = "auto", *, chars_max: int = 1000, whole: bool = False) -> tuple[str, str]:
    """The format that was used, and the text."""
    found = Decoder(format, schema_7, chars_max=chars_max, is_indented=whole)(Part.of(data))
    return found.format, found.text


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(None, ("null", "null"), id="null"),
        pytest.param(b"", ("text", ""), id="empty"),
        pytest.param(b"tea", ("text", "tea"), id="text"),
        pytest.param(b' {"a": 1}', ("json", ' {"a": 1}'), id="an object of JSON, as it is"),
        pytest.param(b"12", ("text", "12"), id="a number is text"),
        pytest.param(b'{"a": NaN}', ("text", '{"a": NaN}'), id="what Python alone reads as JSON"),
        pytest.param(b"\0\0\0\0\7\2", ("avro", '{"a":1}'), id="Avro with a known schema"),
        pytest.param(b"\0\0\0\0\x08\2", ("hex", "00 00 00 00 08 02"), id="Avro with an unknown schema"),
        pytest.param(b"\0\5", ("hex", "00 05"), id="a number in bytes"),
        pytest.param(b"\xff\xfe", ("hex", "ff fe"), id="no UTF-8"),
        pytest.param(b"\x1b[31mred", ("text", "\\x1b[31mred"), id="a terminal's colour"),
        pytest.param("a\u202eb".encode(), ("text", "a\\u202eb"), id="a turn of direction"),
        pytest.param(b"two\nlines\tand a tab\r", ("text", "two\nlines\tand a tab\\r"), id="lines"),
    ],
)
def test_without_a_format_a_value_is_shown_as_what_it_is(data: bytes | None, expected: tuple[str, str]) -> None:
    assert shown(data) == expected


def test_a_value_that_is_not_of_its_format_is_shown_all_the_same_and_says_why() -> None:
    not_json = Decoder("json", None, chars_max=100)(Part.of(b"tea"))
    assert (not_json.format, not_json.text) == ("text", "tea")
    assert not_json.note.startswith("not JSON: Expecting value")
    not_avro = Decoder("avro", schema_7, chars_max=100)(Part.of(b"\0\0\0\0\x08"))
    assert (not_avro.format, not_avro.note) == ("hex", "not Avro: its schema, id 8, is unknown")
    no_schemas = Decoder("avro", None, chars_max=100)(Part.of(b"\0\0\0\0\x08"))
    assert "--registry" in no_schemas.note


def test_a_large_value_is_cut_and_its_size_is_known() -> None:
    large = Decoder("auto", None, chars_max=10)(Part.of(b"ab" * 1000))
    assert (large.text, large.size, large.is_cut) == ("ababababab", 2000, True)
    begun = Decoder("json", None, chars_max=10)(Part.of(b'{"a": "' + b"x" * 100 + b'"}', bytes_max=20))
    assert (begun.format, begun.is_cut, begun.note) == ("text", True, "too large to decode as json here")


def test_a_cut_within_a_character_leaves_text() -> None:
    assert Decoder("auto", None, chars_max=100)(Part.of("näïve".encode(), bytes_max=2)).format == "text"
    assert Decoder("auto", None, chars_max=100)(Part.of(b"n\xc3", bytes_max=2)).format == "hex"


def test_json_that_is_nested_deeper_than_python_can_count_is_text() -> None:
    assert shown(b"[" * 100_000 + b"]" * 100_000)[0] == "text"


def test_numbers_of_json_stay_as_they_were_written() -> None:
    text = '{"large":12345678901234567890123,"small":1e-400,"twice":1,"twice":2,"none":{},"list":[1,[]]}'
    format, indented = shown(text.encode(), whole=True)
    assert format == "json"
    assert indented.replace("\n", "").replace(" ", "") == text
    assert indented.splitlines()[:2] == ["{", '  "large": 12345678901234567890123,']


@given(
    some.recursive(
        some.none() | some.booleans() | some.text(), lambda x: some.lists(x) | some.dictionaries(some.text(), x)
    )
)
def test_indented_json_is_the_same_json(value: object) -> None:
    found = Decoder("json", None, chars_max=10**6, is_indented=True)(Part.of(json.dumps([value]).encode()))
    assert (found.format, json.loads(found.text)) == ("json", [value])


@given(some.binary(max_size=300), some.sampled_from(FORMATS), some.booleans())
def test_any_bytes_are_shown_in_any_format_without_control_characters(data: bytes, format: str, whole: bool) -> None:
    found = Decoder(format, schema_7, chars_max=200, is_indented=whole)(Part.of(data, bytes_max=250))
    assert found.text == readable(found.text)
    assert all(each.isprintable() or each in "\n\t" or ord(each) > 127 for each in found.text)
