"""Log directories that brokers of Kafka 4.3.1, 3.9.1 and 2.8.2 wrote, and what Kafka's own consumer read from them."""

from __future__ import annotations

import atexit
import base64
import json
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.format.files import checkpoints, file_names
from pyspark_commitlog.storage.format.tables import Records
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.reader import LogReader
from tests.support.clock import ManualClock

GOLDEN = Path(__file__).parents[2] / "golden"
SCENARIOS = tuple(sorted(path.name.removesuffix(".tar.xz") for path in (GOLDEN / "broker-dirs").glob("*.tar.xz")))
BROKER_CONFIGS = {"segment.index.bytes": "16384"}  # the broker's own default differed from Kafka's
INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}

Row = tuple[int, int, str, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


@cache
def _unpacked(archive: Path) -> Path:
    folder = tempfile.mkdtemp(prefix="broker-dirs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return Path(folder)


def scenario(name: str) -> Path:
    """The folder of a scenario, unpacked once a run: to look at only."""
    return _unpacked(GOLDEN / "broker-dirs" / f"{name}.tar.xz")


def stage(name: str) -> Path:
    """The folder of a stage, as ``transactions/final``; to look at only."""
    return scenario(name.partition("/")[0]) / name.partition("/")[2]


def legacy() -> Path:
    """The folder of the 2.8.2 broker, with ``log`` and ``dumps``; to look at only."""
    return _unpacked(GOLDEN / "legacy-dirs" / "kafka-2.8.2.tar.xz")


def oldest() -> Path:
    """The log directory of the 0.8.2.2 broker; to look at only."""
    return _unpacked(GOLDEN / "legacy-dirs" / "kafka-0.8.2.2.tar.xz") / "log"


def settings(name: str) -> Any:
    """What ``settings.json`` of a scenario says.

    Kafka 4 takes small segments by ``internal.segment.bytes`` only, a setting of its own tests: here it is
    ``segment.bytes``, which means the same.
    """
    found = json.loads((scenario(name) / "settings.json").read_text())
    for topic in found["topics"].values():
        configs = topic["configs"]
        if INTERNAL_SEGMENT_BYTES in configs:
            configs["segment.bytes"] = configs.pop(INTERNAL_SEGMENT_BYTES)
    return found


def consumed(name: str) -> dict[str, Any]:
    """What Kafka's consumer returned of each partition of a stage; empty where none was asked."""
    path = stage(name) / "consumed.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def copy_to(target: Path, name: str) -> Path:
    """A copy of a stage's log directory to write to, its topics known to us with the configs they had."""
    shutil.copytree(stage(name) / "log", target)
    topics = settings(name.partition("/")[0])["topics"]
    adopt(target, {topic: described["configs"] for topic, described in topics.items()})
    return target


def adopt(directory: Path, configs: Mapping[str, Mapping[str, str]]) -> None:
    """Write a ``topics.json`` that gives the topics of a broker's directory their configs."""
    found: dict[str, Any] = {}
    for path in sorted(directory.iterdir()):
        partition = file_names.parse_partition_directory(path.name) if path.is_dir() else None
        if partition is not None and partition.kind == "plain" and partition.topic in configs:
            topic = found.setdefault(partition.topic, {"id": _topic_id(path), "partitions": 0})
            topic["partitions"] = max(topic["partitions"], partition.partition + 1)
            topic["configs"] = {**BROKER_CONFIGS, **configs[partition.topic]}
    (directory / "topics.json").write_text(json.dumps({"version": 1, "topics": found}))


def _topic_id(partition: Path) -> str:
    data = (partition / file_names.PARTITION_METADATA_FILE).read_bytes()
    return checkpoints.encode_id(checkpoints.decode_partition_metadata(data))


def open_manager(directory: Path) -> LogManager:
    """At a time when no producer has expired."""
    return LogManager.open(str(directory), clock=ManualClock())


def topic_partition(name: str) -> tuple[str, int]:
    """``txn-old-0`` is ("txn-old", 0)."""
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


def rows(reader: LogReader, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> list[Row]:
    """Every record a reader sees, as Kafka's consumer returned them."""
    found: list[Row] = []
    for part in reader.records(reader.log_start_offset, reader.log_end_offset, isolation=isolation):
        found += rows_of(part)
    return found


def rows_of(part: Records) -> list[Row]:
    """The records of a table, as Kafka's consumer returned them."""
    assert part.keys is not None
    assert part.values is not None
    headers: list[list[tuple[str, bytes | None]]] = [[] for _ in range(len(part))]
    if part.headers is not None:
        keys = [(key or b"").decode() for key in part.headers.keys.to_list()]
        pairs = list(zip(keys, part.headers.values.to_list(), strict=True))
        headers = [pairs[first:last] for first, last in pairwise(part.headers.offsets.tolist())]
    types = [TIMESTAMP_TYPES[each] for each in part.timestamp_types.tolist()]
    columns = (part.offsets.tolist(), part.timestamps.tolist(), types, part.keys.to_list(), part.values.to_list())
    return list(zip(*columns, headers, strict=True))


def expected_rows(records: list[Any]) -> list[Row]:
    """The records of ``consumed.json``."""
    return [
        (offset, timestamp, kind, decoded(key), decoded(value), [(name, decoded(text)) for name, text in headers])
        for offset, timestamp, kind, key, value, headers in records
    ]


def decoded(text: str | None) -> bytes | None:
    """Base64, or None."""
    return None if text is None else base64.b64decode(text)


def files(partition: Path) -> dict[str, bytes]:
    """What a partition's directory holds, lock files and what awaits its deletion left out."""
    return {
        path.name: path.read_bytes()
        for path in sorted(partition.iterdir())
        if path.is_file() and path.name[0] != "." and not path.name.endswith(file_names.DELETED)
    }
