"""What makes a reader trust a batch: its checksum, and its position among its neighbours."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from pyspark_commitlog.storage.errors import CorruptionError
from pyspark_commitlog.storage.format.tables import Records
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.reader import LogReader
from tests.support.kafka import broker_dirs
from tests.support.logs.building import NOW_MS, open_log, rows


@pytest.mark.parametrize("name", ["transactions/final:txn-1", "plain/final:plain-1", "codecs/final:codec-zstd-0"])
def test_a_flipped_bit_gives_the_same_records_or_an_error(name: str, tmp_path: Path) -> None:
    stage, _, partition = name.partition(":")
    directory = tmp_path / "log"
    shutil.copytree(broker_dirs.stage(stage) / "log", directory)
    chance = random.Random(1)
    logs = [path for path in (directory / partition).glob("*.log") if path.stat().st_size]

    def reading() -> object:
        with broker_dirs.open_manager(directory) as manager:
            reader = manager.open_reader(*broker_dirs.topic_partition(partition))
            return [broker_dirs.rows(reader, isolation) for isolation in Isolation]

    sound = reading()
    for _ in range(40):
        log = chance.choice(logs)
        data = log.read_bytes()
        changed = bytearray(data)
        changed[chance.randrange(61 if chance.random() < 0.5 else len(data))] ^= 1 << chance.randrange(8)
        log.write_bytes(changed)
        try:
            found = reading()
        except CorruptionError:
            found = sound
        assert found == sound
        log.write_bytes(data)


def test_damage_before_sound_batches_is_reported_without_a_recovery_point(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        for value in (b"a", b"b", b"c"):
            log.append_records(Records.to_append([b"k"], [value], NOW_MS))
    path = tmp_path / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    reader = LogReader.open(str(tmp_path))
    with pytest.raises(CorruptionError, match="position"):
        rows(reader)
