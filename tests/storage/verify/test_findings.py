"""Findings name the command that mends them, and no type of ours."""

from __future__ import annotations

import pytest

from pyspark_commitlog.cli import COMMANDS
from pyspark_commitlog.storage.format.files.index_entries import AbortedTxn
from pyspark_commitlog.storage.maintenance.verify import _counted
from pyspark_commitlog.storage.verify.findings import Kind, Severity


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind.severity is Severity.REPAIRABLE])
def test_what_can_be_repaired_says_by_what(kind: Kind) -> None:
    by_hand = {Kind.BAD_CHECKPOINT, Kind.BAD_METADATA}
    assert any(f"commitlog {command} " in kind.advice for command in COMMANDS) != (kind in by_hand)


def test_an_aborted_transaction_is_named_in_words() -> None:
    entry = AbortedTxn(producer_id=1, first_offset=7, last_offset=14, last_stable_offset=15)
    assert f"no entry for {entry}" == (
        "no entry for the aborted transaction of producer 1, offsets 7 to 14, last stable offset 15"
    )


def test_findings_are_counted_in_english() -> None:
    assert [_counted(Severity.NOTE, number) for number in (1, 2)] == ["1 note", "2 notes"]
    assert _counted(Severity.REPAIRABLE, 1200) == "1,200 repairable"
