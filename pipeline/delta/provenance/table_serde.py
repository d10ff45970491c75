"""The serde of a table's values, as the table records it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

from pyspark.sql.types import StructType

from ....arrow.values.recorded import serde_from_text
from ....arrow.values.serde import Serde
from ....storage import InvalidConfigError
from ..command.words import BAD_RECORDS_PROPERTY, COORDINATES, SERDE_PROPERTY


class Decoding(NamedTuple):
    """The serde that decoded the values of a table, and the treatment of bad records."""

    text: str | None
    """The serde as text; None if it is not recorded."""

    keeps_bad_apart: bool = False
    """Whether bad records are written to another table, rather than that they end the export."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Parses the properties of a Delta table."""
        return cls(properties.get(SERDE_PROPERTY), bool(properties.get(BAD_RECORDS_PROPERTY)))

    def serde(self, name: str, schema: StructType) -> Serde | None:
        """Returns the serde; None for values that are kept as bytes.

        ``name`` names the table in errors, ``schema`` is its own. Raises InvalidConfigError if the serde is not known.
        """
        if self.text is not None:
            return serde_from_text(self.text, name)
        if set(schema.names) == {*COORDINATES, "value"} and schema["value"].dataType.simpleString() == "binary":
            return None
        raise InvalidConfigError(
            f"{name} does not say how its values were decoded, because an older version wrote it: give serde=, or let "
            "the export job run once"
        )
