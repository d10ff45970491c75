"""Rows of Python programs, appended and compared with what is read back."""

from __future__ import annotations

import errno
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyspark_commitlog import Producer, append, follow, read_table
from pyspark_commitlog.arrow import producer as module
from pyspark_commitlog.arrow.producer import Appended
from pyspark_commitlog.storage import (
    BinaryColumn,
    Codec,
    InvalidConfigError,
    InvalidTopicError,
    LogManager,
    NotALogDirError,
    RecordValidationError,
    StorageError,
    TopicExistsError,
    partitions_of,
)
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from tests.support.disk.faulty_filesystem import FaultyFileSystem, Rule, fail


def rows_of(path: str, topic: str = "t", **columns: Any) -> list[dict[str, Any]]:
    names = ["partition", "offset", "key", "value", "headers", "timestamp"]
    return read_table(path, topic, columns=names, **columns).to_pylist()


def test_a_row_is_a_dict_or_a_tuple_and_is_read_as_it_was_given(log_dir: str) -> None:
    time = datetime(2026, 11, 21, 6, 0, 0, 123_999, tzinfo=timezone(timedelta(hours=2)))
    time_ms = int(time.timestamp() * 1000)
    before = datetime.now(UTC).replace(microsecond=0)
    rows = [
        {"key": "ключ", "value": "v", "headers": {"a": b"1", "b": None}, "timestamp": time},
        (b"k", None),
        ("k", bytearray(b"x"), [("h", "text"), ("h", memoryview(b"twice"))], time_ms),
        {"value": b"", "timestamp": np.int64(7)},
        ("k", "v", None, None, 0),
    ]
    assert append(log_dir, "t", rows) == [Appended("t", 0, 0, 4, 5)]
    found = rows_of(log_dir)
    assert [row["key"] for row in found] == ["ключ".encode(), b"k", b"k", None, b"k"]
    assert [row["value"] for row in found] == [b"v", None, b"x", b"", b"v"]
    assert [row["headers"] for row in found] == [
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        None,
        [{"key": "h", "value": b"text"}, {"key": "h", "value": b"twice"}],
        None,
        None,
    ]
    times = [row["timestamp"] for row in found]
    assert times[0] == times[2] == datetime.fromtimestamp(time_ms / 1000, UTC)
    assert times[3] == datetime.fromtimestamp(0.007, UTC)
    assert all(before <= times[row] <= datetime.now(UTC) for row in (1, 4))


def test_keys_lie_where_kafkas_producer_puts_them_and_a_given_partition_counts(log_dir: str) -> None:
    keys = [b"key %d" % number for number in range(50)]
    append(log_dir, "t", [(key, None) for key in keys], partitions=4)
    expected = partitions_of(BinaryColumn.from_list(list(keys)), 4).tolist()
    assert {row["key"]: row["partition"] for row in rows_of(log_dir)} == dict(zip(keys, expected, strict=True))
    append(log_dir, "own", [{"key": key, "value": key, "partition": 2} for key in keys], partitions=4)
    assert [row["key"] for row in rows_of(log_dir, "own", partition=2)] == keys


def test_rows_without_a_key_go_to_one_partition_after_the_other(log_dir: str) -> None:
    with Producer(log_dir) as producer:
        used = [producer.append("t", [(None, "a"), (None, "b")], partitions=3) for _ in range(6)]
    assert [len(each) for each in used] == [1] * 6
    assert {each.partition for [each] in used} == {0, 1, 2}


def test_many_rows_are_appended_in_portions_and_in_order(log_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PORTION_ROWS", 7)
    rows = ({"key": b"%d" % (number % 5), "value": b"%d" % number} for number in range(100))  # may be read only once
    appended = append(log_dir, "t", rows, partitions=2)
    assert sum(each.records for each in appended) == 100
    found = rows_of(log_dir)
    for each in appended:
        mine = [row for row in found if row["partition"] == each.partition]
        assert (mine[0]["offset"], mine[-1]["offset"], len(mine)) == (each.first_offset, each.last_offset, each.records)
        values = [int(row["value"]) for row in mine]
        assert values == sorted(values)
    monkeypatch.setattr(module, "PORTION_BYTES", 10)
    with Producer(log_dir) as producer:
        assert producer.append("big", [(None, b"x" * 20)] * 3) == [Appended("big", 0, 0, 2, 3)]


def test_no_rows_append_nothing_and_create_the_topic(log_dir: str) -> None:
    assert append(log_dir, "t", [], partitions=3) == []
    with LogManager.open(log_dir) as manager:
        assert manager.topic("t").partitions == (0, 1, 2)


def test_records_that_were_read_can_be_appended_to_another_topic(log_dir: str) -> None:
    rows = [{"key": f"{n}", "value": f"v{n}", "headers": {"h": "1"}, "timestamp": 10**12 + n} for n in range(20)]
    append(log_dir, "t", rows, partitions=2)
    read = read_table(
        log_dir, "t", columns=["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    )
    append(log_dir, "of-dicts", read.to_pylist(), partitions=2)
    with follow(log_dir, "t", start="earliest", timeout=0) as records:
        append(log_dir, "of-records", records, partitions=2)
    assert rows_of(log_dir, "of-dicts") == rows_of(log_dir, "of-records") == rows_of(log_dir, "t")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"key": "k"}, "row 1 has no value"),
        ({"value": 7}, "row 1 has the value 7 .int.; it must be bytes, text or None"),
        ({"value": {"a": 1}}, "row 1 has the value"),
        ({"key": 1.5, "value": b""}, "row 1 has the key 1.5"),
        ({"value": "\ud800"}, "not UTF-8"),
        ({"value": "v", "vale": 1}, "row 1 has a field 'vale' .did you mean 'value'"),
        ({"value": "v", "timestamp": datetime(2026, 1, 1)}, "without a time zone"),
        ({"value": "v", "timestamp": -1}, "milliseconds since 1970"),
        ({"value": "v", "timestamp": True}, "milliseconds since 1970"),
        ({"value": "v", "timestamp": 2**63}, "milliseconds since 1970"),
        ({"value": "v", "partition": 2}, r"row 1 .*it names partition 2; the topic has \[0, 1\]"),
        ({"value": "v", "partition": "1"}, "must be a partition's number"),
        ({"value": "v", "headers": "ab"}, "headers"),
        ({"value": "v", "headers": [("a", 1)]}, "row 1 has the header 'a' 1"),
        ({"value": "v", "headers": [(b"a", b"b")]}, "must be text"),
        ({"value": "v", "headers": ["ab"]}, "pairs"),
        ("v", "row 1 is 'v'"),
        (("v",), "a tuple of them in this order"),
        ((1, 2, 3, 4, 5, 6), "a tuple of them in this order"),
        (None, "row 1 is None"),
        ({"value": b"x" * 2_000_000}, "row 1 cannot be written to topic 't'"),
    ],
)
def test_a_row_that_cannot_be_written_is_named_and_none_is_appended(log_dir: str, row: object, message: str) -> None:
    append(log_dir, "t", [], partitions=2)
    with pytest.raises(RecordValidationError, match=message) as caught:
        append(log_dir, "t", [("k", "v"), row, ("l", "w")])
    assert [number for number, _ in caught.value.record_errors] == [1]
    assert rows_of(log_dir) == []


def test_rows_that_the_topic_refuses_are_named_by_their_place_in_the_call(
    log_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LogManager.open(log_dir, create=True) as manager:
        manager.create_topic("t", partitions=2, configs={"cleanup.policy": "compact"})
    rows = [{"key": None if number in (5, 8) else f"{number}", "value": "v"} for number in range(9)]
    with pytest.raises(RecordValidationError, match=r"row 5 .*topic 't'.*\(and 1 more rows\)") as caught:
        append(log_dir, "t", rows)
    assert [number for number, _ in caught.value.record_errors] == [5, 8]
    assert not hasattr(caught.value, "__notes__")
    monkeypatch.setattr(module, "PORTION_ROWS", 4)
    with pytest.raises(RecordValidationError, match="row 5 ") as caught:
        append(log_dir, "t", rows)
    assert caught.value.__notes__ == ["appended before this: 4 rows"]
    assert len(rows_of(log_dir)) == 4


@pytest.mark.parametrize("rows", ["abc", b"abc", {"value": "v"}, 7])
def test_rows_that_are_no_list_are_refused(log_dir: str, rows: Any) -> None:
    with pytest.raises(InvalidConfigError, match="must be a list of dicts or tuples"):
        append(log_dir, "t", rows)


def test_wrong_arguments_are_refused(log_dir: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match="'zip'; it must be one of none, gzip, snappy, lz4, zstd"):
        Producer(log_dir, compression="zip")
    with pytest.raises(InvalidTopicError):
        append(log_dir, "__consumer_offsets", [("k", "v")])
    append(log_dir, "t", [("k", "v")], partitions=2)
    with pytest.raises(TopicExistsError, match="has 2 partitions, but 3 were requested"):
        append(log_dir, "t", [("k", "v")], partitions=3)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(NotALogDirError):
        append(tmp_path / "other", "t", [("k", "v")])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_as_asked_unless_the_topic_says_otherwise(log_dir: str, codec: str) -> None:
    append(log_dir, "t", [("k", "v" * 1000)] * 10, compression=codec)
    with LogManager.open(log_dir) as manager:
        manager.create_topic("own", partitions=1, configs={"compression.type": "lz4"})
    append(log_dir, "own", [("k", "v" * 1000)] * 10, compression=codec)
    assert codec_of(log_dir, "t") == Codec[codec.upper()]
    assert codec_of(log_dir, "own") == Codec.LZ4


def codec_of(log_dir: str, topic: str) -> Codec:
    with LogManager.open(log_dir) as manager, manager.open_reader(topic, 0) as reader:
        data = reader.read(0, max_bytes=2**20)
        assert data is not None
        return Codec(int(data.window.headers.codec[0]))


@pytest.mark.parametrize("times", [1, 2])
def test_an_append_that_failed_on_the_disk_is_repeated_and_stored_once(
    log_dir: str, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    rules: list[Rule] = []
    disk, opened = FaultyFileSystem(LocalFileSystem(), rules), LogManager.open
    monkeypatch.setattr(LogManager, "open", partial(opened, filesystem=disk))
    with Producer(log_dir) as producer:
        producer.append("t", [("k", "a")])
        rules += [fail("sync", "*/t-0/*.log", error=errno.EIO) for _ in range(times)]
        assert producer.append("t", [("k", "b"), ("k", "c")]) == [Appended("t", 0, 1, 2, 2)]
        assert all(rule.struck for rule in rules)
        rules.append(fail("sync", "*/t-0/*.log", error=errno.EIO, lasting=True))
        with pytest.raises(StorageError, match="failed 3 times"):
            producer.append("t", [("k", "d")])
        rules.clear()
    assert [row["value"] for row in rows_of(log_dir)][:3] == [b"a", b"b", b"c"]


def test_spark_is_not_imported(log_dir: str) -> None:
    program = (
        "import sys; from pyspark_commitlog import append, follow\n"
        f"append({log_dir!r}, 't', [('k', 'v')])\n"
        f"print(*(record.value for record in follow({log_dir!r}, 't', start='earliest', timeout=0)))\n"
        "print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["b'v'", "False"]
