"""Avro values as JSON for people, each by the schema with which it was written.

A serde reads all values as rows of one schema; this reads any value whose header names a schema that can be found.
"""

from __future__ import annotations

import io
import json
import time
from typing import Any

from ....storage import LogStoreError, needs_extra
from ..serde import SerializationError
from .serde import BAD_BYTES, Framing, parse_schema

with needs_extra("Avro"):
    import fastavro

SCHEMAS_MAX = 1000  # how many schemas are kept
NO_OWN = '"null"'  # a valid schema that stands for the missing reader's schema
FAILURE_S = 30  # how long a missing schema is not requested again: a page has many values of one schema


class AvroAsJson:
    """Decodes values with the header of ``framing``. Keeps the schemas that it has found."""

    def __init__(self, framing: Framing) -> None:
        self._framing = framing
        self._schemas: dict[bytes, Any] = {}
        self._failures: dict[bytes, tuple[float, LogStoreError]] = {}

    def __call__(self, value: bytes) -> tuple[str, str]:
        """Returns a value as JSON, and a name of its schema: ``schema id 7``.

        Bytes are written as in Avro's own JSON; dates, times and decimals as text. Raises SerializationError for a
        value that has no header, does not fit its schema, or has an unknown one, and SchemaRegistryError.
        """
        magic, start = self._framing.magic, len(self._framing.magic) + self._framing.id_size
        if not value.startswith(magic) or len(value) < start:
            raise SerializationError(f"it has no header of {start} bytes that begins with {magic.hex(' ')}")
        schema_id, body = value[len(magic) : start], io.BytesIO(value[start:])
        schema = self._schema(schema_id)
        try:
            read = fastavro.schemaless_reader(body, schema, None)
        except (*BAD_BYTES, RecursionError) as error:
            raise SerializationError(f"it is not of its schema: {type(error).__name__} {error}") from None
        if body.tell() != len(value) - start:
            raise SerializationError(f"{len(value) - start - body.tell()} bytes follow the value")
        text = json.dumps(read, ensure_ascii=False, default=_as_text)
        return text, f"schema {self._framing.name(schema_id)}"

    def _schema(self, schema_id: bytes) -> Any:
        if schema_id in self._schemas:
            return self._schemas[schema_id]
        failed = self._failures.get(schema_id)
        if failed is not None and time.monotonic() < failed[0]:
            raise failed[1]
        try:
            found = self._find(schema_id)
        except LogStoreError as error:
            _make_room(self._failures)
            self._failures[schema_id] = time.monotonic() + FAILURE_S, error
            raise
        _make_room(self._schemas)
        self._schemas[schema_id] = found
        return found

    def _find(self, schema_id: bytes) -> Any:
        text = self._framing.schema(schema_id, NO_OWN)
        if text is None:
            raise SerializationError(
                f"its schema, {self._framing.name(schema_id)}, is unknown to {self._framing.where}"
            )
        return parse_schema(text)


def _make_room(kept: dict[bytes, Any]) -> None:
    """Drops the oldest entry of a full table: any bytes at the start of a value may be an id."""
    if len(kept) >= SCHEMAS_MAX:
        kept.pop(next(iter(kept)), None)


def _as_text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
