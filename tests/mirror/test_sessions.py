"""Sessions of a mirror whose source lacks leaders, or has another log than before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.mirror import run
from pyspark_commitlog.mirror.errors import MirrorError, RetriableError
from pyspark_commitlog.mirror.settings import SourceSettings, TargetSettings
from pyspark_commitlog.mirror.sources.kafka_0_8 import ZooKeeperSource, ZooKeeperSources
from pyspark_commitlog.mirror.sources.port import Source
from pyspark_commitlog.mirror.sources.todays_wire import ClusterSource
from pyspark_commitlog.storage import LogManager, TopicPartition
from tests.mirror.support import Following, contents, fill, mirrored, numbered, place, topics
from tests.support.classic.old_brokers import NOBODY, OldBrokers


class OldSources:
    """Opens sources of scripted brokers."""

    def __init__(self, brokers: OldBrokers) -> None:
        self._brokers = brokers

    def open(self) -> Source:
        return ZooKeeperSource(ZooKeeperSources("nowhere:1"), self._brokers.registered)

    def __str__(self) -> str:
        return "the old cluster"


@pytest.fixture
def brokers() -> Iterator[OldBrokers]:
    with OldBrokers() as found:
        found.add("t", 0, [b"1"])
        found.add("t", 1, [b"2"], NOBODY)
        found.add("other", 0, [b"3"])
        yield found


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return tmp_path / "target"


@pytest.fixture
def target(there: Path) -> TargetSettings:
    return TargetSettings.parse({"log.dir": str(there)})


def values(directory: Path, topic: str) -> dict[int, list[bytes | None]]:
    if topic not in topics(directory):
        return {}
    return {number: [value for _, value in pairs] for number, pairs in contents(directory, topic).items()}


def test_a_partition_without_a_leader_is_mirrored_once_it_has_one_and_the_others_before(
    brokers: OldBrokers, target: TargetSettings, there: Path
) -> None:
    said: list[str] = []
    with Following([SourceSettings("one", "earliest", OldSources(brokers))], target, report=said.append) as following:
        following.wait_until(lambda: values(there, "t") == {0: [b"1"], 1: []})
        following.wait_until(lambda: values(there, "other") == {0: [b"3"]})
        brokers.leaders[TopicPartition("t", 1)] = 0
        following.wait_until(lambda: values(there, "t") == {0: [b"1"], 1: [b"2"]})
    assert said == []


def test_without_following_the_others_are_mirrored_before_the_error(
    brokers: OldBrokers, target: TargetSettings, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_PAUSES_S", (0.01, 0.01))
    with pytest.raises(RetriableError, match="t-1 of the old cluster has no leader"):
        mirrored([SourceSettings("one", "earliest", OldSources(brokers))], target)
    assert (values(there, "t"), values(there, "other")) == ({0: [b"1"], 1: []}, {0: [b"3"]})
    brokers.leaders[TopicPartition("t", 1)] = 0
    mirrored([SourceSettings("one", "earliest", OldSources(brokers))], target)
    assert (values(there, "t"), values(there, "other")) == ({0: [b"1"], 1: [b"2"]}, {0: [b"3"]})


def test_progress_beyond_the_end_of_a_log_that_is_another_one_is_set_back_where_the_settings_say(
    target: TargetSettings, there: Path, tmp_path: Path
) -> None:
    fill(tmp_path / "source", "t", numbered(0, 20), partitions=2)
    fill(tmp_path / "source", "t", numbered(0, 3), partition=1)
    with place(tmp_path / "source") as source:
        mirrored([source.source("one")], target)
    shutil.rmtree(tmp_path / "source")
    fill(tmp_path / "source", "t", numbered(50, 55), partitions=2)
    fill(tmp_path / "source", "t", numbered(60, 64), partition=1)
    with place(tmp_path / "source") as source:
        with pytest.raises(MirrorError, match=r"t-0 of .* has offsets 0 to 5, but 20 is next to mirror: to go on, set"):
            mirrored([source.source("one", auto_offset_reset="none")], target)
        said: list[str] = []
        done = mirrored([source.source("one")], target, report=said.append)
        assert [each.partition(";")[2] for each in said] == [" going on at 0 (auto.offset.reset)"]
        assert done.reached()["one", TopicPartition("t", 0)] == 5
        assert contents(there, "t")[0] == numbered(0, 20) + numbered(50, 55)
        mirrored([source.source("one")], target, report=said.append)
        fill(tmp_path / "source", "t", numbered(55, 60))
        mirrored([source.source("one")], target, report=said.append)
    assert len(said) == 1
    assert contents(there, "t")[0] == numbered(0, 20) + numbered(50, 60)


def test_progress_beyond_the_end_of_a_log_that_is_empty_now_is_set_back(
    target: TargetSettings, there: Path, tmp_path: Path
) -> None:
    fill(tmp_path / "source", "t", numbered(0, 20))
    with place(tmp_path / "source") as source:
        mirrored([source.source("one")], target)
    shutil.rmtree(tmp_path / "source")
    with LogManager.open(str(tmp_path / "source"), create=True) as manager:
        manager.create_topic("t", partitions=1)
    fill(tmp_path / "source", "another", numbered(0, 5))
    with place(tmp_path / "source") as source:
        for reset in ("latest", "earliest"):
            mirrored([source.source("one", auto_offset_reset=reset)], target)
        fill(tmp_path / "source", "t", numbered(20, 25))
        mirrored([source.source("one")], target)
    assert contents(there, "t")[0] == numbered(0, 25)


def test_a_log_that_ends_before_its_progress_only_for_now_is_tried_again(
    target: TargetSettings, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "source", "t", numbered(0, 20))
    behind, offsets, said = [1], ClusterSource.offsets, list[str]()

    def lagging(source: ClusterSource, partitions: list[TopicPartition], at: int) -> dict[TopicPartition, int]:
        found = offsets(source, partitions, at)
        return {each: offset - 5 for each, offset in found.items()} if behind and at == -1 else found

    monkeypatch.setattr(run, "_PAUSES_S", (0.01, 0.01, 0.01))
    with place(tmp_path / "source") as source:
        mirrored([source.source("one")], target)
        monkeypatch.setattr(ClusterSource, "offsets", lagging)
        with pytest.raises(RetriableError, match="ends at 15 for now, but 20 is next to mirror"):
            mirrored([source.source("one")], target, report=said.append)
        behind.clear()
        fill(tmp_path / "source", "t", numbered(20, 25))
        mirrored([source.source("one")], target)
    assert contents(there, "t")[0] == numbered(0, 25)
