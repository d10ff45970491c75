"""Values of Avro as JSON, for queries over records; counts those that do not decode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..storage import FoundRecords, TopicPartition, Unsearched
from .values.avro.as_json import AvroAsJson
from .values.serde import SerializationError

if TYPE_CHECKING:
    from .values.avro.serde import Framing


class AvroTexts:
    """Decodes the values that begin with the header of ``framing``, each by the schema that the header names."""

    def __init__(self, framing: Framing) -> None:
        self._decode, self._magic, self._id_size = AvroAsJson(framing), framing.magic, framing.id_size
        self._failed: dict[TopicPartition, tuple[int, str]] = {}  # how many, and the error of the first one

    def texts(self, found: FoundRecords) -> pa.Array:
        """Returns each value as JSON text; null for one without the header, or that does not decode.

        Raises SchemaRegistryError.
        """
        assert found.records.values is not None
        values, offsets = found.records.values.to_list(), found.records.offsets.tolist()
        pairs = zip(offsets, values, strict=True)
        return pa.array([self._text(found.partition, offset, value) for offset, value in pairs], pa.string())

    def _text(self, partition: TopicPartition, offset: int, value: bytes | None) -> str | None:
        if value is None or not value.startswith(self._magic) or len(value) < len(self._magic) + self._id_size:
            return None
        try:
            return self._decode(value)[0]
        except SerializationError as error:
            count, first = self._failed.get(partition, (0, f"the value at offset {offset}: {error}"))
            self._failed[partition] = count + 1, first
            return None

    @property
    def unsearched(self) -> list[Unsearched]:
        """The values that did not decode so far: one part for each partition."""
        return [
            Unsearched(partition, None, "undecoded", f"{first}{f'; and {count - 1:,} more' * (count > 1)}")
            for partition, (count, first) in self._failed.items()
        ]
