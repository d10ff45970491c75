"""Converts records of the log to rows of its table with Arrow alone, as ``table_rows`` does with Spark."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ....arrow.columns import READ_TYPES
from ....arrow.values.serde import Serde, SerializationError, decoded_or_reasons, narrowed
from ....storage import TopicPartition
from ...rows.values import as_spark
from ..command.words import COORDINATES

_SOURCES = {name.lower(): source for name, source in COORDINATES.items()}


@dataclass(frozen=True)
class TailRows:
    """Makes rows with ``columns``, Arrow types as Spark's, from records whose values ``serde`` decodes.

    With None for ``serde``, the column ``value`` has the bytes. With ``drops_bad``, records whose values do not decode
    are left out, as the table leaves them out. A column that the values lack is null.
    """

    columns: pa.Schema
    serde: Serde | None
    drops_bad: bool

    @property
    def record_schema(self) -> pa.Schema:
        """The columns of records that the rows need, and their offsets."""
        wanted = [_SOURCES[name.lower()] for name in self.columns.names if name.lower() in _SOURCES]
        names = [*wanted, "value"] if self._fields or self.drops_bad else wanted
        return pa.schema([(name, READ_TYPES[name]) for name in dict.fromkeys(["offset", *names])])

    @property
    def _fields(self) -> list[str]:
        return [name for name in self.columns.names if name.lower() not in _SOURCES]

    def rows(self, records: pa.RecordBatch, source: TopicPartition) -> pa.RecordBatch:
        """Returns the rows. Raises SerializationError, which names the record, unless bad records are left out."""
        values: dict[str, pa.Array] = {"value": records["value"]} if "value" in records.schema.names else {}
        if self.serde is not None and (self._fields or self.drops_bad):
            decoded, is_good = self._decoded(records, source, self.serde)
            records, decoded = records.filter(is_good), decoded.filter(is_good)
            fields = zip(decoded.type.names, decoded.flatten(), strict=True)  # null in null structs
            values = {name.lower(): column for name, column in fields}
        arrays = [self._column(field, records, values) for field in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns)

    def _column(self, field: pa.Field, records: pa.RecordBatch, values: dict[str, pa.Array]) -> pa.Array:
        name = field.name.lower()
        found = records[_SOURCES[name]] if name in _SOURCES else values.get(name)
        if found is None:
            return pa.nulls(len(records), field.type)
        return as_spark(found, field.type, "failfast" if self.serde is None else self.serde.mode)

    def _decoded(self, records: pa.RecordBatch, source: TopicPartition, serde: Serde) -> tuple[pa.Array, pa.Array]:
        """Returns the decoded values, and which of them are good."""
        parts = decoded_or_reasons(serde if self.drops_bad else narrowed(serde, self._fields), records["value"])
        is_good = [reason is None for part, reason in parts for _ in range(len(part))]
        if not self.drops_bad and not all(is_good):
            row = is_good.index(False)
            reason = next(reason for _, reason in parts if reason is not None)
            raise SerializationError(f"{source}, offset {records['offset'][row].as_py()}: {reason}")
        return pa.concat_arrays([part for part, _ in parts]), pa.array(is_good)
