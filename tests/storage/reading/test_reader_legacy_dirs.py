"""The directory of a 2.8.2 broker, with message formats 0, 1 and 2, compared with its own dump tool's output."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from pyspark_commitlog.storage.format.files import checkpoints, file_names
from pyspark_commitlog.storage.reading.aborted import Isolation
from tests.support.kafka import broker_dirs
from tests.support.logs.building import records

PARTITIONS = sorted(path.name for path in (broker_dirs.legacy() / "log").iterdir() if path.is_dir())

# | offset: 7 isValid: true crc: null keySize: 4 valueSize: 36 CreateTime: 1599999999059 … key: k1-0 payload: s1/0 …
RECORD = re.compile(r"\| offset: (\d+) .*?keySize: (-?\d+) valueSize: (-?\d+) (\w+): (-?\d+) ")
HEADER_KEYS = re.compile(r" headerKeys: \[([^]]+)\]")
# offset, timestamp, its type, sizes of key and value (-1: null), header keys, key and value
Dumped = tuple[int, int, str, int, int, list[str], str]


def dumped(partition: str) -> list[Dumped]:
    """The data records that the dump tool printed."""
    found: list[Dumped] = []
    for path in sorted((broker_dirs.legacy() / "dumps" / partition).glob("*.log.dump.txt")):
        for line in path.read_text(errors="replace").split("\n"):
            record = RECORD.match(line)
            if record and " endTxnMarker: " not in line:
                offset, key_size, value_size, kind, timestamp = record.groups()
                headers = HEADER_KEYS.search(line)
                text = "" if partition.startswith("__") else line[line.index(" key: ") :]
                sizes = int(key_size), int(value_size)
                found.append(
                    (int(offset), int(timestamp), kind, *sizes, headers[1].split(",") if headers else [], text)
                )
    return found


def as_dumped(row: broker_dirs.Row, partition: str) -> Dumped:
    offset, timestamp, kind, key, value, headers = row
    sizes = [-1 if text is None else len(text) for text in (key, value)]
    text = "" if value is None else f" payload: {value.decode(errors='replace')}"
    text = "" if partition.startswith("__") else f" key: {(key or b'').decode()}{text}"
    return offset, timestamp, kind, sizes[0], sizes[1], [name for name, _ in headers], text


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_record_is_read_that_the_brokers_own_dump_shows(partition: str) -> None:
    with broker_dirs.open_manager(broker_dirs.legacy() / "log") as manager:
        reader = manager.open_reader(*broker_dirs.topic_partition(partition))
        found = broker_dirs.rows(reader)
    assert [as_dumped(row, partition) for row in found] == dumped(partition)


def test_one_segment_holds_all_message_formats_and_codecs() -> None:
    with broker_dirs.open_manager(broker_dirs.legacy() / "log") as manager:
        reader = manager.open_reader("upgraded", 0)
        tables = [window.headers for segment in reader.segments for window in segment.batches()]
    assert {int(magic) for headers in tables for magic in headers.table["magic"]} == {0, 1, 2}
    assert {int(codec) for headers in tables for codec in headers.codec} == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("partition", [name for name in PARTITIONS if name.startswith("v2-txn")])
def test_records_of_aborted_transactions_are_hidden(partition: str) -> None:
    """Those in the dump of the transaction indexes: of a producer, from a first to a last offset."""
    folder = broker_dirs.legacy() / "dumps" / partition
    text = "".join(path.read_text() for path in sorted(folder.glob("*.txnindex.dump.txt")))
    pattern = r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+)"
    aborted = [tuple(map(int, found)) for found in re.findall(pattern, text)]
    hidden: set[int] = set()
    with broker_dirs.open_manager(broker_dirs.legacy() / "log") as manager:
        reader = manager.open_reader(*broker_dirs.topic_partition(partition))
        for segment in reader.segments:
            for window in segment.batches():
                table = window.headers.table
                for producer_id, first, last in aborted:
                    rows = (table["producer_id"] == producer_id) & (table["base_offset"] >= first)
                    for batch in table[rows & (table["last_offset"] < last)]:
                        hidden.update(range(batch["base_offset"], batch["last_offset"] + 1))
        everything = broker_dirs.rows(reader)
        assert broker_dirs.rows(reader, Isolation.READ_COMMITTED) == [row for row in everything if row[0] not in hidden]
    assert len(hidden) > 50


@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_log_of_an_older_kafka_is_opened_without_a_change_and_written_to(tmp_path: Path, partition: str) -> None:
    directory = tmp_path / "log"
    shutil.copytree(broker_dirs.legacy() / "log" / partition, directory / partition)
    for name in (
        file_names.RECOVERY_POINT_CHECKPOINT,
        file_names.LOG_START_OFFSET_CHECKPOINT,
        file_names.CLEANER_OFFSET_CHECKPOINT,
    ):
        shutil.copy(broker_dirs.legacy() / "log" / name, directory / name)
    before = broker_dirs.files(directory / partition)
    topic, number = broker_dirs.topic_partition(partition)
    with broker_dirs.open_manager(directory) as manager:
        log = manager.open_log(topic, number)
        held, end = broker_dirs.rows(log), log.log_end_offset
    logs = {
        name: data
        for name, data in before.items()
        if name.endswith((file_names.LOG, file_names.INDEX, file_names.TXN_INDEX))
    }
    assert logs.items() <= broker_dirs.files(directory / partition).items()
    marks = checkpoints.decode_offsets((directory / file_names.RECOVERY_POINT_CHECKPOINT).read_bytes())
    assert marks.get((topic, number), 0) == end
    with broker_dirs.open_manager(directory) as manager:
        log = manager.open_log(topic, number)
        log.append_records(records([b"new"], keys=[b"key"]))
    with broker_dirs.open_manager(directory) as manager:
        found = broker_dirs.rows(manager.open_log(topic, number))
    assert found[:-1] == held
    assert (found[-1][0], found[-1][4]) == (end, b"new")
