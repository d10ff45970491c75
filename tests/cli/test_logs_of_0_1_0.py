"""A log directory of version 0.1.0 is read, checked and written as it is (tests/golden/commitlog-0.1.0)."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from pyspark_commitlog import append, read_table
from tests.cli.in_process import commitlog
from tests.support.gateway import serving

ARCHIVE = Path(__file__).parents[1] / "golden" / "commitlog-0.1.0" / "log.tar.xz"
TIMEOUT_S = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


def records(log: Path, topic: str) -> list[list[Any]]:
    """A topic's records as ``records.json`` has them."""
    rows = read_table(str(log), topic).sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist()
    return [
        [row["partition"], row["offset"], row["timestamp"].timestamp(), _text(row["key"]), _text(row["value"])]
        for row in rows
    ]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def test_every_record_is_read_as_0_1_0_read_it(folder: Path) -> None:
    for topic, expected in json.loads((folder / "records.json").read_text()).items():
        assert records(folder / "log", topic) == expected, topic


def test_groups_stand_where_they_stood(folder: Path) -> None:
    done = commitlog("groups", "--log-dir", folder / "log", "--describe", "--all-groups", "--json")
    assert offsets(done.stdout) == offsets((folder / "groups.json").read_text())


def offsets(lines: str) -> list[tuple[Any, ...]]:
    columns = ("group", "topic", "partition", "current_offset")
    return [tuple(json.loads(line)[column] for column in columns) for line in lines.splitlines()]


def test_it_is_sound_before_and_after_more_is_written(folder: Path) -> None:
    log = folder / "log"
    assert commitlog("verify", "--log-dir", log).code == 0
    append(str(log), "packed", [("k", "more")])
    with serving(log) as gateway:
        producer = Producer({"bootstrap.servers": "{}:{}".format(*gateway.address), "transactional.id": "till"})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce("paid", b"later", partition=0)
        producer.commit_transaction(TIMEOUT_S)
    newest = records(log, "packed")[-1]
    assert (newest[1], newest[3], newest[4]) == (200, "k", "more")
    assert [row[4] for row in records(log, "paid")].count("later") == 1
    assert commitlog("verify", "--log-dir", log).code == 0
