"""Sessions of a mirror whose source lacks leaders, or has another log than before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.mirror import run
from pyspark_commitlog.mirror.errors import MirrorError, RetriableError
from pyspark_commitlog.mirror.progress import NextOffset
from pyspark_commitlog.mirror.settings import SourceSettings, TargetSettings
from pyspark_commitlog.mirror.sources.kafka_0_8 import ZooKeeperSource, ZooKeeperSources
from pyspark_commitlog.mirror.sources.port import Source
from pyspark_commitlog.mirror.sources.todays_wire import ClusterSource
from pyspark_commitlog.storage import LogManager, TopicPartition, delete_topic
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


def set_back(directory: Path, partitions: int) -> None:
    """Puts another log in the place of topic t, which keeps its id, as where a disk was lost. It is empty."""
    with LogManager.open(str(directory)) as manager:
        topic_id = manager.topic("t").topic_id
    shutil.rmtree(directory)
    with LogManager.open(str(directory), create=True) as manager:
        manager.create_topic("t", partitions=partitions, topic_id=topic_id)


def test_progress_beyond_the_end_of_a_log_that_is_another_one_is_set_back_where_the_settings_say(
    target: TargetSettings, there: Path, tmp_path: Path
) -> None:
    fill(tmp_path / "source", "t", numbered(0, 20), partitions=2)
    fill(tmp_path / "source", "t", numbered(0, 3), partition=1)
    with place(tmp_path / "source") as source:
        mirrored([source.source("one")], target)
    set_back(tmp_path / "source", partitions=2)
    fill(tmp_path / "source", "t", numbered(50, 55))
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
    set_back(tmp_path / "source", partitions=1)
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


# A topic that was deleted and made again


def make_again(directory: Path, first: int, end: int, partitions: int = 1) -> None:
    """Deletes topic t, and makes it again with numbered records in partition 0."""
    with LogManager.open(str(directory)) as manager:
        delete_topic(manager, "t")
    fill(directory, "t", numbered(first, end), partitions=partitions)


def from_directory(directory: Path, **more: str) -> SourceSettings:
    given = {name.replace("_", "."): value for name, value in more.items()}
    return SourceSettings.parse({"group.id": "one", "log.dir": str(directory), "fetch.max.wait.ms": "5", **given})


@pytest.mark.parametrize("is_served", [True, False], ids=["a cluster", "a log directory"])
def test_a_topic_made_again_with_more_records_than_before_is_mirrored_from_its_start(
    is_served: bool, target: TargetSettings, there: Path, tmp_path: Path
) -> None:
    source, said = tmp_path / "source", list[str]()

    def run(**more: str) -> None:
        with place(source) as served:
            given = served.source("one", **more) if is_served else from_directory(source, **more)
            mirrored([given], target, report=said.append)

    fill(source, "t", numbered(0, 20), partitions=2)
    run()
    make_again(source, 50, 80, partitions=2)
    fill(source, "t", numbered(80, 85), partition=1)
    again = r"t-0 of .*: topic t was deleted and made again: it was read with id .*, and has id .*"
    with pytest.raises(MirrorError, match=f"{again}: to go on, set auto"):
        run(auto_offset_reset="none")
    run()
    assert [each.rpartition(";")[2] for each in said] == [" going on at 0 (auto.offset.reset)"] * 2
    fill(source, "t", numbered(85, 90))
    run()
    assert len(said) == 2
    assert contents(there, "t") == {0: numbered(0, 20) + numbered(50, 80) + numbered(85, 90), 1: numbered(80, 85)}


def test_a_topic_made_again_goes_on_at_its_latest_offset_where_the_settings_say_so(
    target: TargetSettings, there: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    fill(source, "t", numbered(0, 20))
    mirrored([from_directory(source)], target)
    make_again(source, 50, 80)
    mirrored([from_directory(source, auto_offset_reset="latest")], target, report=lambda _: None)
    fill(source, "t", numbered(80, 85))
    mirrored([from_directory(source)], target)
    assert contents(there, "t")[0] == numbered(0, 20) + numbered(80, 85)


def test_progress_without_a_topics_id_gets_it_at_the_next_start(
    target: TargetSettings, there: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    fill(source, "t", numbered(0, 20))
    writer = target.targets.open("one")
    writer.write({}, {TopicPartition("t", 0): NextOffset(5)})  # as by an earlier version
    writer.close()
    mirrored([from_directory(source)], target)
    assert contents(there, "t")[0] == numbered(5, 20)
    writer = target.targets.open("one")
    writer.write({}, {TopicPartition("t", 0): NextOffset(20)})
    writer.close()
    mirrored([from_directory(source)], target)  # has nothing to copy
    make_again(source, 50, 80)
    mirrored([from_directory(source)], target, report=lambda _: None)
    assert contents(there, "t")[0] == numbered(5, 20) + numbered(50, 80)


@pytest.mark.parametrize("is_served", [True, False], ids=["a cluster", "a log directory"])
def test_a_topic_made_again_while_a_mirror_follows_it_is_mirrored_from_its_start(
    is_served: bool, target: TargetSettings, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_PAUSES_S", (0.01,))
    source, said = tmp_path / "source", list[str]()
    fill(source, "t", numbered(0, 20))
    with place(source) as served:
        given = served.source("one") if is_served else from_directory(source)
        with Following([given], target, report=said.append) as following:
            following.wait_until(lambda: values(there, "t").get(0) == [pair[1] for pair in numbered(0, 20)])
            make_again(source, 50, 80)
            following.wait_until(lambda: any("going on at 0" in each for each in said))
            fill(source, "t", numbered(80, 85))
            following.wait_until(lambda: values(there, "t")[0][-1:] == [numbered(84, 85)[0][1]])
    assert contents(there, "t")[0] == numbered(0, 20) + numbered(50, 85)


@pytest.mark.parametrize("is_served", [True, False], ids=["a cluster", "a log directory"])
def test_nothing_is_fetched_from_a_topic_made_again_since_it_was_listed(is_served: bool, tmp_path: Path) -> None:
    fill(tmp_path / "source", "t", numbered(0, 20))
    with place(tmp_path / "source") as served:
        settings = served.source("one") if is_served else from_directory(tmp_path / "source")
        opened = settings.sources.open()
        ids = {each.name: each.topic_id for each in opened.topics() if each.topic_id is not None}
        position = {TopicPartition("t", 0): 10}
        assert opened.fetch(position, ids).keys() == position.keys()
        make_again(tmp_path / "source", 50, 80)

        def fetch_until_there_are_new_records() -> None:
            found = list[bytes]()
            while not any(b"60." in each for each in found):  # a gateway has the old log open for a moment
                found += [each.data for each in opened.fetch(position, ids).values() if each is not None]

        with pytest.raises(RetriableError, match="topic t was deleted and made again"):
            fetch_until_there_are_new_records()
        opened.close()
