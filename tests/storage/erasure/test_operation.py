"""Erasing from the topics of a directory: what is covered, what is refused, and the certificate."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage import LogManager
from pyspark_commitlog.storage.directory.snapshots.taking import take_snapshot
from pyspark_commitlog.storage.erasure.certificate import Erasure, ErasureClaim
from pyspark_commitlog.storage.erasure.keys import AskedKeys
from pyspark_commitlog.storage.erasure.operation import check_erased_partitions, erase_partitions
from pyspark_commitlog.storage.errors import InvalidConfigError, LogDirLockedError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.maintenance.outcome import OutcomeStatus, PartitionOutcome
from pyspark_commitlog.storage.maintenance.partitions import in_this_process, verify_partitions
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides, MaintenanceRun
from pyspark_commitlog.storage.maintenance.selecting import select_partitions
from tests.support.logs import raw_scan
from tests.support.logs.building import records

ANN, IDA = b"ann@example.org", b"ida@example.org"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A topic with two partitions and two segments each, and another topic."""
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        for topic, partitions in (("orders", 2), ("others", 1)):
            manager.create_topic(topic, partitions=partitions)
            for number in range(partitions):
                log = manager.open_log(topic, number)
                for n in range(2):
                    log.append(v2.encode(records([b"%d" % n] * 2, keys=[ANN, IDA]), v2.BatchFields()))
                    log.roll()
    return tmp_path / "log"


def asked_for(directory: Path, *topics: str, keys: Sequence[bytes] = (ANN,), **more: Any) -> Erasure:
    path = str(directory.parent / "certificate.json")
    return Erasure(AskedKeys(frozenset(keys)), "request 17", topics or ("orders",), path, **more)


def carried_out(directory: Path, asked: Erasure, **options: Any) -> list[PartitionOutcome]:
    run = MaintenanceRun(str(directory), **options)
    with run.manager() as manager:
        selection = select_partitions(manager, asked.topics, ConfigOverrides())
    return list(erase_partitions(run, selection, in_this_process, asked))


def checked(directory: Path, path: str) -> list[PartitionOutcome]:
    run, claim = MaintenanceRun(str(directory)), ErasureClaim.read(path)
    with run.manager() as manager:
        selection = select_partitions(manager, claim.topics, ConfigOverrides())
    return list(check_erased_partitions(run, selection, in_this_process, claim))


def append(directory: Path, key: bytes) -> None:
    with LogManager.open(str(directory)) as manager:
        manager.open_log("orders", 1).append(v2.encode(records([b"later"], keys=[key]), v2.BatchFields()))


def read(asked: Erasure) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(asked.certificate).read_text())
    return content


def verified(directory: Path) -> set[str]:
    run = MaintenanceRun(str(directory))
    with run.manager() as manager:
        selection = select_partitions(manager, (), ConfigOverrides())
    return {str(each.status) for each in verify_partitions(run, selection, in_this_process)}


def test_the_certificate_states_segments_before_and_after_and_names_no_key(directory: Path) -> None:
    logs = {path: path.read_bytes() for path in directory.glob("orders-*/*.log")}
    asked = asked_for(directory)
    outcomes = carried_out(directory, asked)
    assert {each.status for each in outcomes} == {OutcomeStatus.DONE}
    content = read(asked)
    assert content["is_complete"]
    assert content["records_erased"] == 4
    assert content["reason"] == "request 17"
    assert ANN not in Path(asked.certificate).read_bytes()
    for name, facts in content["partitions"].items():
        for each in facts["replaced"]:
            old = logs[directory / name / f"{each['base_offset']:020}.log"]
            assert (each["bytes"], each["sha256"]) == (len(old), hashlib.sha256(old).hexdigest())
        for each in facts["after"]["segments"]:
            new = (directory / name / f"{each['base_offset']:020}.log").read_bytes()
            assert (each["bytes"], each["sha256"]) == (len(new), hashlib.sha256(new).hexdigest())
        assert facts["after"]["records_with_keys"] == 0
    assert {path.parent.name for path in raw_scan.has(directory, ANN)} == {"others-0"}
    assert verified(directory) == {"OutcomeStatus.DONE"}


def test_a_certificate_can_be_checked_later_and_finds_a_key_that_came_back(directory: Path) -> None:
    asked = asked_for(directory)
    carried_out(directory, asked)
    assert {each.status for each in checked(directory, asked.certificate)} == {OutcomeStatus.DONE}
    append(directory, ANN)
    first, second = checked(directory, asked.certificate)
    assert (first.status, second.status) == (OutcomeStatus.DONE, OutcomeStatus.FAILED)
    assert "1 have one of the keys: erase again" in str(second)


def test_keys_are_named_in_the_certificate_if_asked_for(directory: Path) -> None:
    asked = asked_for(directory, keys=[ANN, b"\xff\n"], shows_keys=True)
    carried_out(directory, asked)
    assert ErasureClaim.read(asked.certificate).keys == asked.records


def test_a_run_that_was_killed_goes_on_with_its_certificate(directory: Path) -> None:
    asked = asked_for(directory)
    run = MaintenanceRun(str(directory))
    with run.manager() as manager:
        selection = select_partitions(manager, asked.topics, ConfigOverrides())
    first = erase_partitions(run, selection, in_this_process, asked)
    next(first)
    first.close()
    assert not read(asked)["is_complete"]
    carried_out(directory, asked)
    content = read(asked)
    assert content["is_complete"]
    assert [len(each["replaced"]) for each in content["partitions"].values()] == [2, 2]


@pytest.mark.parametrize("other", [{"keys": [IDA]}, {"topics": ("others",)}])
def test_the_certificate_of_another_erasure_is_not_overwritten(other: dict[str, Any], directory: Path) -> None:
    asked = asked_for(directory)
    carried_out(directory, asked)
    before = read(asked)
    with pytest.raises(InvalidConfigError, match="of another erasure"):
        carried_out(directory, asked_for(directory, *other.pop("topics", ()), **other))
    assert read(asked) == before
    assert raw_scan.has(directory, IDA)


@pytest.mark.parametrize("content", ["", "[]", '{"version": 1}', '{"version": 2}', "\udcff"])
def test_another_file_is_not_taken_for_a_certificate(content: str, directory: Path) -> None:
    asked = asked_for(directory)
    Path(asked.certificate).write_text(content, errors="surrogateescape")
    for attempt in (lambda: carried_out(directory, asked), lambda: ErasureClaim.read(asked.certificate)):
        with pytest.raises(InvalidConfigError, match=r"certificate\.json: this file is no certificate"):
            attempt()
    assert raw_scan.has(directory, ANN)


def test_a_dry_run_counts_and_writes_nothing(directory: Path) -> None:
    before = {path: path.read_bytes() for path in directory.rglob("*.log")}
    asked = asked_for(directory)
    outcomes = carried_out(directory, asked, dry_run=True)
    assert [each.facts["records_erased"] for each in outcomes] == [2, 2]
    assert {path: path.read_bytes() for path in directory.rglob("*.log")} == before
    assert not Path(asked.certificate).exists()


def test_internal_topics_and_no_topic_at_all_are_refused(directory: Path) -> None:
    with LogManager.open(str(directory)) as manager:
        manager.create_topic("__consumer_offsets", partitions=1, configs={"cleanup.policy": "compact"})
    with pytest.raises(InvalidConfigError, match="commitlog groups --delete"):
        carried_out(directory, asked_for(directory, "__consumer_offsets"))
    with pytest.raises(InvalidConfigError, match="--topics"):
        carried_out(directory, Erasure(AskedKeys(frozenset([ANN])), "x", (), "unused"))


def test_nothing_is_erased_while_a_broker_runs(directory: Path) -> None:
    asked = asked_for(directory)
    broker = LocalFileSystem().lock_as_broker(str(directory / ".lock"))
    assert broker is not None
    with broker, pytest.raises(LogDirLockedError):
        carried_out(directory, asked)
    assert not Path(asked.certificate).exists()


def test_what_else_has_the_records_is_named(directory: Path) -> None:
    with LogManager.open(str(directory)) as manager:
        take_snapshot(manager, str(directory.parent / "monday"))
    (directory / f"orders-1.{'0' * 32}-stray").mkdir()
    asked = asked_for(directory)
    carried_out(directory, asked)
    partitions = read(asked)["partitions"]
    assert "1 hard link to the old 00000000000000000000.log of orders-0" in partitions["orders-0"]["elsewhere"][0]
    assert "-stray" in partitions["orders-1"]["elsewhere"][-1]
    assert "Delta tables" in read(asked)["not_searched"]


def test_a_damaged_partition_leaves_the_certificate_incomplete_and_the_others_are_erased(directory: Path) -> None:
    path = directory / "orders-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    asked = asked_for(directory)
    outcomes = carried_out(directory, asked)
    assert [each.status for each in outcomes] == [OutcomeStatus.DAMAGED, OutcomeStatus.DONE]
    assert not read(asked)["is_complete"]
    assert str(path) in read(asked)["partitions"]["orders-0"]["error"]
