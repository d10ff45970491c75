"""Which values of a column do not decode, and why: compared with decoding each one alone."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from pyspark_commitlog.arrow.values.schema_stores import SchemaRegistryError
from pyspark_commitlog.arrow.values.serde import JsonSerde, SerializationError, decoded_or_reasons

SERDE = JsonSerde(pa.schema([("v", pa.int32())]))


@pytest.mark.parametrize("seed", range(5))
def test_undecodable_values_are_null_with_a_reason_and_the_others_are_decoded(seed: int) -> None:
    chance = random.Random(seed)
    kinds = [b'{"v":1}', b"{}", None, b"no JSON", b'{"v":"a"}', b""]
    values = [chance.choice(kinds[: 3 if seed == 0 else 6]) for _ in range(chance.randrange(60))]
    found = [
        (value, reason)
        for part, reason in decoded_or_reasons(SERDE, pa.array(values, pa.binary()))
        for value in part.to_pylist()
    ]
    assert len(found) == len(values)
    for value, (struct, reason) in zip(values, found, strict=True):
        assert (struct, reason) == alone(value)


def alone(value: bytes | None) -> tuple[object, str | None]:
    try:
        return SERDE.decode(pa.array([value], pa.binary())).to_pylist()[0], None
    except SerializationError as error:
        return None, "its value" + str(error).removeprefix("row 0")


def test_unreachable_registry_is_an_error_and_not_a_bad_record() -> None:
    class Unreachable:
        type = SERDE.type

        def decode(self, _values: pa.Array) -> pa.Array:
            raise SchemaRegistryError("cannot be reached")

        def encode(self, rows: pa.Array) -> pa.Array:
            return rows

    with pytest.raises(SchemaRegistryError):
        decoded_or_reasons(Unreachable(), pa.array([b"{}"]))
