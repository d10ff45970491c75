"""A search in logs that a real Kafka 0.7 wrote: compared with what its reader returns, and around damage."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pyspark_commitlog.classic.log_0_7.topics import PositionTopics
from pyspark_commitlog.storage import Bounds, Condition, InvalidConfigError, InvalidOffsetError, Search
from pyspark_commitlog.storage.reading.fetch import Timespan
from tests.storage.finding.scanning import Row, as_rows, found, is_wanted, rows_of
from tests.support.classic.kafka_0_7 import unpacked


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked("main", tmp_path_factory.mktemp("main")) / "log"


def scan(topics: PositionTopics, topic: str) -> list[Row]:
    rows: list[Row] = []
    for number in topics.topic(topic).partitions:
        reader = topics.open_reader(topic, number)
        rows += [row for records in reader.records(reader.start) for row in rows_of(number, records)]
        reader.close()
    return rows


def test_a_search_finds_what_a_scan_of_kafka_0_7s_files_finds(log: Path) -> None:
    topics, searched = PositionTopics(str(log)), 0
    for topic in topics.topics():
        rows = scan(topics, topic)
        texts = sorted({(row.value or b"")[:4] for row in rows})[:5]
        for condition in (Condition(), Condition(key=b"k"), *(Condition(value_contains=text) for text in texts)):
            expected = [row for row in rows if is_wanted(row, condition)]
            assert found(topics, topic, condition) == expected
            searched += len(expected)
    assert searched > 200


def test_a_search_begins_and_ends_at_positions(log: Path) -> None:
    topics = PositionTopics(str(log))
    rows = scan(topics, "alpha")
    bounds = Bounds(440, 1200)
    inside = [row for row in rows if row.partition == 0 and is_wanted(row, Condition(), bounds)]
    assert len(inside) > 3
    assert found(topics, "alpha", Condition(), bounds, partitions=[0]) == inside
    with pytest.raises(InvalidOffsetError, match="inside the one from 440 to 677"):
        found(topics, "alpha", Condition(), Bounds(441), partitions=[0])


@pytest.mark.parametrize("given", [{"bounds": Bounds(times=Timespan(first=1))}, {"newest_first": True}])
def test_what_needs_times_is_refused(log: Path, given: dict[str, object]) -> None:
    with pytest.raises(InvalidConfigError, match="have no times"):
        Search(PositionTopics(str(log)), "alpha", Condition(), **given)  # type: ignore[arg-type]


def test_damage_is_named_with_the_rest_of_its_file(log: Path, tmp_path: Path) -> None:
    shutil.copytree(log, tmp_path / "log")
    topics = PositionTopics(str(tmp_path / "log"))
    rows = [row for row in scan(topics, "alpha") if row.partition == 0]
    first, second, *_ = sorted((tmp_path / "log" / "alpha-0").glob("*.kafka"))
    stop = int(second.stem)
    data = bytearray(first.read_bytes())
    data[-3] ^= 1
    first.write_bytes(data)
    with Search(topics, "alpha", Condition(), partitions=[0]) as search:
        left = as_rows(list(search))
    [missing] = search.unsearched
    assert (missing.kind, missing.offsets and missing.offsets.stop) == ("damaged", stop)
    assert first.name in missing.reason
    assert missing.offsets is not None
    assert left == [row for row in rows if row.offset < missing.offsets.start or row.offset >= stop] or (
        left == [row for row in rows if row.offset <= missing.offsets.start or row.offset >= stop]
    )
    assert 0 < len(left) < len(rows)
