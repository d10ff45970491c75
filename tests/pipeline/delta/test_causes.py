"""What the last lines of an export say of an error that Spark wraps."""

from __future__ import annotations

from argparse import Namespace

import pytest

from pyspark_commitlog.pipeline.delta.export import advice
from pyspark_commitlog.pipeline.job.frames import cause

WRAPPED = """[STREAM_FAILED] Query [id = 5d95] terminated with exception: Traceback (most recent call last):
  File "border.py", line 54, in called
    raise problem
pyspark_commitlog.storage.errors.{}: flights-2/0.log, position 0: {}
 SQLSTATE: 39000
Logical Plan:
+- ~StreamingDataSourceV2ScanRelation[key#0] commitlog
"""
DAMAGE = WRAPPED.format("CorruptRecordError", "checksum 1 does not match 2 in the header")


def test_the_cause_is_a_line_without_frames_and_plans() -> None:
    assert cause(RuntimeError(DAMAGE)) == "flights-2/0.log, position 0: checksum 1 does not match 2 in the header"
    assert cause(RuntimeError("[PATH_NOT_FOUND] x\nmore")) == "[PATH_NOT_FOUND] x\nmore"


@pytest.mark.parametrize("name", ["CorruptRecordError", "MissingSegmentError"])
def test_damage_comes_with_the_way_around_it(name: str) -> None:
    error = RuntimeError(WRAPPED.format(name, "lost"))
    assert "--read-mode dropmalformed" in advice(Namespace(direction="to-table"), error)
