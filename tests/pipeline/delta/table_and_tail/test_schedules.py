"""A table and its tail under random schedules; ``python -m tests.torture table-schedules`` runs many more."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.torture.table_schedules import Schedule


@pytest.mark.parametrize("mode", ["append", pytest.param("upsert", marks=pytest.mark.matrix)])
def test_rows_are_those_of_the_whole_topic_whatever_happened(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    Schedule(spark, tmp_path / mode, random.Random(3), mode).run(3)
