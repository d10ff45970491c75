"""Key filters: what they say of keys, when they are believed, and what verification and a crash make of them."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.storage import (
    Condition,
    KeyChoice,
    LogManager,
    MaintenanceRun,
    PartitionOutcome,
    Records,
    Search,
    alter_configs,
    filter_partitions,
    in_this_process,
    retain,
    select_partitions,
    verify_partitions,
)
from pyspark_commitlog.storage.errors import CorruptionError
from pyspark_commitlog.storage.format.tables import BinaryColumn
from pyspark_commitlog.storage.kernels.finding import key_filter as kernel
from pyspark_commitlog.storage.key_filters.filter_file import HEADER, LAYOUT, KeyFilter, SegmentId, decode
from tests.storage.finding.scanning import Row, found
from tests.support.logs.building import now_ms

ID = SegmentId(5, 1000, 1_700_000_000_000, 77)


def filter_of(keys: list[bytes]) -> KeyFilter:
    return KeyFilter.of(ID, np.unique(kernel.hashes_of(BinaryColumn.from_list([*keys]))), 9)


@given(st.lists(st.binary(max_size=30), max_size=300))
def test_a_filter_holds_every_key_that_it_was_made_of(keys: list[bytes]) -> None:
    found = decode(filter_of(keys).encode(), "f")
    assert (found.segment, found.next_offset) == (ID, 9)
    assert found.keys == len({*keys})
    assert found.may_hold(kernel.hashes_of(BinaryColumn.from_list([*keys]))).all()
    assert [kernel.hash_of(key) for key in keys] == kernel.hashes_of(BinaryColumn.from_list([*keys])).tolist()


def test_the_page_on_the_format_has_the_layout_of_the_file() -> None:
    page = (Path(__file__).parents[3] / "docs" / "format.md").read_text().partition("## A key filter")[2]
    rows = [(int(position), int(size)) for position, size in re.findall(r"^\| (\d+) \| (\d+) \|", page, re.MULTILINE)]
    fields = [LAYOUT.fields[name] for name in LAYOUT.names or ()]
    assert rows == [(field[1], field[0].itemsize) for field in fields]
    assert HEADER.size == LAYOUT.itemsize


def test_a_null_key_has_no_hash() -> None:
    assert len(kernel.hashes_of(BinaryColumn.from_list([None, b"", None]))) == 1


def test_few_absent_keys_seem_to_be_there_with_12_bits_a_key() -> None:
    keys = [b"key %d" % number for number in range(20_000)]
    data = filter_of(keys).encode()
    assert 8 * len(data) <= 12 * len(keys)
    absent = kernel.hashes_of(BinaryColumn.from_list([b"absent %d" % number for number in range(20_000)]))
    assert decode(data, "f").may_hold(absent).mean() < 0.01


def test_every_damaged_byte_of_a_filter_is_noticed() -> None:
    data, chance = filter_of([b"a", b"b", b"c"]).encode(), Random(0)
    for position in range(len(data)):
        spoiled = bytearray(data)
        spoiled[position] ^= 1 << chance.randrange(8)
        with pytest.raises(CorruptionError):
            decode(bytes(spoiled), "f")
    for size in range(len(data)):
        with pytest.raises(CorruptionError):
            decode(data[:size], "f")


# --- beside segments


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Topic t, of one partition with 12 segments; key n is in segments n, n + 4 and n + 8. It has its filters."""
    path = tmp_path_factory.mktemp("filters") / "log"
    with LogManager.open(str(path), create=True) as manager:
        manager.create_topic("t", partitions=1, configs={"keyfilter.enable": "true", "segment.bytes": "50000"})
        for batch in range(12):
            keys: list[bytes | None] = [b"key %d" % (batch % 4), *(b"%d of %d" % (n, batch) for n in range(200)), None]
            manager.open_log("t", 0).append_records(Records.to_append(keys, [b"v" * 60] * len(keys), now_ms()))
            manager.open_log("t", 0).roll()
    assert [str(each) for each in run_filters(path)] == ["t-0: made filters of 12 segments, 3,612 bytes, 0 kept"]
    return path


@pytest.fixture
def directory(made: Path, tmp_path: Path) -> Path:
    """The same, to change, with its filters made there."""
    shutil.copytree(made, tmp_path / "log")
    run_filters(tmp_path / "log")
    return tmp_path / "log"


def run_filters(path: Path, **options: bool) -> list[PartitionOutcome]:
    run = MaintenanceRun(str(path), **options)  # type: ignore[arg-type]
    with run.manager() as manager:
        selection = select_partitions(manager, (), run.overrides)
    return list(filter_partitions(run, selection, in_this_process))


def findings(path: Path) -> list[str]:
    run = MaintenanceRun(str(path))
    with run.manager() as manager:
        selection = select_partitions(manager, (), run.overrides)
    [outcome] = verify_partitions(run, selection, in_this_process)
    return [each["kind"] for each in outcome.facts["findings"]]


def searched(path: Path, key: bytes, *, newest_first: bool = False) -> list[Row]:
    """What a search finds, which must be complete."""
    with LogManager.open(str(path)) as manager:
        return found(manager, "t", Condition(key=key), newest_first=newest_first)


def filters(path: Path) -> list[Path]:
    return sorted(path.glob("t-0/*.keyfilter"))


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_search_by_key_passes_over_segments_without_it(directory: Path, newest_first: bool) -> None:
    rows = searched(directory, b"key 1", newest_first=newest_first)
    assert [row.offset for row in rows] == sorted([202, 1010, 1818], reverse=newest_first)
    opened = list[str]()
    for path in directory.glob("t-0/*.log"):
        if int(path.stem) not in (202, 1010, 1818) and path.stat().st_size:
            opened.append(path.name)
            data = path.read_bytes()
            status = path.stat()
            path.write_bytes(bytes(len(data)))  # what is passed over is not even read
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert len(opened) == 9
    again = searched(directory, b"key 1", newest_first=newest_first)
    assert again == rows


def rewritten(path: Path) -> None:
    """Another file of the same content, as a restored one."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def swapped(path: Path) -> None:
    """The filter of the next segment, under this one's name."""
    following = path.parent / f"{int(path.name[:20]) + 202:020}.keyfilter"
    if following.exists():
        shutil.copyfile(following, path)


SPOILED: dict[str, Callable[[Path], None]] = {
    "missing": lambda path: path.unlink(),
    "damaged": flipped,
    "empty": lambda path: path.write_bytes(b""),
    "shorter": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "of another segment": swapped,
    "of another file": lambda path: rewritten(path.with_suffix(".log")),
}


@pytest.mark.parametrize("spoil", SPOILED)
def test_a_filter_that_is_not_right_is_not_believed(directory: Path, spoil: str) -> None:
    expected = searched(directory, b"key 3")
    assert len(expected) == 3
    for path in filters(directory):
        SPOILED[spoil](path)
    assert searched(directory, b"key 3") == expected
    assert searched(directory, b"absent") == []


def test_verification_checks_filters(directory: Path) -> None:
    assert findings(directory) == []
    first, second, third, *_ = filters(directory)
    flipped(first)
    rewritten(second.with_suffix(".log"))
    whole = decode(third.read_bytes(), "f")
    third.write_bytes(whole._replace(bits=np.zeros_like(whole.bits)).encode())
    (directory / "t-0" / f"{9999:020}.keyfilter").write_bytes(first.read_bytes())
    assert sorted(findings(directory)) == ["bad-key-filter", "bad-key-filter", "old-key-filter", "orphan-index"]
    run_filters(directory)
    assert findings(directory) == ["bad-key-filter"]  # the one that is whole: only a check of all keys shows it


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_missing_segment_is_named_although_the_one_before_it_is_passed_over(
    directory: Path, newest_first: bool
) -> None:
    missing = filters(directory)[5]
    for kind in (".log", ".index", ".timeindex", ".keyfilter"):
        missing.with_suffix(kind).unlink()
    first = int(missing.stem)
    with LogManager.open(str(directory)) as manager:
        with Search(manager, "t", Condition(key=b"absent"), newest_first=newest_first) as search:
            assert list(search) == []
        assert [(each.offsets, each.kind) for each in search.unsearched] == [(range(first, first + 202), "damaged")]
        with manager.open_reader("t", 0) as reader:
            parts = list(KeyChoice((b"absent",)).parts(reader, 0, reader.log_end_offset))
    assert any(part.start <= first < part.stop for part in parts)


def test_verification_notices_a_filter_that_names_another_end(directory: Path) -> None:
    path = filters(directory)[2]
    path.write_bytes(decode(path.read_bytes(), "f")._replace(next_offset=10**6).encode())
    assert findings(directory) == ["bad-key-filter"]


def test_filters_are_made_again_only_where_they_are_not_right(directory: Path) -> None:
    assert [str(each) for each in run_filters(directory)] == ["t-0: made filters of 0 segments, 0 bytes, 12 kept"]
    filters(directory)[3].unlink()
    assert "would make filters of 1 segment" in str(run_filters(directory, dry_run=True)[0])
    assert len(filters(directory)) == 11
    assert [each.facts["made"] for each in run_filters(directory)] == [1]
    assert len(filters(directory)) == 12


def test_filters_go_with_their_segments(directory: Path) -> None:
    with LogManager.open(str(directory)) as manager:
        log = manager.open_log("t", 0)
        log.delete_records(404)
        retain(log)
    assert [int(path.stem) for path in filters(directory)] == list(range(404, 12 * 202, 202))
    assert findings(directory) == []


def test_filters_go_with_the_setting(directory: Path) -> None:
    with LogManager.open(str(directory)) as manager:
        alter_configs(manager, "t", {"keyfilter.enable": "false"})
    assert len(searched(directory, b"key 2")) == 3
    assert "12 removed" in str(run_filters(directory)[0])
    assert filters(directory) == []
    assert str(run_filters(directory)[0]) == "t-0: no key filters: keyfilter.enable = false"


def test_no_filter_is_written_where_a_broker_runs(directory: Path) -> None:
    for path in filters(directory):
        path.unlink()
    with open(directory / ".lock", "w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)  # as a broker does
        [outcome] = run_filters(directory)
    assert outcome.status.value == "failed"
    assert filters(directory) == []


def test_a_damaged_segment_gets_no_filter_and_is_reported(directory: Path) -> None:
    log = filters(directory)[2].with_suffix(".log")
    flipped(log)
    [outcome] = run_filters(directory)
    assert outcome.status.value == "damaged"
    assert str(log) in str(outcome)


def test_an_orphan_is_removed_when_the_log_is_opened_for_writing(directory: Path) -> None:
    orphan = directory / "t-0" / f"{7:020}.keyfilter"
    orphan.write_bytes(b"")
    with LogManager.open(str(directory)) as manager:
        manager.open_log("t", 0)
    assert not orphan.exists()


@pytest.mark.only_all
def test_ten_thousand_damaged_filters_lose_no_record(directory: Path) -> None:
    chance, all_filters = Random(1), filters(directory)
    whole = [path.read_bytes() for path in all_filters]
    expected = searched(directory, b"key 1")
    for _ in range(10_000 // len(all_filters) + 1):
        for path, data in zip(all_filters, whole, strict=True):
            path.write_bytes(spoiled(bytearray(data), chance))
        assert searched(directory, b"key 1") == expected


def spoiled(data: bytearray, chance: Random) -> bytes:
    kind = chance.randrange(4)
    if kind == 0:
        return bytes(data[: chance.randrange(len(data))])
    if kind == 1:
        return bytes(chance.randbytes(len(data)))
    for _ in range(chance.randint(1, 8)):
        data[chance.randrange(len(data))] = chance.randrange(256) if kind == 2 else 0
    return bytes(data)
