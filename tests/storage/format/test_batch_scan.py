"""Which walk is used: the plain one until numba has been imported or is worth importing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from pyspark_commitlog.storage.format import batch_scan
from pyspark_commitlog.storage.format.legacy import v0
from pyspark_commitlog.storage.format.tables import Records
from pyspark_commitlog.storage.kernels.arrays import frozen

BATCHES = 10
MESSAGES = frozen(v0.encode(Records.to_append([None] * BATCHES, [b"v"] * BATCHES, -1)))

PROGRAM = """
import sys
import numpy as np
from pyspark_commitlog.storage import format as formats
assert len(formats.scan(np.frombuffer(bytes.fromhex(sys.argv[1]), np.uint8)).headers) == 10
print("numba" in sys.modules)
"""


def test_a_few_batches_are_walked_without_numba() -> None:
    """In this process others have imported it."""
    arguments = [sys.executable, "-c", PROGRAM, MESSAGES.tobytes().hex()]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["False"]


def test_many_batches_make_numba_worth_its_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_scan, "are_imported", lambda: False)
    monkeypatch.setattr(batch_scan, "PLAIN_BATCHES_MAX", 6)
    monkeypatch.setattr(batch_scan, "_WALKED_AT_ONCE", 4)
    rooms: dict[str, list[int]] = {}
    for name in ("walk_plainly", "walk_compiled"):
        monkeypatch.setattr(batch_scan, name, told(rooms.setdefault(name, []), getattr(batch_scan, name)))
    walker = batch_scan.Walker()
    assert walker.walk(MESSAGES, 0, 100).positions.tolist() == np.arange(0, len(MESSAGES), 27).tolist()
    assert rooms == {"walk_plainly": [4, 4], "walk_compiled": [8]}
    walker.walk(MESSAGES, 0, 1)
    assert rooms["walk_compiled"] == [8, 1]


def test_many_batches_are_walked_in_plain_python_while_kernels_are_being_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_scan, "are_imported", lambda: False)
    monkeypatch.setattr(batch_scan, "are_being_compiled", lambda: True)
    monkeypatch.setattr(batch_scan, "PLAIN_BATCHES_MAX", 1)
    monkeypatch.setattr(batch_scan, "walk_compiled", lambda *_: pytest.fail("it would wait"))
    walker = batch_scan.Walker()
    for _ in range(2):
        assert len(walker.walk(MESSAGES, 0, 100).positions) == BATCHES


def told(rooms, walk):
    """``walk``, recording in ``rooms`` how many batches were requested."""

    def noting(source, start, batches_max):
        rooms.append(batches_max)
        return walk(source, start, batches_max)

    return noting
