"""The port to tiers, over what real brokers left in both layouts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from pyspark_commitlog.storage.bucket.stores.port import FolderListing
from pyspark_commitlog.storage.errors import CorruptionError, NotALogDirError, ObjectMissingError, ObjectStoreError
from pyspark_commitlog.storage.format.files import file_names as names
from pyspark_commitlog.storage.tiers.metadata_records import SegmentMetadata, TopicIdPartition
from pyspark_commitlog.storage.tiers.opening import open_tier
from pyspark_commitlog.storage.tiers.port import Tier, TierSegment
from tests.support.stores.faulty_store import FaultyStore
from tests.support.stores.memory_store import MemoryStore
from tests.support.tiers import LAYOUTS, TOPICS, Broker, broker, store_with

FIRST = "00000000000000000000"


@pytest.fixture(scope="module", params=LAYOUTS)
def of_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Broker:
    return broker(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture
def tier(of_broker: Broker) -> Tier:
    return open_tier(str(of_broker.tier))


def partition_of(tier: Tier, topic: str) -> TopicIdPartition:
    return next(each for each in tier.partitions() if each.topic == topic)


def segments_of(tier: Tier, topic: str) -> list[TierSegment]:
    found = tier.segments(partition_of(tier, topic))
    assert not found.incomplete
    return found.whole


def test_partitions_are_found_by_the_names_of_folders(tier: Tier) -> None:
    assert sorted({(each.topic, each.partition) for each in tier.partitions()}) == [(topic, 0) for topic in TOPICS]


def test_a_tier_is_found_in_the_folder_that_the_brokers_settings_name_and_below_it(of_broker: Broker) -> None:
    inside = next(each for each in of_broker.tier.iterdir() if each.is_dir())
    assert open_tier(str(inside)).partitions() == open_tier(str(of_broker.tier)).partitions()


def test_a_folder_without_segments_is_no_tier(tmp_path: Path) -> None:
    with pytest.raises(NotALogDirError, match=r"no segments of a tier here: give .*rsm\.config\.dir"):
        open_tier(str(tmp_path))


@pytest.mark.parametrize("topic", TOPICS)
def test_each_segment_begins_where_the_one_before_it_ends(tier: Tier, topic: str) -> None:
    found = {(each.start_offset, each.end_offset) for each in segments_of(tier, topic)}
    starts, ends = (sorted(each) for each in zip(*found, strict=True))
    assert starts[1:] == [end + 1 for end in ends[:-1]]


def test_local_segments_begin_where_those_of_the_tier_end(of_broker: Broker, tier: Tier) -> None:
    local = min(int(path.stem) for path in (of_broker.log / "t-plain-0").glob("*.log"))
    assert segments_of(tier, "t-plain")[-1].end_offset + 1 == local


def test_a_segment_that_is_also_local_has_the_same_bytes(of_broker: Broker, tier: Tier) -> None:
    both = [each for each in segments_of(tier, "t-local") if _local(of_broker, each, names.LOG).exists()]
    assert len(both) == 2
    for segment in both:
        content = tier.content(segment)
        assert bytes(content.read(0, segment.size)) == _local(of_broker, segment, names.LOG).read_bytes()
        assert bytes(tier.read(segment, 100, 3000)) == _local(of_broker, segment, names.LOG).read_bytes()[100:3100]
        assert tier.beside(segment, names.INDEX) == _local(of_broker, segment, names.INDEX).read_bytes()
        assert tier.beside(segment, names.TIME_INDEX) == _local(of_broker, segment, names.TIME_INDEX).read_bytes()


def _local(of_broker: Broker, segment: TierSegment, kind: str) -> Path:
    return of_broker.log / "t-local-0" / names.segment_file(segment.start_offset, kind)


def test_a_range_across_chunks_is_the_same_as_the_whole(tier: Tier) -> None:
    segment = segments_of(tier, "t-codec")[0]
    whole, random = bytes(tier.read(segment, 0, segment.size)), Random(1)
    for _ in range(50):
        first, last = sorted(random.randrange(segment.size + 1) for _ in range(2))
        assert bytes(tier.read(segment, first, last - first)) == whole[first:last]


def test_leader_epochs_are_those_of_the_segment(tier: Tier) -> None:
    found = {each.start_offset: each.epochs for each in segments_of(tier, "t-epochs")}
    epochs = [each for start in sorted(found) for each in found[start] or ()]
    assert [each.epoch for each in epochs] == sorted(each.epoch for each in epochs)
    assert len({each.epoch for each in epochs}) == 4


def test_only_segments_with_an_abort_have_a_transaction_index(tier: Tier) -> None:
    indexes = [tier.beside(each, names.TXN_INDEX) for each in segments_of(tier, "t-txn")]
    assert any(indexes)
    assert all(tier.beside(each, names.TXN_INDEX) in (None, b"") for each in segments_of(tier, "t-plain"))


def test_a_copy_that_lacks_an_object_is_not_whole(of_broker: Broker) -> None:
    store = store_with(of_broker.tier)
    cut = next(key for key in sorted(store.objects) if "t-plain" in key and f"/{FIRST}-" in key and ".log" not in key)
    del store.objects[cut]
    tier = open_tier("", store=store)
    found = tier.segments(partition_of(tier, "t-plain"))
    assert found.whole[0].start_offset == 76
    assert {name.rpartition("/")[2][:20] for name in found.incomplete} == {FIRST}


def test_an_object_that_is_gone_is_named(of_broker: Broker) -> None:
    store = store_with(of_broker.tier)
    tier = open_tier("", store=store)
    segment = segments_of(tier, "t-plain")[0]
    del store.objects[segment.name]
    with pytest.raises(ObjectMissingError, match=segment.segment_id):
        tier.content(segment).read(0, 10)


def test_an_object_that_was_cut_is_named(of_broker: Broker) -> None:
    store = store_with(of_broker.tier)
    tier = open_tier("", store=store)
    segment = segments_of(tier, "t-plain")[0]
    store.objects[segment.name] = store.objects[segment.name][:-5]
    with pytest.raises(CorruptionError, match=rf"{segment.segment_id}\.log: the object has \d+ bytes, but .* says \d+"):
        tier.content(segment).read(0, segment.size)


def test_a_store_that_fails_now_and_then_gives_the_same_bytes(
    of_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMITLOG_DELIVERY_TIMEOUT_MS", "20000")
    store = store_with(of_broker.tier)
    tier, sound = (open_tier("", store=each) for each in (FlakyStore(store), store))
    for flaky, segment in zip(segments_of(tier, "t-txn"), segments_of(sound, "t-txn"), strict=True):
        assert flaky == segment
        assert bytes(tier.content(flaky).read(0, segment.size)) == bytes(sound.read(segment, 0, segment.size))


class FlakyStore(FaultyStore):
    """Fails every third request, but never refuses one."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner, Random(1), 0.0)
        self._asked = 0

    def _may_fail(self, key: str) -> None:
        self._asked += 1
        if self._asked % 3 == 0:
            raise ObjectStoreError(f"{key}: 503")


def test_a_torn_segment_is_named_where_nothing_else_says_its_size(tmp_path: Path) -> None:
    store = store_with(broker("kafka", tmp_path).tier)
    name = next(key for key in sorted(store.objects) if "t-plain" in key and key.endswith(".log"))
    store.objects[name] = store.objects[name][:-5]
    tier = open_tier("", store=store)
    with pytest.raises(CorruptionError, match=rf"{name}, position \d+: the segment ends within a batch"):
        tier.segments(partition_of(tier, "t-plain"))


def test_a_manifest_of_another_segment_is_refused(tmp_path: Path) -> None:
    store = store_with(broker("aiven", tmp_path).tier)
    first, second = [key for key in sorted(store.objects) if "t-plain" in key and key.endswith("manifest")][:2]
    store.objects[first] = store.objects[second]
    tier = open_tier("", store=store)
    with pytest.raises(CorruptionError, match=rf"{first}: the manifest is of another segment"):
        tier.segments(partition_of(tier, "t-plain"))


def test_a_damaged_chunk_is_named_with_its_position(tmp_path: Path) -> None:
    store = store_with(broker("aiven-zstd", tmp_path).tier)
    tier = open_tier("", store=store)
    segment = segments_of(tier, "t-plain")[0]
    data = bytearray(store.objects[segment.name])
    data[:4] = b"\0\0\0\0"
    store.objects[segment.name] = bytes(data)
    with pytest.raises(CorruptionError, match=rf"{segment.name}, position 0: the compressed chunk is damaged"):
        tier.read(segment, 0, 10)


def test_metadata_names_a_segment_that_is_not_listed(of_broker: Broker) -> None:
    tier = open_tier(str(of_broker.tier))
    segment = segments_of(tier, "t-plain")[0]
    metadata = SegmentMetadata(
        *(segment.partition, segment.segment_id, segment.start_offset, segment.end_offset, 1, 2, 3),
        segment.epochs or (),
        segment.size,
    )
    store = store_with(of_broker.tier)
    late = open_tier("", store=LateStore(store))
    found = late.segments(segment.partition, [metadata])
    assert [replace(each, event_ms=0, kinds=segment.kinds) for each in found.whole] == [replace(segment, event_ms=0)]
    assert late.beside(found.whole[0], names.TIME_INDEX) == tier.beside(segment, names.TIME_INDEX)
    gone = late.segments(segment.partition, [replace(metadata, segment_id=segment.segment_id[::-1])])
    assert not gone.whole
    assert segment.segment_id[::-1] in gone.incomplete[0]


class LateStore(FaultyStore):
    """Lists folders, but no object yet."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner, Random(1), 0.0)

    def list_folder(self, folder: str) -> FolderListing:
        return super().list_folder(folder)._replace(objects=[])
