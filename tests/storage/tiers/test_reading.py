"""Tiers read as logs, beside what consumers of the brokers that wrote them read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random

import pytest

from pyspark_commitlog.storage import Isolation, LogManager
from pyspark_commitlog.storage.bucket.stores.patience import Patience
from pyspark_commitlog.storage.errors import (
    CorruptionError,
    MissingSegmentError,
    ObjectLostError,
    ObjectStoreError,
    OffsetOutOfRangeError,
    StorageError,
)
from pyspark_commitlog.storage.tiers.address import tier_address
from pyspark_commitlog.storage.tiers.files.filesystem import TieredFiles
from pyspark_commitlog.storage.tiers.opening import open_tier
from pyspark_commitlog.storage.verify.log import CheckpointedOffsets, verify_log
from tests.support.kafka.broker_dirs import rows
from tests.support.stores.faulty_store import FaultyStore
from tests.support.stores.memory_store import MemoryStore
from tests.support.tiers import LAYOUTS, TOPICS, Broker, broker, store_with

# The first offset that the tier has; that DeleteRecords removed those below 210 is known to the broker only.
KEPT_START = {"t-delrec": 159}


@pytest.fixture(scope="module", params=LAYOUTS)
def of_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Broker:
    return broker(request.param, tmp_path_factory.mktemp(request.param))


def manager_over(store: MemoryStore, log: Path | None) -> LogManager:
    """A log directory with a tier in a store."""
    address = tier_address("memory", None if log is None else str(log))
    files = TieredFiles(address, open_tier("", store=store))
    return LogManager.open(files.root, filesystem=files)


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("topic", TOPICS)
def test_a_log_directory_with_its_tier_is_what_the_consumer_read(
    of_broker: Broker, topic: str, isolation: Isolation
) -> None:
    with LogManager.open(str(tier_address(str(of_broker.tier), str(of_broker.log)))) as manager:
        reader = manager.open_reader(topic, 0)
        assert reader.log_start_offset == of_broker.log_start(topic)
        assert rows(reader, isolation) == of_broker.rows(topic, isolation)


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("topic", TOPICS)
def test_a_tier_alone_is_what_the_consumer_read_up_to_its_end(
    of_broker: Broker, topic: str, isolation: Isolation
) -> None:
    with LogManager.open(str(tier_address(str(of_broker.tier)))) as manager:
        reader = manager.open_reader(topic, 0)
        assert reader.log_start_offset == KEPT_START.get(topic, of_broker.log_start(topic))
        found = [row for row in rows(reader, isolation) if row[0] >= of_broker.log_start(topic)]
        assert found == [row for row in of_broker.rows(topic, isolation) if row[0] < reader.log_end_offset]
        local = min(int(path.stem) for path in (of_broker.log / f"{topic}-0").glob("*.log"))
        assert reader.log_end_offset >= local


def test_a_tier_is_sound_for_verify(of_broker: Broker) -> None:
    for log in (None, str(of_broker.log)):
        with LogManager.open(str(tier_address(str(of_broker.tier), log))) as manager:
            for topic in TOPICS:
                marks = CheckpointedOffsets(log_start_offset=of_broker.log_start(topic))
                assert not verify_log(manager.open_reader(topic, 0).context, marks).findings


def test_a_time_is_found_in_the_tier(of_broker: Broker) -> None:
    wanted = of_broker.rows("t-plain", Isolation.READ_COMMITTED)[300]
    with LogManager.open(str(tier_address(str(of_broker.tier), str(of_broker.log)))) as manager:
        found = manager.open_reader("t-plain", 0).offset_for_timestamp(wanted[1])
    assert found is not None
    assert found.offset <= wanted[0]
    assert found.timestamp >= wanted[1]


def test_a_segment_that_brokers_have_begun_to_delete_is_not_read(of_broker: Broker, tmp_path: Path) -> None:
    """t-retention: the broker deleted segments, whose objects some fixtures still have."""
    with LogManager.open(str(tier_address(str(of_broker.tier), str(of_broker.log)))) as manager:
        assert manager.open_reader("t-retention", 0).segments.first.base_offset <= of_broker.log_start("t-retention")


def test_nothing_is_written_to_a_tier(of_broker: Broker) -> None:
    with (
        LogManager.open(str(tier_address(str(of_broker.tier), str(of_broker.log)))) as manager,
        pytest.raises(StorageError, match="can be read only"),
    ):
        manager.open_log("t-plain", 0)


def log_of(store: MemoryStore, topic: str, start: int) -> str:
    """The name of the object with a segment's records."""
    found = (key for key in store.objects if f"/{topic}-" in key and f"/{start:020d}-" in key)
    return next(key for key in found if key.endswith(".log"))


def without(of_broker: Broker, topic: str, start: int) -> tuple[MemoryStore, str]:
    """The tier without the objects of one segment; also returns the name of its log."""
    store = store_with(of_broker.tier)
    name = log_of(store, topic, start)
    for key in [key for key in store.objects if f"/{topic}-" in key and f"/{start:020d}-" in key]:
        del store.objects[key]
    return store, name


def test_a_lost_segment_is_an_error_where_it_is_read(of_broker: Broker) -> None:
    store, _ = without(of_broker, "t-plain", 153)
    with manager_over(store, None) as manager:
        reader = manager.open_reader("t-plain", 0)
        assert sum(map(len, reader.records(0, 153))) == 153
        with pytest.raises(MissingSegmentError, match="offsets 153 to 229 are in no segment"):
            rows(reader)


def test_lost_first_segments_are_an_error_below_a_log_directory(
    of_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    store, name = without(of_broker, "t-plain", 0)
    with manager_over(store, of_broker.log) as manager:
        reader = manager.open_reader("t-plain", 0)
        assert sum(map(len, reader.records(76, 630))) == 554
        lost = reader.lost_start()
        assert "records 0 to 75 are in no segment, here or in the tier" in str(lost)
        assert reader.earliest_offset == 0
        with pytest.raises(OffsetOutOfRangeError):
            reader.read(0)
    assert name in caplog.text


def test_an_object_that_is_lost_while_a_log_is_open_is_named(of_broker: Broker) -> None:
    store = store_with(of_broker.tier)
    with manager_over(store, of_broker.log) as manager:
        reader = manager.open_reader("t-plain", 0)
        name = log_of(store, "t-plain", 76)
        del store.objects[name]
        with pytest.raises((ObjectLostError, MissingSegmentError)) as failed:
            rows(reader)
    assert name in str(failed.value) or "76 to 152" in str(failed.value)


def test_a_store_that_fails_now_and_then_loses_nothing(of_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_commitlog.storage.bucket.stores.patience.Patience.of_process", quick)
    flaky = FaultyStore(store_with(of_broker.tier), Random(3), 0.0)
    flaky._may_fail = every_third()  # type: ignore[method-assign]
    files = TieredFiles(tier_address("memory", str(of_broker.log)), open_tier("", store=flaky))
    with LogManager.open(files.root, filesystem=files) as manager:
        for topic in ("t-txn", "t-epochs"):
            found = rows(manager.open_reader(topic, 0), Isolation.READ_COMMITTED)
            assert found == of_broker.rows(topic, Isolation.READ_COMMITTED)


def test_damage_in_a_tier_is_reported(tmp_path: Path) -> None:
    store = store_with(broker("kafka", tmp_path).tier)
    name = log_of(store, "t-plain", 76)
    data = bytearray(store.objects[name])
    data[300] ^= 1
    store.objects[name] = bytes(data)
    with (
        manager_over(store, None) as manager,
        pytest.raises(CorruptionError, match=f"{name}, position"),
    ):
        rows(manager.open_reader("t-plain", 0))


def test_a_topic_that_was_made_again_is_that_with_the_newest_segments(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tier = broker("kafka", tmp_path).tier
    folder = next((tier / "kafka-tiered-storage").glob("t-plain-0-*"))
    old = folder.name[:-1] + ("A" if folder.name[-1] != "A" else "Q")
    shutil.copytree(folder, folder.with_name(old), copy_function=shutil.copy)
    for path in folder.iterdir():
        path.touch()
    with LogManager.open(str(tier_address(str(tier)))) as manager:
        assert manager.topic("t-plain").topic_id == folder.name[-22:]
    assert "has 2 topics named t-plain" in caplog.text
    chosen = tier_address(str(tier))._replace(topic_ids=(old[-22:],))
    with LogManager.open(str(chosen)) as manager:
        assert manager.topic("t-plain").topic_id == old[-22:]


def quick() -> Patience:
    return Patience(20_000, 1, 2)


def every_third() -> Callable[[str], None]:
    asked = count(1)

    def may_fail(key: str) -> None:
        if next(asked) % 3 == 0:
            raise ObjectStoreError(f"{key}: 503")

    return may_fail
