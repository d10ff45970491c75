"""What a turn of the gateway decompresses at most."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyspark_commitlog.gateway.turns import compressed
from pyspark_commitlog.storage import LongCheckError

CONNECTIONS = 12
QUICK_BYTES = 1 << 20


@pytest.fixture
def checks() -> compressed.CompressedChecks:
    """Of connections with a request each, which has one compressed batch."""
    found = SimpleNamespace(
        batches=[SimpleNamespace(codec=3, part=0, at=0, size=100)] * CONNECTIONS,
        frames=[SimpleNamespace(first=number, stop=number + 1) for number in range(CONNECTIONS)],
        connections=[SimpleNamespace(frame_first=number, frame_stop=number + 1) for number in range(CONNECTIONS)],
    )
    tables, known = (
        SimpleNamespace(memory=bytes(100)),
        SimpleNamespace(config=lambda _: None, may_write=lambda *_: True),
    )
    return compressed.CompressedChecks(cast(Any, tables), cast(Any, known), cast(Any, found), 0, QUICK_BYTES)


def test_what_is_too_long_counts_by_what_was_decompressed_until_then(
    checks: compressed.CompressedChecks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_long(*_: object) -> None:
        raise LongCheckError

    monkeypatch.setattr(compressed, "check_plain", too_long)
    tried = compressed.TURN_BYTES // QUICK_BYTES
    stops = checks.run(["user"] * CONNECTIONS)
    assert stops == {number: number >= tried for number in range(CONNECTIONS)}
