"""Files of key filters: read, changed and written by tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark_commitlog.storage import (
    LogManager,
    MaintenanceRun,
    PartitionOutcome,
    Records,
    filter_partitions,
    in_this_process,
    select_partitions,
)
from pyspark_commitlog.storage.key_filters.filter_file import FilterFile, KeyFilter, encode
from tests.support.logs.building import now_ms

SEGMENTS, RECORDS = 12, 202  # of the log that is made, and of each segment


class BytesFile:
    """A file in memory, which can be read."""

    def __init__(self, data: bytes, path: str = "f") -> None:
        self._data, self.path = data, path

    def size(self) -> int:
        return len(self._data)

    def read(self, position: int, length: int) -> memoryview:
        return memoryview(self._data)[position : position + length]


def filters_in(data: bytes) -> list[KeyFilter]:
    """Returns the filters of a file. Raises CorruptionError for damage."""
    file = FilterFile(BytesFile(data))  # type: ignore[arg-type]
    return [file.filter(row) for row in range(len(file))]


def changed(path: Path, change: Callable[[KeyFilter], KeyFilter], number: int) -> None:
    """Changes one of the filters in a file, which stays a sound file."""
    filters = filters_in(path.read_bytes())
    filters[number] = change(filters[number])
    path.write_bytes(encode(filters))


def made_log(path: Path) -> None:
    """Topic t, of one partition with 12 closed segments; key n is in segments n, n + 4 and n + 8. It has filters."""
    with LogManager.open(str(path), create=True) as manager:
        manager.create_topic("t", partitions=1, configs={"keyfilter.enable": "true", "segment.bytes": "50000"})
        for batch in range(SEGMENTS):
            keys: list[bytes | None] = [b"key %d" % (batch % 4), *(b"%d in %d" % (n, batch) for n in range(200)), None]
            manager.open_log("t", 0).append_records(Records.to_append(keys, [b"v" * 60] * len(keys), now_ms()))
            manager.open_log("t", 0).roll()
    assert [str(each) for each in run_filters(path)] == ["t-0: made filters of 12 segments, 3,420 bytes, 0 kept"]


def run_filters(path: Path, **options: bool) -> list[PartitionOutcome]:
    run = MaintenanceRun(str(path), **options)  # type: ignore[arg-type]
    with run.manager() as manager:
        selection = select_partitions(manager, (), run.overrides)
    return list(filter_partitions(run, selection, in_this_process))


def filter_files(path: Path) -> list[Path]:
    return sorted(path.glob("t-0/*.keyfilter"))


def flipped(path: Path, at: float = 0.5) -> None:
    """Changes a bit at this part of a file."""
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 1
    path.write_bytes(data)


def rewritten(path: Path) -> None:
    """Another file of the same content, as a restored one."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
