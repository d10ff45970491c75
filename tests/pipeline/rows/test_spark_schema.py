from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from pyspark_commitlog.pipeline.rows.spark_schema import arrow_schema, read_schema


@pytest.mark.parametrize("include_headers", [False, True])
def test_arrow_types_are_those_spark_expects_from_a_source(include_headers: bool) -> None:
    schema = read_schema(include_headers)
    assert arrow_schema(schema).equals(to_arrow_schema(schema, timezone="UTC"))
