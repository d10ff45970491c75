"""Serdes as text, so that a table can record which serde decoded its rows.

A serde records itself if it has a method ``recorded``, which returns the arguments for an equal serde, or None if they
hold credentials: everybody who reads the table can read them.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ...storage import CorruptionError, InvalidConfigError
from .schema_stores import SchemaFolder, SchemaRegistry
from .serde import JsonSerde, Serde

RAW = "raw"  # values that are kept as bytes


def serde_to_text(serde: Serde | None) -> str:
    """Returns ``serde`` as JSON; None stands for values that are kept as bytes."""
    if serde is None:
        return json.dumps({"format": RAW})
    recorded = getattr(serde, "recorded", lambda: None)()
    return json.dumps(recorded or {"format": "unknown", "class": type(serde).__name__})


def serde_from_text(text: str, source: str) -> Serde | None:
    """Returns the serde that :func:`serde_to_text` described; None for values that are kept as bytes.

    ``source`` names the table in errors. Raises InvalidConfigError for a serde that could not be recorded, and
    CorruptionError for any other text.
    """
    try:
        given: Mapping[str, Any] = json.loads(text)
        match given["format"]:
            case "raw":
                return None
            case "json":
                return _json_serde(given)
            case "avro":
                return _avro_serde(given)
            case "unknown":
                raise InvalidConfigError(
                    f"{source} was written with a {given['class']} that cannot be recorded, because it is a class of "
                    "your own or has credentials: give the same one as serde="
                )
        raise ValueError(f"unknown format {given['format']!r}")
    except (ValueError, KeyError, TypeError, pa.ArrowInvalid) as error:
        raise CorruptionError(f"{source}: the recorded serde cannot be read: {error!r}; give it as serde=") from None


def _json_serde(given: Mapping[str, Any]) -> Serde:
    schema = pa.ipc.read_schema(pa.py_buffer(b64decode(given["schema"])))
    return JsonSerde(schema, given["mode"], confluent_header=given["confluent_header"], timezone=given["timezone"])


def _avro_serde(given: Mapping[str, Any]) -> Serde:
    from .avro.serde import AvroSerde, Confluent, Framing, SingleObject  # noqa: PLC0415  fastavro, from an extra

    framing: Framing = SingleObject(given["folder"])
    if given["framing"] == "confluent":
        registry, folder = given["registry"], given["folder"]
        store = SchemaFolder(folder) if registry is None else SchemaRegistry(registry, headers_file=given["headers"])
        framing = Confluent(store, given["subject"])
    return AvroSerde(given["schema"], framing, given["mode"])
