"""Serdes as text in a table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_commitlog.arrow.values.avro.serde import AvroSerde, Confluent, SingleObject
from pyspark_commitlog.arrow.values.recorded import serde_from_text, serde_to_text
from pyspark_commitlog.arrow.values.schema_stores import SchemaFolder, SchemaRegistry
from pyspark_commitlog.arrow.values.serde import JsonSerde, Serde
from pyspark_commitlog.storage import CorruptionError, InvalidConfigError

AVRO = '{"type": "record", "name": "R", "fields": [{"name": "v", "type": "string"}]}'
TYPES = pa.schema([("at", pa.timestamp("us", "Europe/Paris")), ("tags", pa.list_(pa.string()))])


@pytest.mark.parametrize(
    "serde",
    [
        None,
        JsonSerde(TYPES, "permissive", confluent_header=True, timezone="Europe/Paris"),
        AvroSerde(AVRO, SingleObject()),
        AvroSerde(AVRO, SingleObject("schemas"), "permissive"),
        AvroSerde(AVRO, Confluent(SchemaFolder("schemas"), "t-value")),
        AvroSerde(AVRO, Confluent(SchemaRegistry("http://h", headers_file="/secrets"))),
    ],
    ids=["raw", "json", "avro", "avro in a folder", "confluent in a folder", "confluent in a registry"],
)
def test_a_serde_that_is_read_back_is_the_same(serde: Serde | None) -> None:
    text = serde_to_text(serde)
    again = serde_from_text(text, "table x")
    assert serde_to_text(again) == text
    assert None is again is serde or (type(again), again and again.type) == (type(serde), serde and serde.type)


def test_read_back_it_decodes_the_same_values() -> None:
    serde = JsonSerde(TYPES, "permissive", timezone="Europe/Paris")
    values = pa.array([b'{"at": "2026-07-01T12:00:00", "tags": ["a"]}', b"{", None])
    again = serde_from_text(serde_to_text(serde), "table x")
    assert again is not None
    assert again.decode(values).equals(serde.decode(values))


def test_folders_are_found_from_another_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = serde_to_text(AvroSerde(AVRO, Confluent(SchemaFolder("schemas"))))
    assert str(tmp_path / "schemas") in text


@pytest.mark.parametrize(
    "serde",
    [
        AvroSerde(AVRO, Confluent(SchemaRegistry("https://ann:secret@h"))),
        AvroSerde(AVRO, Confluent(SchemaRegistry("https://h", headers=(("Authorization", "secret"),)))),
    ],
    ids=["in the address", "in headers"],
)
def test_credentials_are_not_recorded_and_the_serde_must_be_given(serde: Serde) -> None:
    text = serde_to_text(serde)
    assert "secret" not in text
    with pytest.raises(InvalidConfigError, match=r"table x was written with a AvroSerde .* serde="):
        serde_from_text(text, "table x")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "xml"}', '{"format": "json", "schema": "AAAA"}'])
def test_other_text_is_damage(text: str) -> None:
    with pytest.raises(CorruptionError, match="table x: the recorded serde cannot be read"):
        serde_from_text(text, "table x")
