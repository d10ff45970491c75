"""Mirrors between clusters, all of them ours: what arrives, how often, and as which bytes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from pyspark_commitlog.mirror.brokers.connections import ListedTopic
from pyspark_commitlog.mirror.errors import FencedError, MirrorError
from pyspark_commitlog.mirror.progress import NextOffset
from pyspark_commitlog.mirror.settings import TargetSettings
from pyspark_commitlog.mirror.sources.todays_wire import ClusterSource
from pyspark_commitlog.mirror.targets.log_directory import DirectoryTargets
from pyspark_commitlog.storage import (
    BatchFields,
    BinaryColumn,
    Codec,
    InvalidConfigError,
    LogDirLockedError,
    LogManager,
    Producer,
    Records,
    TopicPartition,
    add_partitions,
    encode_batches,
    partitions_of,
)
from tests.mirror.support import (
    Failing,
    Following,
    Place,
    contents,
    delete_before,
    encoded_records,
    fill,
    mirrored,
    numbered,
    place,
    topics,
)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Place]:
    fill(tmp_path / "source", "flights", numbered(0, 20), partitions=2, codec=Codec.GZIP, retention_ms="-1")
    with place(tmp_path / "source") as found:
        yield found


@pytest.fixture(params=["a cluster", "a log directory"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TargetSettings]:
    if request.param == "a log directory":
        yield TargetSettings.parse({"log.dir": str(tmp_path / "target")})
    else:
        with place(tmp_path / "target") as found:
            yield found.target()


@pytest.fixture
def directory(tmp_path: Path) -> TargetSettings:
    return TargetSettings.parse({"log.dir": str(tmp_path / "target")})


def test_a_topic_is_made_with_its_partitions_and_settings_and_batches_keep_their_bytes(
    source: Place, target: TargetSettings, tmp_path: Path
) -> None:
    fill(source.directory, "flights", numbered(20, 30), partition=1, codec=Codec.ZSTD)
    mirror = mirrored([source.source("one")], target)
    there = tmp_path / "target"
    assert topics(there) == ["flights", "mirror-progress-one"]
    assert contents(there, "flights") == contents(source.directory, "flights")
    for partition in (0, 1):
        assert encoded_records(there, "flights", partition) == encoded_records(source.directory, "flights", partition)
    assert mirror.kept == 2
    with LogManager.open(str(there)) as manager:
        assert manager.config("flights").retention_ms == -1


def test_another_run_goes_on_where_the_last_one_stopped(source: Place, target: TargetSettings, tmp_path: Path) -> None:
    for first in (20, 40, 60):
        mirrored([source.source("one")], target)
        fill(source.directory, "flights", numbered(first, first + 20), partition=first // 20 % 2)
    mirrored([source.source("one")], target, streams=3)
    mirrored([source.source("one")], target)
    assert contents(tmp_path / "target", "flights") == contents(source.directory, "flights")


def test_topics_of_one_name_merge_in_the_order_of_each_source(
    source: Place, target: TargetSettings, tmp_path: Path
) -> None:
    fill(tmp_path / "other", "flights", numbered(0, 30, "other "), partitions=3, partition=2)
    fill(tmp_path / "other", "flights", numbered(30, 40, "other "), partition=0)
    with place(tmp_path / "other") as other:
        mirrored([source.source("one"), other.source("two")], target)
        fill(other.directory, "flights", numbered(40, 50, "other "), partition=0)
        mirrored([source.source("one"), other.source("two")], target)
    found = contents(tmp_path / "target", "flights")
    assert sorted(found) == [0, 1, 2]
    assert [pair for pair in found[0] if b"other" not in pair[1]] == numbered(0, 20)
    assert [pair for pair in found[0] if b"other" in pair[1]] == numbered(30, 50, "other ")
    assert found[2] == numbered(0, 30, "other ")


def test_by_key_a_record_goes_where_kafkas_producer_sends_its_key(
    source: Place, directory: TargetSettings, tmp_path: Path
) -> None:
    fill(source.directory, "flights", [(None, b"without %d" % number) for number in range(5)], partition=1)
    mirrored([source.source("one")], directory, partitions="by-key", partition_count=4)
    found = contents(tmp_path / "target", "flights")
    assert sorted(found) == [0, 1, 2, 3]
    keys = [pair[0] for pair in numbered(0, 5)]
    column = BinaryColumn.from_list(keys)
    for key, partition in zip(keys, partitions_of(column, 4).tolist(), strict=True):
        wanted = [pair for pair in numbered(0, 20) if pair[0] == key]
        assert [pair for pair in found[partition] if pair[0] == key] == wanted
    assert [pair for pair in found[1] if pair[0] is None] == [(None, b"without %d" % number) for number in range(5)]


def test_a_topic_that_is_there_with_less_partitions_gets_more(
    source: Place, target: TargetSettings, tmp_path: Path
) -> None:
    fill(tmp_path / "target", "flights", [(b"before", b"before")])
    fill(source.directory, "flights", numbered(20, 25), partition=1)
    mirrored([source.source("one")], target)
    found = contents(tmp_path / "target", "flights")
    assert found == {0: [(b"before", b"before"), *numbered(0, 20)], 1: numbered(20, 25)}


def test_only_topics_of_the_list_are_mirrored_and_never_the_progress(
    source: Place, directory: TargetSettings, tmp_path: Path
) -> None:
    fill(source.directory, "orders", numbered(0, 5))
    fill(source.directory, "mirror-progress-another", [(b"[]", b"{}")])
    mirrored([source.source("one")], directory, names="orders,f.*,m.*", configs={"retention.ms": "77000"})
    assert topics(tmp_path / "target") == ["flights", "mirror-progress-one", "orders"]
    with LogManager.open(str(tmp_path / "target")) as manager:
        assert manager.config("orders").retention_ms == 77_000


def test_aborted_records_and_gaps_are_left_out(source: Place, directory: TargetSettings, tmp_path: Path) -> None:
    with LogManager.open(str(source.directory)) as manager:
        manager.create_topic("gaps", partitions=1)
        log = manager.open_log("gaps", 0)
        for epoch, (value, commit) in enumerate([(b"aborted", False), (b"committed", True), (b"no", False)]):
            fields = BatchFields(producer_id=7, producer_epoch=epoch, base_sequence=0, transactional=True)
            log.append_records(Records.to_append([b"k"], [value], int(time.time() * 1000)), fields)
            log.end_transaction(Producer(7, epoch + 1), commit=commit)
    mirrored([source.source("one")], directory)
    assert contents(tmp_path / "target", "gaps") == {0: [(b"k", b"committed")]}


def test_where_the_source_deleted_what_is_next_the_mirror_says_so_and_goes_on(
    source: Place, directory: TargetSettings, tmp_path: Path
) -> None:
    mirrored([source.source("one")], directory)
    fill(source.directory, "flights", numbered(20, 30))
    fill(source.directory, "flights", numbered(30, 40))
    delete_before(source, "flights", 0, 30)
    with pytest.raises(MirrorError, match=r"has offsets 30 to 40, but 20 is next to mirror: to go on, set auto"):
        mirrored([source.source("one", auto_offset_reset="none")], directory)
    said: list[str] = []
    mirrored([source.source("one")], directory, report=said.append)
    assert ["going on at 30" in each for each in said] == [True]
    assert contents(tmp_path / "target", "flights")[0] == numbered(0, 20) + numbered(30, 40)


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_where_the_source_deleted_all_records_the_mirror_ends_and_goes_on_there(
    source: Place, directory: TargetSettings, tmp_path: Path, reset: str
) -> None:
    settings = [source.source("one", auto_offset_reset=reset)]
    mirrored([source.source("one")], directory)
    fill(source.directory, "flights", numbered(20, 30))
    fill(source.directory, "flights", numbered(30, 40))
    delete_before(source, "flights", 0, 40)
    said: list[str] = []
    mirrored(settings, directory, report=said.append)
    assert ["going on at 40" in each for each in said] == [True]
    fill(source.directory, "flights", numbered(40, 50))
    mirrored(settings, directory, report=said.append)
    assert len(said) == 1
    assert contents(tmp_path / "target", "flights")[0] == numbered(0, 20) + numbered(40, 50)


def test_begun_at_the_latest_offset_later_records_are_mirrored_and_those_while_it_is_down(
    source: Place, directory: TargetSettings, tmp_path: Path
) -> None:
    mirrored([source.source("one", auto_offset_reset="latest")], directory)
    for first in (20, 25):
        fill(source.directory, "flights", numbered(first, first + 5))
        mirrored([source.source("one", auto_offset_reset="latest")], directory)
    assert contents(tmp_path / "target", "flights")[0] == numbered(20, 30)


def test_a_lasting_mirror_takes_up_new_topics_and_partitions(
    source: Place, target: TargetSettings, tmp_path: Path
) -> None:
    there = tmp_path / "target"
    with Following([source.source("one")], target, streams=2) as following:
        fill(source.directory, "later", numbered(0, 7))
        with LogManager.open(str(source.directory)) as manager:
            add_partitions(manager, "flights", 3)
        fill(source.directory, "flights", numbered(20, 30), partition=2)
        following.wait_until(lambda: "later" in topics(there) and 2 in contents(there, "flights"))
        following.wait_until(lambda: all((contents(there, "later")[0], contents(there, "flights")[2])))
    assert contents(there, "later") == {0: numbered(0, 7)}
    assert contents(there, "flights") == contents(source.directory, "flights")


def test_a_topic_that_the_source_does_not_list_for_a_moment_arrives_once(
    source: Place, directory: TargetSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, listed, hidden = tmp_path / "target", ClusterSource.topics, Event()
    looks: list[bool] = []

    def listed_or_not(source: ClusterSource) -> list[ListedTopic]:
        looks.append(hidden.is_set())
        return [] if hidden.is_set() else listed(source)

    def arrived(last: int) -> bool:
        return contents(there, "flights")[0][-1:] == numbered(last, last + 1)

    mirrored([source.source("one")], directory)
    monkeypatch.setattr(ClusterSource, "topics", listed_or_not)
    with Following([source.source("one")], directory) as following:
        fill(source.directory, "flights", numbered(20, 25))
        following.wait_until(lambda: arrived(24))
        hidden.set()
        following.wait_until(lambda: looks.count(True) > 1)
        hidden.clear()
        fill(source.directory, "flights", numbered(25, 30))
        following.wait_until(lambda: arrived(29))
    assert contents(there, "flights") == contents(source.directory, "flights")


def test_a_second_mirror_of_a_group_takes_over_or_is_refused(
    source: Place, target: TargetSettings, tmp_path: Path
) -> None:
    first = target.targets.open("one")
    taking = first.prepare("flights", 2, {}, grow=True)
    assert taking.partitions == 2
    batches = encode_batches(Records.to_append([b"k"], [b"v"], 0), BatchFields(), batch_bytes_max=1000)
    if isinstance(target.targets, DirectoryTargets):
        with pytest.raises(LogDirLockedError, match="the mirror of 'one'"):
            target.targets.open("one")
    else:
        target.targets.open("one").close()
        with pytest.raises(FencedError, match="another process has taken it over"):
            first.write({TopicPartition("flights", 0): batches}, {TopicPartition("flights", 0): NextOffset(1)})
    first.close()
    mirrored([source.source("one")], target)
    assert contents(tmp_path / "target", "flights") == contents(source.directory, "flights")


def test_an_error_at_any_step_of_a_transaction_loses_and_doubles_nothing(
    source: Place, target: TargetSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        fill(source.directory, "flights", numbered(20 + 10 * number, 30 + 10 * number), partition=number % 2)
    failing = Failing(target.targets)
    monkeypatch.setattr("pyspark_commitlog.mirror.run._PAUSES_S", (0.01,) * 5)
    monkeypatch.setattr("pyspark_commitlog.mirror.session.TRANSACTION_BYTES", 1)
    said: list[str] = []
    settings = [source.source("one", max_partition_fetch_bytes="100")]
    mirrored(settings, TargetSettings(failing), report=said.append)
    assert failing.failures == len(said) == 4
    assert contents(tmp_path / "target", "flights") == contents(source.directory, "flights")


def test_two_sources_of_one_group_are_refused(source: Place, directory: TargetSettings) -> None:
    with pytest.raises(InvalidConfigError, match=r"two sources have group\.id 'one'"):
        mirrored([source.source("one"), source.source("one")], directory)
