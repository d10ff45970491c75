"""Each of Kafka's record sets alone in a partition's directory: read like Kafka's file reader reads it, or refused.

No other file shows how far it once reached. None is silently cut short; where Kafka's reader continues and ours stops,
docs/compatibility_damage.md gives the reason.
"""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import LogStoreError
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.reading.aborted import Isolation
from tests.support.clock import ManualClock
from tests.support.disk.frozen_filesystem import FrozenFileSystem
from tests.support.logs import record_sets

# Refused here, but read by Kafka as a whole or up to where it silently stops (docs/compatibility_damage.md).
VANISHING = "records would vanish"
FUTURE = "a message format that this engine does not know"
NO_BATCH = "what lies at the end is no beginning of a batch"
SOUND_BEHIND = "sound batches lie behind"
OFFSETS = "offsets go back, overlap, or cannot be; or those in a wrapper do not go with its own"
STRICTER: dict[str, tuple[str, ...]] = {
    VANISHING: (
        "corrupt-v0-wrapper-inner-torn", "corrupt-v1-wrapper-inner-torn", "corrupt-v2-count-zero-gzip-crc-fixed",
        "corrupt-v2-count-zero-none-crc-fixed",
    ),
    FUTURE: ("corrupt-v2-magic-127", "corrupt-v2-magic-3", "corrupt-v2-magic-3-crc-fixed"),
    NO_BATCH: ("corrupt-file-random-at-end", "corrupt-file-text"),
    SOUND_BEHIND: (
        "corrupt-v0-size-beyond-file", "corrupt-v1-size-beyond-file", "corrupt-v2-length-beyond-file",
        "corrupt-v2-length-int-max", "corrupt-v2-length-int-max-less-12",
    ),
    OFFSETS: (
        "corrupt-file-offsets-go-back", "corrupt-file-offsets-overlap", "corrupt-v0-wrapper-offset-below-inner",
        "corrupt-v0-wrapper-inner-crc", "corrupt-v0-wrapper-inner-offsets-equal",
        "corrupt-v0-wrapper-inner-other-magic", "corrupt-v0-wrapper-lz4-checksum-garbage",
        "corrupt-v0-wrapper-lz4-checksum-of-other-magic",
        "corrupt-v0-wrapper-offset-zero", "corrupt-v0-wrapper-with-key", "corrupt-v1-wrapper-inner-offsets-equal",
        "corrupt-v1-wrapper-offset-zero", "corrupt-v2-base-offset-changed",
        "corrupt-v2-base-offset-negative", "corrupt-v2-last-offset-delta-negative-crc-fixed",
        "corrupt-v2-last-offset-delta-too-large-crc-fixed",
    ),
}  # fmt: skip
REFUSED = {name for refused in STRICTER.values() for name in refused}
# Kafka's file reader fails at the control record that ends a transaction; readers of data skip control records.
MALFORMED_MARKERS = "corrupt-v2-control-"

Row = tuple[int, int, Any, Any]  # offset, time, key, value


def partition(name: str) -> FrozenFileSystem:
    batches = record_sets.load(name)["batches"]
    base = max(batches[0]["baseOffset"], 0) if batches else 0
    return FrozenFileSystem(
        {f"/logs/t-0/{file_names.segment_file(base, file_names.LOG)}": record_sets.log_bytes(name).tobytes()}
    )


def by_kafka(name: str) -> list[Row]:
    """The records of the batches that Kafka's file reader went through."""
    return [
        (record["offset"], record["timestamp"], _told(record, "key"), _told(record, "value"))
        for batch in record_sets.load(name)["batches"]
        if not batch["isControl"]
        for record in batch["records"]
    ]


def _told(record: dict[str, Any], name: str) -> object:
    return record[f"{name}Sha256"] if f"{name}Sha256" in record else record[f"{name}Base64"]


def by_us(name: str) -> list[Row]:
    found: list[Row] = []
    manager = LogManager.open("/logs", clock=ManualClock(), filesystem=partition(name))
    with manager, manager.open_reader("t", 0) as reader:
        end = reader.end_offset(Isolation.READ_UNCOMMITTED)
        for part in reader.records(reader.log_start_offset, end, isolation=Isolation.READ_UNCOMMITTED):
            assert part.keys is not None
            assert part.values is not None
            columns = [map(_text, column.to_list()) for column in (part.keys, part.values)]
            found += zip(part.offsets.tolist(), part.timestamps.tolist(), *columns, strict=True)
    return found


def _text(data: bytes | None) -> object:
    if data is not None and len(data) > record_sets.LONG:
        return hashlib.sha256(data).hexdigest()
    return record_sets._base64(data)


@pytest.mark.parametrize("name", record_sets.names())
def test_a_record_set_alone_reads_as_kafka_reads_it_or_is_refused(name: str, caplog: pytest.LogCaptureFixture) -> None:
    kafka, expected = record_sets.load(name), by_kafka(name)
    try:
        found = by_us(name)
    except LogStoreError:
        assert kafka.get("error") or name in REFUSED
        return
    assert name not in REFUSED
    if name.startswith(MALFORMED_MARKERS) and kafka["error"]:
        assert found[: len(expected)] == expected
        return
    assert found == expected
    is_all = kafka["validBytes"] == len(record_sets.log_bytes(name))
    assert is_all or caplog.records, "what lies behind was passed over without a word"
