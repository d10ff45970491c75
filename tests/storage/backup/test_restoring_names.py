"""Topics of a backup under other names: in a directory and on an object store, with the offsets of groups."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager, TopicPartition
from pyspark_commitlog.storage.backup.cuts import find_cut
from pyspark_commitlog.storage.backup.restoring import restore_topics
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.errors import CorruptionError, TopicExistsError
from pyspark_commitlog.storage.filesystem.temporary import LOCK
from pyspark_commitlog.storage.topic_rules import SINK_PREFIX
from pyspark_commitlog.storage.transfer import copying
from pyspark_commitlog.storage.transfer.begun import COPYING_FILE
from pyspark_commitlog.storage.transfer.new_names import NewNames
from pyspark_commitlog.storage.transfer.pieces import CopiedPartition
from tests.storage.backup.logs import ORDERS, PRICES, append, back_up, folder, made
from tests.support.logs.building import rows
from tests.support.logs.directories import directory_with_internal_topics
from tests.support.stores.commits import commit_log
from tests.support.stores.memory_store import MemoryStore


def progress(topic: str) -> TopicPartition:
    return TopicPartition(SINK_PREFIX + topic, 0)


@pytest.mark.parametrize("kind", ["directory", "object store"])
def test_records_groups_and_the_progress_of_writers_follow_the_name(kind: str, tmp_path: Path) -> None:
    directory, place = made(tmp_path / "log"), folder(tmp_path / "backup")
    with LogManager.open(str(directory)) as manager:
        GroupOffsets(manager).commit("a sink", {progress("prices"): CommittedOffset(7)})
        wanted = [rows(manager.open_reader(*each)) for each in (ORDERS, PRICES)]
    back_up(directory, place)
    names = NewNames("old-", {"prices": "costs"})
    files = BucketFileSystem(commit_log(MemoryStore())) if kind == "object store" else None
    path = str(directory) if files is None else files.root
    with LogManager.open(path, filesystem=files) as target:
        copied = list(restore_topics(place, find_cut(place), target, None, new_names=names))
    assert [each[:2] for each in copied] == [("old-orders", 0), ("old-orders", 1), ("costs", 0)]
    with LogManager.open(path, filesystem=files) as manager:
        there = [rows(manager.open_reader(name, 0)) for name in ("old-orders", "costs")]
        assert there[1] == wanted[1]
        assert there[0] == wanted[0][: len(there[0])]
        readers = {each: one.offset for each, one in GroupOffsets(manager).fetch("readers").items()}
        renamed = {TopicPartition("old-orders", 0): 4, TopicPartition("costs", 0): 2}
        assert readers == (renamed if files is not None else {ORDERS: 4, PRICES: 2, **renamed})
        assert GroupOffsets(manager).fetch("a sink")[progress("costs")].offset == 7


@pytest.mark.parametrize("names", [NewNames(), NewNames("old-")], ids=["same names", "new names"])
@pytest.mark.parametrize("step", ["the first topic", "all topics"])
def test_a_restore_that_was_killed_after_a_step_goes_on_and_restores_the_groups(
    names: NewNames, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, passed_over = folder(tmp_path / "backup"), list[str]()
    target = directory_with_internal_topics(tmp_path / "new")
    back_up(made(tmp_path / "log"), place)

    def copied(manager: LogManager) -> Iterator[CopiedPartition]:
        topics = ["prices", "orders"]
        return restore_topics(place, find_cut(place), manager, topics, None, names, passed_over.append)

    with LogManager.open(target) as manager, monkeypatch.context() as killed:
        killed.setattr(copying, "copy_groups", lambda *_: pytest.fail("killed"))
        if step == "the first topic":
            begun = copied(manager)
            assert [next(begun).topic, next(begun).partition] == [names.of("prices"), 0]
            begun.close()
        else:
            with pytest.raises(pytest.fail.Exception, match="killed"):
                list(copied(manager))
    with LogManager.open(target) as manager:
        list(copied(manager))
        assert passed_over == (["prices"] if step == "the first topic" else ["prices", "orders"])
        offsets = {each.topic: one.offset for each, one in GroupOffsets(manager).fetch("readers").items()}
        assert offsets == {names.of("orders"): 4, names.of("prices"): 2}
        with pytest.raises(TopicExistsError):
            list(copied(manager))
    assert not (tmp_path / "new" / COPYING_FILE).exists()


def test_no_group_is_ahead_of_a_partition_that_a_restore_of_an_earlier_backup_has_completed(tmp_path: Path) -> None:
    place, groups = folder(tmp_path / "backup"), list[int]()
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("orders", partitions=2)
    for n in range(2):
        with LogManager.open(str(tmp_path / "log")) as manager:
            for number in range(2):
                append(manager, number, n)
            offsets = {ORDERS._replace(partition=number): CommittedOffset(4 * n + 4) for number in range(2)}
            GroupOffsets(manager).commit("readers", offsets)
        back_up(tmp_path / "log", place)
        with LogManager.open(str(tmp_path / "new"), create=True) as target:
            copying = restore_topics(place, find_cut(place), target, ["orders"])
            next(copying)
            if n == 0:
                copying.close()  # as if killed: the first partition is complete
            list(copying)
    with LogManager.open(str(tmp_path / "new")) as target:
        found = GroupOffsets(target).fetch("readers")
        for number in range(2):
            partition = ORDERS._replace(partition=number)
            groups.append(target.open_reader(*partition).log_end_offset)
            assert found[partition].offset == groups[-1]
    assert groups == [4, 8]


def test_a_restore_that_met_damage_goes_on_when_the_piece_is_back(tmp_path: Path) -> None:
    directory, place = made(tmp_path / "log"), folder(tmp_path / "backup")
    cut = back_up(directory, place).cut
    piece = tmp_path / "backup" / cut.files["prices-0/00000000000000000000.log"].pieces[0].name
    aside = piece.rename(tmp_path / "aside")
    names = NewNames(names={"prices": "costs"})
    with LogManager.open(str(directory)) as manager:
        with pytest.raises(CorruptionError, match="missing"):
            list(restore_topics(place, cut, manager, ["prices"], new_names=names))
        assert manager.find_topic("costs") is None
        aside.rename(piece)
        list(restore_topics(place, cut, manager, ["prices"], new_names=names))
        assert rows(manager.open_reader("costs", 0)) == rows(manager.open_reader("prices", 0))


def test_what_a_killed_restore_left_among_temporary_files_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, temporary = folder(tmp_path / "backup"), tmp_path / "temporary"
    cut = back_up(made(tmp_path / "log"), place).cut
    left = temporary / "commitlog-restore-left"
    left.mkdir(parents=True)
    (left / LOCK).touch()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with LogManager.open(str(tmp_path / "new"), create=True) as target:
        list(restore_topics(place, cut, target, ["prices"]))
        assert target.find_topic("prices") is not None
    assert [*temporary.iterdir()] == []
