"""The file of quotas: changes, other nodes, and files that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.gateway.quotas import store
from pyspark_commitlog.gateway.quotas.entities import PRODUCER_BYTE_RATE, Entity
from pyspark_commitlog.gateway.quotas.store import QuotaStore
from pyspark_commitlog.storage import InvalidConfigError, PolicyViolationError

ALICE, ANYONE = Entity.of({"user": "alice"}), Entity.of({"user": None, "client-id": None})


def rate(store: QuotaStore, user: str = "alice") -> float | None:
    found = store.current().limit(PRODUCER_BYTE_RATE, user, "app")
    return None if found is None else found.per_second


def test_quotas_hold_here_at_once_elsewhere_within_a_second_and_after_a_start(tmp_path: Path) -> None:
    path, now_s = str(tmp_path / "quotas.json"), [0.0]
    here, there = QuotaStore(path), QuotaStore(path, lambda: now_s[0])
    here.change({ALICE: {PRODUCER_BYTE_RATE: 1000.0}, ANYONE: {PRODUCER_BYTE_RATE: 5.5}})
    assert (rate(here), rate(here, "bob"), rate(there)) == (1000.0, 5.5, None)
    now_s[0] += 1
    assert (rate(there), rate(there, "bob")) == (1000.0, 5.5)
    there.change({ALICE: {PRODUCER_BYTE_RATE: None}})
    assert rate(there) == 5.5
    assert dict(QuotaStore(path).current().values) == {ANYONE: {PRODUCER_BYTE_RATE: 5.5}}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"version": 2, "quotas": []}',
        '{"version": 1, "quotas": [{"entity": {}, "values": {}}]}',
        '{"version": 1, "quotas": [{"entity": {"colour": "red"}, "values": {}}]}',
        '{"version": 1, "quotas": [{"entity": {"user": "a"}, "values": {"producer_byte_rate": -1}}]}',
    ],
)
def test_a_damaged_file_changes_nothing_and_is_named(tmp_path: Path, text: str) -> None:
    path, now_s = tmp_path / "quotas.json", [0.0]
    kept = QuotaStore(str(path), lambda: now_s[0])
    kept.change({ALICE: {PRODUCER_BYTE_RATE: 1000.0}})
    path.write_text(text)
    now_s[0] += 10
    assert rate(kept) == 1000.0
    with pytest.raises(InvalidConfigError, match=r"quotas\.json: not a file of quotas"):
        kept.change({ALICE: {PRODUCER_BYTE_RATE: None}})
    with pytest.raises(InvalidConfigError, match=r"quotas\.json: not a file of quotas"):
        QuotaStore(str(path))
    assert path.read_text() == text


def test_a_file_that_disappears_is_not_written_again_without_its_quotas(tmp_path: Path) -> None:
    path = tmp_path / "quotas.json"
    kept = QuotaStore(str(path))
    kept.change({ALICE: {PRODUCER_BYTE_RATE: 1000.0}})
    path.unlink()
    with pytest.raises(InvalidConfigError, match="is missing"):
        kept.change({ANYONE: {PRODUCER_BYTE_RATE: 1.0}})
    assert rate(kept) == 1000.0


def test_there_may_not_be_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "ENTITIES_MAX", 2)
    kept = QuotaStore(str(tmp_path / "quotas.json"))
    users = [Entity.of({"user": str(number)}) for number in range(3)]
    with pytest.raises(PolicyViolationError, match="use defaults"):
        kept.change({each: {PRODUCER_BYTE_RATE: 1.0} for each in users})
    assert not kept.current().values
