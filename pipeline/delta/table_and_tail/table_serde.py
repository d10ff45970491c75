"""The serde that decoded the values of a table, as the table records it."""

from __future__ import annotations

from pyspark.sql.types import StructType

from ....storage import InvalidConfigError
from ...values.recorded import serde_from_text
from ...values.serde import Serde
from ..command.words import COORDINATES


def serde_of_table(text: str | None, name: str, schema: StructType) -> Serde | None:
    """Returns the serde that ``text`` records; None for values that are kept as bytes.

    ``name`` names the table in errors, ``schema`` is its own. Raises InvalidConfigError if the serde is not known.
    """
    if text is not None:
        return serde_from_text(text, name)
    if set(schema.names) == {*COORDINATES, "value"} and schema["value"].dataType.simpleString() == "binary":
        return None
    raise InvalidConfigError(
        f"{name} does not say how its values were decoded, because an older version wrote it: give serde=, or let the "
        "export job run once"
    )
