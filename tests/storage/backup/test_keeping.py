"""Which backups are kept, and that no piece of them is deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pyspark_commitlog.storage import LogManager
from pyspark_commitlog.storage.backup.checking import verify_backup
from pyspark_commitlog.storage.backup.cuts import CutName, list_cuts
from pyspark_commitlog.storage.backup.keeping import KeepRule, prune_backup
from pyspark_commitlog.storage.backup.places import DAY_MS, StorePlace
from pyspark_commitlog.storage.backup.taking import take_backup
from pyspark_commitlog.storage.errors import CorruptionError, InvalidConfigError
from tests.storage.backup.logs import append, back_up, folder, made, restored, tree
from tests.support.clock import ManualClock
from tests.support.logs.building import NOW_MS
from tests.support.stores.memory_store import MemoryStore

START = datetime(2026, 11, 23, 0, 30, tzinfo=UTC)  # a Monday


def every_hour(hours: int) -> list[CutName]:
    moments = [START + timedelta(hours=n) for n in range(hours)]
    return [CutName(round(moment.timestamp() * 1000), f"{moment:%a %d %H}") for moment in moments]


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ("last=2", ["Mon 30 22", "Mon 30 23"]),
        ("hourly=3", ["Mon 30 21", "Mon 30 22", "Mon 30 23"]),
        ("daily=3", ["Sat 28 23", "Sun 29 23", "Mon 30 23"]),
        ("weekly=5", ["Sun 29 23", "Mon 30 23"]),
        ("monthly=1,weekly=2,hourly=2", ["Sun 29 23", "Mon 30 22", "Mon 30 23"]),
        ("daily=0", ["Mon 30 23"]),
    ],
)
def test_the_newest_of_each_period_is_kept(rule: str, kept: list[str]) -> None:
    assert [each.name for each in KeepRule.parse(rule).choose(every_hour(8 * 24))] == kept


@pytest.mark.parametrize(
    "rule", ["", "daily", "daily=x", "yearly=1", "daily=1;weekly=2", "daily=-1", "daily=7,daily=1"]
)
def test_a_rule_that_is_none_of_these_is_refused(rule: str) -> None:
    with pytest.raises(InvalidConfigError, match="--keep"):
        KeepRule.parse(rule)


def test_pieces_go_with_the_last_backup_that_needs_them(tmp_path: Path) -> None:
    place, directory = folder(tmp_path / "backup"), made(tmp_path / "log")
    for n in range(3):
        with LogManager.open(str(directory)) as manager:
            append(manager, 0, n, size=20_000)
        newest = back_up(directory, place).cut
    (tmp_path / "backup" / "objects" / "ab").mkdir(exist_ok=True)
    (tmp_path / "backup" / "objects" / "ab" / "left.tmp").write_bytes(b"of a killed run")
    would = prune_backup(place, KeepRule.parse("last=1"), dry_run=True)
    assert len(list_cuts(place)) == 3
    assert prune_backup(place, KeepRule.parse("last=1")) == would
    assert would.cuts == 2
    assert [each.name for each in list_cuts(place)] == [newest.name]
    objects = {path.name for path in (tmp_path / "backup" / "objects").rglob("*") if path.is_file()}
    assert objects == {piece.digest for piece in newest.pieces}
    assert not [*verify_backup(place)]
    assert restored(place, tmp_path / "again") == tree(directory)


def test_nothing_is_deleted_while_the_list_of_a_kept_backup_is_damaged(tmp_path: Path) -> None:
    place = folder(tmp_path / "backup")
    back_up(made(tmp_path / "log"), place)
    back_up(tmp_path / "log", place)
    newest = tmp_path / "backup" / "cuts" / f"{list_cuts(place)[-1].name}.json"
    newest.write_bytes(newest.read_bytes()[:-1])
    before = tree(tmp_path / "backup")
    with pytest.raises(CorruptionError, match="checksum"):
        prune_backup(place, KeepRule.parse("last=1"))
    assert tree(tmp_path / "backup") == before


def test_the_backup_just_taken_stays_although_a_clock_was_ahead_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place, directory, names = folder(tmp_path / "backup"), str(made(tmp_path / "log")), list[str]()
    for days in (10, 0):
        clock = ManualClock(NOW_MS + days * DAY_MS)
        with LogManager.open(directory, clock=clock) as manager, place.locked():
            names.append(take_backup(manager, place).cut.name)
    assert f"to restore {names[1]}, name it with --at" in caplog.text
    prune_backup(place, KeepRule.parse("last=1"), names[1])
    assert {each.name for each in list_cuts(place)} == {*names}
    assert not [*verify_backup(place)]


def test_on_an_object_store_what_another_run_may_have_put_just_now_stays(tmp_path: Path) -> None:
    store = MemoryStore()
    place = StorePlace(store)
    store.put("objects/aa/young", b"x")
    back_up(made(tmp_path / "log"), place)
    assert prune_backup(place, KeepRule.parse("last=1")).objects == 0
    store.now_ms += DAY_MS + 1
    back_up(tmp_path / "log", place)
    assert prune_backup(place, KeepRule.parse("last=1")).objects == 1
    assert "objects/aa/young" not in store.objects
    assert not [*verify_backup(place)]
