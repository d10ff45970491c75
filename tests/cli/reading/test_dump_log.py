"""``commitlog dump-log``: what an article on Kafka's storage printed of its log, from records that we append.

The log of the Strimzi Canary in "Deep dive into Apache Kafka storage internals: segments, rolling and retention":
a record every five seconds, in a topic with segments of 16,384 bytes. ``log.txt`` has the lines that the article shows;
their checksums are those of the records' bytes. Its time index is from another run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.storage import BatchFields, LogManager, encode_batches
from tests.cli.in_process import commitlog
from tests.support.logs.building import records

GOLDEN = Path(__file__).parents[2] / "golden/dumps/canary"
TOPIC = "__strimzi_canary"
RECORDS = 109  # in the first segment
BEGUN_MS = 1639132508991
TIMES_MS = {0: BEGUN_MS, 1: 1639132514555, 2: 1639132519561, 107: 1639133044553, 108: 1639133049552}  # in log.txt
INDEXED_MS = {28: 1638100314372, 56: 1638100454372, 84: 1638100594371}  # in timeindex.txt


def write(directory: Path, times_ms: dict[int, int]) -> Path:
    """Appends the canary's records, five seconds apart but for the known times; returns the path of the segment."""
    begun_ms = min(time_ms - 5000 * offset for offset, time_ms in times_ms.items())
    with LogManager.open(str(directory), create=True) as manager:
        manager.create_topic(TOPIC, partitions=1, configs={"segment.bytes": "16384"})
        log = manager.open_log(TOPIC, 0)
        for offset in range(RECORDS):
            time_ms = times_ms.get(offset, begun_ms + 5000 * offset)
            identity = 1 + 3 * offset
            value = b'{"producerId":"strimzi-canary-client","messageId":%d,"timestamp":%d}' % (identity, time_ms)
            fields = BatchFields(leader_epoch=0, base_sequence=0)
            log.append(encode_batches(records([value], timestamps=time_ms), fields, batch_bytes_max=1000).buffer)
        return Path(log.segments.active.path(".log"))


def dumped(path: Path) -> list[str]:
    flags = ("--format", "legacy", "--deep-iteration", "--print-data-log", "--files", path)
    done = commitlog("dump-log", *flags)
    assert (done.code, done.stderr) == (0, "")
    first, *lines = done.stdout.splitlines()
    assert first == f"Dumping {path}"
    return lines


def test_the_lines_of_the_log_are_those_of_the_article(tmp_path: Path) -> None:
    lines = dumped(write(tmp_path / "log", TIMES_MS))
    assert len(lines) == 1 + 2 * RECORDS
    assert lines[:6] + lines[-3:] == (GOLDEN / "log.txt").read_text().splitlines()


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_the_entries_of_an_index_are_those_of_the_article(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path / "log", INDEXED_MS).with_suffix(f".{kind}")
    shown = (GOLDEN / f"{kind}.txt").read_text().splitlines()
    assert dumped(path)[: len(shown)] == shown
