"""Dumps, compared with the output of Kafka's own tool (tests/golden/dumps), with flags, gaps and damage."""

from __future__ import annotations

import json
import re
import tarfile
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.storage.dump.layouts import Line, Part
from pyspark_commitlog.storage.dump.one_file import dump_file
from pyspark_commitlog.storage.dump.options import DumpFindings, DumpOptions
from pyspark_commitlog.storage.dump.payloads import as_text
from pyspark_commitlog.storage.errors import (
    CorruptIndexError,
    CorruptRecordError,
    LogStoreError,
    NotALogDirError,
    StorageError,
)
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.internal.internal_topics import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    TopicPartitions,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
)
from pyspark_commitlog.storage.format.tables import BinaryColumn, Records

GOLDEN = Path(__file__).parents[2] / "golden" / "dumps"
ARCHIVES = sorted(path.name.removesuffix(".tar.xz") for path in GOLDEN.glob("*.tar.xz"))
DECODERS = {
    "__consumer_offsets": "offsets",
    "__transaction_state": "transaction-log",
    "__share_group_state": "share-group-state",
    "__cluster_metadata": "cluster-metadata",
    "__remote_log_metadata": "remote-log-metadata",
}
FIRST = "0" * 20
FAILED = re.compile(r"(\S+): dump tool failed: ")


class Golden(NamedTuple):
    """Kafka's output for the files of one partition."""

    dumps: dict[str, list[str]]  # by path
    stderr: list[str]
    failed: set[str]  # paths at which the tool threw
    format: Any


def read_golden(archive: str) -> Golden:
    with tarfile.open(GOLDEN / f"{archive}.tar.xz") as tar:
        texts = {}
        for name in ("dump.txt", "stderr.txt", "format.txt"):
            member = tar.extractfile(name)
            assert member is not None
            texts[name] = member.read().decode()
    dumps: dict[str, list[str]] = {}
    for line in texts["dump.txt"].split("\n")[:-1]:
        if line.startswith("Dumping "):
            dumps[line.removeprefix("Dumping ")] = []
        dumps[list(dumps)[-1]].append(line)
    lines = texts["stderr.txt"].splitlines()
    failed = {found[1] for line in lines if (found := FAILED.match(line))}
    return Golden(dumps, [line for line in lines if not FAILED.match(line)], failed, texts["format.txt"])


GOLDENS = {archive: read_golden(archive) for archive in ARCHIVES}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files of every archive, each in a folder named after the archive."""
    root = tmp_path_factory.mktemp("dumps")
    for archive in ARCHIVES:
        with tarfile.open(GOLDEN / f"{archive}.tar.xz") as tar:
            tar.extractall(root / archive, filter="data")
    return root


@pytest.fixture
def at(unpacked: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Change to the folder of an archive, since dumps print paths as given."""
    return lambda archive: monkeypatch.chdir(unpacked / archive)


def options_for(archive: str, path: str, **flags: Any) -> DumpOptions:
    decoder: Any = DECODERS.get(path.rpartition("-")[0].rpartition("/")[2], "string")
    deep = path.endswith((".log", ".checkpoint"))
    return DumpOptions(print_data_log=deep, decoder=decoder, format=GOLDENS[archive].format, **flags)


def dumped(path: str, options: DumpOptions | None = None, findings: DumpFindings | None = None) -> list[str]:
    blocks = dump_file(path, options or DumpOptions(), findings if findings is not None else DumpFindings())
    return [line for block in blocks for line in block]


def dumped_until_damage(path: str, options: DumpOptions, findings: DumpFindings) -> tuple[list[str], bool]:
    """The lines, and whether an error ended the dump."""
    lines: list[str] = []
    try:
        for block in dump_file(path, options, findings):
            lines += block
    except LogStoreError:
        return lines, True
    return lines, False


@pytest.mark.parametrize(("archive", "path"), [(a, path) for a in ARCHIVES for path in GOLDENS[a].dumps])
def test_a_file_is_dumped_as_kafka_dumps_it(archive: str, path: str, at: Any) -> None:
    at(archive)
    lines, failed = dumped_until_damage(path, options_for(archive, path), DumpFindings())
    assert "\n".join(lines) == "\n".join(GOLDENS[archive].dumps[path])
    assert failed == (path in GOLDENS[archive].failed)


@pytest.mark.parametrize("archive", ARCHIVES)
def test_findings_are_those_of_kafka(archive: str, at: Any) -> None:
    at(archive)
    reported: list[str] = []
    for path in GOLDENS[archive].dumps:
        # Kafka's texts are of one call a file.
        findings = DumpFindings(in_words_of_4=GOLDENS[archive].format == "4.0")
        dumped_until_damage(path, options_for(archive, path), findings)
        reported += findings.lines()
    assert reported == GOLDENS[archive].stderr


def test_findings_of_many_files_follow_by_kind(at: Any) -> None:
    at("live-mismatch")
    findings = DumpFindings()
    for path in GOLDENS["live-mismatch"].dumps:
        dumped(path, options_for("live-mismatch", path), findings)
    findings.add_gaps("a.log", 3, np.array([4, 7, 9]))
    findings.add_gaps("a.log", 9, np.array([10, 20]))
    assert list(findings.lines()) == [
        *GOLDENS["live-mismatch"].stderr,
        "Non-consecutive offsets in a.log",
        "  10 is followed by 20",
        "  7 is followed by 9",
        "  4 is followed by 7",
    ]


# --- flags


@pytest.fixture
def plain(at: Any) -> str:
    """A log without anything unusual."""
    at("plain")
    return f"plain-0/{FIRST}.log"


def kafka_lines(archive: str, path: str) -> list[str]:
    return GOLDENS[archive].dumps[path]


def test_without_deep_iteration_only_batches_are_shown(plain: str) -> None:
    batches = [line for line in kafka_lines("plain", plain) if not line.startswith("|")]
    assert dumped(plain) == batches
    assert len(batches) > 2


def test_deep_iteration_shows_records_without_contents(plain: str) -> None:
    records = dumped(plain, DumpOptions(deep_iteration=True))
    assert [re.sub(r"(headerKeys: \[[^\]]*\]).*", r"\1", line) for line in kafka_lines("plain", plain)] == records


def test_skipping_metadata_leaves_key_and_payload(plain: str) -> None:
    shown = dumped(plain, DumpOptions(print_data_log=True, skip_record_metadata=True))
    assert len(shown) == len(kafka_lines("plain", plain))
    for ours, kafkas in zip(shown, kafka_lines("plain", plain), strict=True):
        if kafkas.startswith("|"):
            contents = re.sub(r".* headerKeys: \[[^\]]*\]", "", kafkas)
            assert ours == (f"|{contents}" if contents.startswith(" key:") else contents)
        else:
            assert ours == kafkas


def test_skipping_metadata_without_contents_leaves_empty_lines(plain: str) -> None:
    shown = dumped(plain, DumpOptions(deep_iteration=True, skip_record_metadata=True))
    assert {line for line in shown if not line.startswith(("Dumping", "Log", "base"))} == {""}


@pytest.mark.parametrize("max_bytes", [0, 17, 61, 5000])
def test_max_bytes_ends_at_the_last_complete_batch(plain: str, max_bytes: int) -> None:
    every = dumped(plain)
    ends = [int(re.search(r"position: (\d+)", line)[1]) + int(re.search(r"size: (\d+)", line)[1]) for line in every[2:]]  # type: ignore[index]
    expected = every[:2] + [line for line, end in zip(every[2:], ends, strict=True) if end <= max_bytes]
    assert dumped(plain, DumpOptions(max_bytes=max_bytes)) == expected


def test_verify_index_only_prints_no_entries(at: Any) -> None:
    at("live-mismatch")
    index = next(path for path in GOLDENS["live-mismatch"].dumps if path.endswith("1163.index"))
    findings = DumpFindings()
    assert dumped(index, DumpOptions(verify_index_only=True), findings) == [f"Dumping {index}"]
    assert list(findings.lines()) == GOLDENS["live-mismatch"].stderr
    time_index = index.replace(".index", ".timeindex")
    assert dumped(time_index, DumpOptions(verify_index_only=True)) == [f"Dumping {time_index}"]


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_the_sanity_check_says_so_when_it_passes(plain: str, suffix: str) -> None:
    path = plain.replace("log", suffix)
    expected = [f"Dumping {path}", f"{path} passed sanity check."]
    assert dumped(path, DumpOptions(index_sanity_check=True)) == expected


def test_the_sanity_check_refuses_a_length_that_no_entries_have(at: Any) -> None:
    at("damage-short-timeindex")
    [short] = [p for p in Path().glob("*/*.timeindex") if p.stat().st_size % 12][:1]
    with pytest.raises(CorruptIndexError, match=r"bytes are not a multiple of the entry size, 12"):
        dumped(str(short), DumpOptions(index_sanity_check=True))


def test_an_index_whose_timestamps_end_below_the_first_is_refused(plain: str, tmp_path: Path) -> None:
    for suffix in ("log", "index", "timeindex"):
        (tmp_path / f"{FIRST}.{suffix}").write_bytes(Path(plain.replace("log", suffix)).read_bytes())
    padded = tmp_path / f"{FIRST}.timeindex"
    padded.write_bytes(padded.read_bytes() + bytes(12))
    with pytest.raises(CorruptIndexError, match=r"the last timestamp 0 is below the first"):
        dumped(str(padded), DumpOptions(index_sanity_check=True))


def test_a_batch_above_max_message_size_is_not_found(plain: str) -> None:
    with pytest.raises(CorruptIndexError, match=r"entry 0 points at position \d+ of the log, where no batch begins"):
        dumped(plain.replace("log", "index"), DumpOptions(max_message_size=60))


def test_a_decoder_implies_contents(at: Any) -> None:
    at("offsets-commits")
    path = f"__consumer_offsets-1/{FIRST}.log"
    assert dumped(path, DumpOptions(decoder="offsets")) == kafka_lines("offsets-commits", path)


def test_the_layout_before_3_0_differs_in_five_places(plain: str) -> None:
    old = dumped(plain, DumpOptions(print_data_log=True, format="legacy"))
    new = dumped(plain, DumpOptions(print_data_log=True))

    def modernized(line: str) -> str:
        line = line.replace("Starting offset", "Log starting offset").replace(
            "compresscodec: NONE", "compresscodec: none"
        )
        line = line.replace("keysize:", "keySize:").replace("valuesize:", "valueSize:")
        return re.sub(r"(isControl: \w+)", r"\1 deleteHorizonMs: OptionalLong.empty", line)

    assert [modernized(line) for line in old] == new
    assert "keysize: " in old[3]
    assert "compresscodec: NONE" in old[2]


def test_the_layout_of_3_0_differs_in_two_places(plain: str) -> None:
    [_, start, batch, *_] = dumped(plain, DumpOptions(format="3.0"))
    [_, new_start, new_batch, *_] = dumped(plain)
    assert f"Log {start[0].lower()}{start[1:]}" == new_start
    assert batch == new_batch.replace(" deleteHorizonMs: OptionalLong.empty", "")


def test_the_layout_of_4_0_has_no_blank_at_the_end_of_a_producer_without_batches(at: Any) -> None:
    at("4.0-transactions")
    path = next(path for path in GOLDENS["4.0-transactions"].dumps if path.endswith("164.snapshot"))
    new, old = dumped(path, DumpOptions(format="4.0")), dumped(path)
    assert [line.rstrip() for line in old] == new
    assert old != new


def test_without_metadata_4_0_puts_a_bar_before_a_payload_without_key(at: Any) -> None:
    at("4.0-cluster-metadata")
    path = f"__cluster_metadata-0/{FIRST}.log"
    flags: Any = {"decoder": "cluster-metadata", "skip_record_metadata": True}
    new = dumped(path, DumpOptions(format="4.0", **flags))
    old = dumped(path, DumpOptions(**flags))
    assert [re.sub(r"^\|", "", line) for line in new] == old
    assert sum(line.startswith("| payload: ") for line in new) == 39  # as many as Kafka 4.3.1 prints


def test_4_0_reports_gaps_from_the_first_to_the_last_and_also_before_the_first_record(at: Any) -> None:
    at("compacted-horizon")
    for path in GOLDENS["compacted-horizon"].dumps:
        if path.endswith(".log"):
            old, new = DumpFindings(), DumpFindings(in_words_of_4=True)
            records = re.findall(r"\| offset: (\d+)", "\n".join(dumped(path, DumpOptions(deep_iteration=True), old)))
            dumped(path, DumpOptions(deep_iteration=True, format="4.0"), new)
            begins = [f"  -1 is followed by {offset}" for offset in records[:1] if offset != "0"]
            assert list(new.lines())[1:] == begins + list(old.lines())[:0:-1]


def test_json_has_the_content_of_kraft_control_records(at: Any) -> None:
    at("4.0-cluster-metadata")
    path = f"__cluster_metadata-0/{FIRST}.log"
    rows = [json.loads(line) for line in dumped(path, DumpOptions(decoder="cluster-metadata", format="json"))]
    [change] = [row["LeaderChange"] for row in rows if "LeaderChange" in row]
    assert change == {
        "version": 0,
        "leaderId": 1,
        "voters": [{"voterId": 1}],
        "grantingVoters": [{"voterId": 1}],
    }


def test_json_is_one_object_a_line_with_the_names_of_the_text(at: Any) -> None:
    at("transactions")
    path = f"txn-0/{FIRST}.log"
    rows = [json.loads(line) for line in dumped(path, DumpOptions(print_data_log=True, format="json"))]
    text = kafka_lines("transactions", path)
    assert len(rows) == len(text)
    assert [row["kind"] for row in rows[:3]] == ["note", "note", "batch"]
    for row, line in zip(rows, text, strict=True):
        if row["kind"] == "record" and row["payload"] is not None:
            assert (
                f"| offset: {row['offset']} {row['timestampType']}: {row['timestamp']} keySize: {row['keySize']} "
                in line
            )
            assert line.endswith(f" payload: {row['payload']}")
    data = next(row for row in rows if row["kind"] == "record" and row["payload"] is not None)
    assert set(data) == {
        *("kind", "offset", "timestampType", "timestamp", "keySize", "valueSize", "sequence", "headerKeys"),
        *("key", "payload"),
    }  # nothing of its batch, which has a row of its own
    markers = [row["endTxnMarker"] for row in rows if "endTxnMarker" in row]
    assert markers == re.findall(r"endTxnMarker: (\w+)", "\n".join(text))
    assert set(markers) == {"ABORT", "COMMIT"}


# --- files that are not what they should be


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for suffix in ("log", "index", "timeindex", "txnindex", "snapshot"):
        path = str(tmp_path / f"{FIRST}.{suffix}")
        with pytest.raises(StorageError, match=r"there is no such file"):
            dumped(path)
    assert list(tmp_path.iterdir()) == []  # Kafka's tool would have made an .index


def test_a_time_index_without_its_offset_index(plain: str, tmp_path: Path) -> None:
    for suffix in ("log", "timeindex"):
        (tmp_path / f"{FIRST}.{suffix}").write_bytes(Path(plain.replace("log", suffix)).read_bytes())
    with pytest.raises(StorageError, match=rf"{FIRST}\.index: there is no such file"):
        dumped(str(tmp_path / f"{FIRST}.timeindex"))


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", f"{FIRST}.log.deleted", "partition.metadata"])
def test_a_file_of_another_kind_is_skipped(name: str) -> None:
    findings = DumpFindings()
    assert dumped(name, findings=findings) == [f"Dumping {name}"]
    assert list(findings.lines()) == [f"Ignoring unknown file {name}"]


def test_a_name_without_a_base_offset(tmp_path: Path) -> None:
    (tmp_path / "abc.log").write_bytes(b"")
    with pytest.raises(NotALogDirError, match=r"abc\.log: a segment's file is named after its base offset"):
        dumped(str(tmp_path / "abc.log"))


def test_empty_files(tmp_path: Path) -> None:
    paths = {suffix: str(tmp_path / f"{FIRST}.{suffix}") for suffix in ("log", "index", "timeindex", "txnindex")}
    for path in paths.values():
        Path(path).write_bytes(b"")
    assert {suffix: dumped(path)[1:] for suffix, path in paths.items()} == {
        "log": ["Log starting offset: 0"],
        "index": [f"{paths['index']} is empty."],
        "timeindex": [],
        "txnindex": [],
    }


@pytest.mark.parametrize("size", [1, 17, 18, 60, 100])
def test_a_torn_tail_is_counted(plain: str, tmp_path: Path, size: int) -> None:
    whole = dumped(plain)
    last = int(re.search(r"position: (\d+)", whole[-1])[1])  # type: ignore[index]
    torn = tmp_path / f"{FIRST}.log"
    torn.write_bytes(Path(plain).read_bytes()[: last + size])
    assert dumped(str(torn))[1:] == [*whole[1:-1], f"Found {size} invalid bytes at the end of {FIRST}.log"]


def test_a_damaged_batch_shows_the_records_before_the_damage(plain: str, tmp_path: Path) -> None:
    kafka = kafka_lines("plain", plain)
    batches = [number for number, line in enumerate(kafka) if line.startswith("baseOffset")]
    first, second = next((a, b) for a, b in pairwise(batches) if b - a > 3)
    position, size = (int(re.search(rf" {name}: (\d+)", kafka[first])[1]) for name in ("position", "size"))  # type: ignore[index]
    data = bytearray(Path(plain).read_bytes())
    data[position + size - 1] = 0x7F  # the header count of the batch's last record
    broken = tmp_path / f"{FIRST}.log"
    broken.write_bytes(data)
    lines, failed = dumped_until_damage(str(broken), DumpOptions(print_data_log=True), DumpFindings())
    assert failed
    assert lines[1:] == [
        *kafka[1:first],
        kafka[first].replace("isvalid: true", "isvalid: false"),
        *kafka[first + 1 : second - 1],
    ]


def test_damage_is_reported_with_file_and_position(at: Any) -> None:
    at("damage-zeros")
    [path] = GOLDENS["damage-zeros"].failed
    with pytest.raises(CorruptRecordError) as caught:
        dumped(path)
    size = Path(path).stat().st_size
    assert (caught.value.path, caught.value.position) == (path, size - 4096)


def test_a_damaged_snapshot_is_remarked_upon(tmp_path: Path) -> None:
    path = tmp_path / f"{FIRST}.snapshot"
    path.write_bytes(b"\0\1" + bytes(8))
    findings = DumpFindings()
    assert dumped(str(path), findings=findings) == [f"Dumping {path}"]
    assert list(findings.lines()) == [f"{path}, position 2: checksum 0x48674bc7 does not match 0x00000000 in the file"]


@pytest.mark.parametrize("options", [DumpOptions(), DumpOptions(print_data_log=True)])
def test_a_batch_larger_than_a_window_is_read_completely(
    options: DumpOptions, monkeypatch: pytest.MonkeyPatch, plain: str
) -> None:
    """With windows of 100 bytes nearly every batch is larger."""
    expected = dumped(plain, options)
    monkeypatch.setattr("pyspark_commitlog.storage.dump.files.WINDOW_BYTES", 100)
    monkeypatch.setattr("pyspark_commitlog.storage.dump.files.HEADERS_WINDOW_BYTES", 100)
    assert dumped(plain, options) == expected


LINE = Line(Part("%d", "number"), Part(" 100 %% %s", "word"), Part(" %s", "flag", str))
ROWS = st.lists(st.tuples(st.integers(0, 1), st.sampled_from(["%", "%d", "%%"]), st.booleans()), max_size=4)


@given(ROWS)
def test_lines_are_the_same_whether_rows_are_alike_or_not(rows: list[tuple[int, str, bool]]) -> None:
    columns = {name: [row[i] for row in rows] for i, name in enumerate(("number", "word", "flag"))}
    assert LINE.format(columns) == [f"{number} 100 % {word} {flag}" for number, word, flag in rows]


def test_an_abandoned_dump_closes_its_file(plain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With windows of 100 bytes, so that most of the file is still unread."""
    monkeypatch.setattr("pyspark_commitlog.storage.dump.files.HEADERS_WINDOW_BYTES", 100)
    threads = threading.active_count()
    blocks = dump_file(plain, DumpOptions(), DumpFindings())
    assert [next(blocks) for _ in range(3)][-1][0].startswith("baseOffset: 0 ")
    assert threading.active_count() == threads + 1
    blocks.close()
    assert threading.active_count() == threads


def test_many_compressed_batches_are_not_decompressed_together(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    at("zstd")
    path = next(path for path in GOLDENS["zstd"].dumps if path.endswith(".log"))
    monkeypatch.setattr("pyspark_commitlog.storage.dump.log.COMPRESSED_BYTES_MAX", 1)
    blocks = list(dump_file(path, DumpOptions(print_data_log=True), DumpFindings()))
    assert [line for block in blocks for line in block] == kafka_lines("zstd", path)
    assert len(blocks) == 2 + sum(line.startswith("baseOffset") for line in kafka_lines("zstd", path))


# --- records of internal topics


def log_of(tmp_path: Path, rows: list[tuple[bytes, bytes | None]]) -> str:
    """A log with one batch of these keys and values."""
    records = Records(
        offsets=np.arange(len(rows), dtype=np.int64),
        timestamps=np.zeros(len(rows), dtype=np.int64),
        timestamp_types=np.zeros(len(rows), dtype=np.int8),
        keys=BinaryColumn.from_list([key for key, _ in rows]),
        values=BinaryColumn.from_list([value for _, value in rows]),
        headers=None,
    )
    path = tmp_path / f"{FIRST}.log"
    path.write_bytes(v2.encode(records, v2.BatchFields()).tobytes())
    return str(path)


def contents(lines: list[str]) -> list[str]:
    return [line.partition("headerKeys: [] ")[2] for line in lines if line.startswith("|")]


def test_tombstones_unknown_kinds_and_broken_values_of_groups_are_shown(tmp_path: Path) -> None:
    key = OffsetCommitKey("g", "t", 3).encode()
    expiring = OffsetCommitValue(5, 'm"\x1f\\', 7, expire_timestamp=9).encode()
    rows = [(key, None), (b"\0\x63xx", b"\0\0"), (key, b"\0\0\0"), (key, expiring)]
    shown_key = 'key: {"type":"1","data":{"group":"g","topic":"t","partition":3}}'
    assert contents(dumped(log_of(tmp_path, rows), DumpOptions(decoder="offsets"))) == [
        f"{shown_key} payload: <DELETE>",
        "key: Unknown record type 99 at offset 1, skipping.",
        "key: Error at offset 2, skipping. position 2: a length field states 8 bytes, but only 1 remain",
        f'{shown_key} payload: {{"version":"1","data":{{"offset":5,"metadata":"m\\"\\u001F\\\\","commitTimestamp":7,'
        '"expireTimestamp":9}}',
    ]


def test_a_member_of_another_protocol_is_shown_in_base64(tmp_path: Path) -> None:
    member = MemberMetadata("m", "c", "/h", 1, subscription=b"\1\2", assignment=b"")
    value = GroupMetadataValue("connect", 3, None, None, (member,)).encode()
    path = log_of(tmp_path, [(GroupMetadataKey("g").encode(), value)])
    [shown] = contents(dumped(path, DumpOptions(decoder="offsets")))
    assert '"subscription":"AQI=","assignment":""' in shown


KAFKAS_ORDERS = [
    (
        "small-3-0,small-3-2,small-2-1,small-1-0,small-3-1,small-2-0,small-1-2,small-0-1,small-2-2,"
        "small-1-1,small-0-0,small-0-2"
    ),
    (
        "large-0-2,large-1-3,large-0-3,large-1-4,large-0-0,large-1-1,large-0-1,large-1-2,large-0-6,"
        "large-1-7,large-0-7,large-1-8,large-0-4,large-1-5,large-0-5,large-1-6,large-0-8,large-1-9,"
        "large-0-9,large-1-0"
    ),
]


def test_partitions_of_a_transaction_are_in_the_order_of_kafkas_hash_set(tmp_path: Path) -> None:
    """Kafka 3.9.1 printed the expected orders for these partitions."""
    rows: list[tuple[bytes, bytes | None]] = [(TransactionLogKey("gone").encode(), None), (b"\0\x07x", b"")]
    for name, counts in (("small", (3, 3, 3, 3)), ("large", (10, 10))):
        topics = tuple(TopicPartitions(f"{name}-{n}", tuple(range(count))) for n, count in enumerate(counts))
        value = TransactionLogValue(5, 1, 60000, TransactionState.PREPARE_EPOCH_FENCE, topics, 17, 16)
        rows.append((TransactionLogKey(name).encode(), value.encode()))
    lines = contents(dumped(log_of(tmp_path, rows), DumpOptions(decoder="transaction-log")))
    assert lines[:2] == ["key: transaction_metadata::transactionalId=gone payload: <DELETE>", "key: unknown::version=7"]
    orders = [re.search(r"state=PrepareEpochFence,partitions=\[(.*?)\]", line) for line in lines[2:]]
    assert [order and order[1] for order in orders] == KAFKAS_ORDERS


# --- text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(b"abc", "abc", id="ascii"),
        pytest.param("höher".encode(), "höher", id="two bytes"),
        pytest.param(b"a\xffb", "a\ufffdb", id="no UTF-8"),
        pytest.param(b"a\xe2\x82", "a\ufffd", id="cut inside a character"),
        pytest.param(b"\xed\xa0\x80b", "\ufffdb", id="half of a surrogate pair is one, as in Java"),
        pytest.param(b"\xed\xa0b", "\ufffdb", id="half of that"),
        pytest.param(b"\xe1\x80\xed\xbf\xbf", "\ufffd\ufffd", id="behind another that is cut"),
    ],
)
def test_bytes_become_text_as_in_java(data: bytes, text: str) -> None:
    assert as_text(BinaryColumn.from_list([data, None, b"x"])) == [text, None, "x"]


def test_no_golden_file_is_missing_from_the_tests() -> None:
    def kinds() -> Iterator[str]:
        for golden in GOLDENS.values():
            yield from (path.rpartition(".")[2] for path in golden.dumps)

    assert set(kinds()) == {"log", "checkpoint", "index", "timeindex", "txnindex", "snapshot"}
    assert sum(len(golden.failed) for golden in GOLDENS.values()) > 5
