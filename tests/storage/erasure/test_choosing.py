"""Records that a condition chooses are erased by their offsets, and a certificate names them."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyspark_commitlog.arrow.choice import SqlChoice
from pyspark_commitlog.storage import LogManager, Records, TopicPartition
from pyspark_commitlog.storage.directory.admin import delete_topic
from pyspark_commitlog.storage.erasure.certificate import Erasure, ErasureClaim
from pyspark_commitlog.storage.erasure.choosing import Chooser, ErasedOffsets, choose
from pyspark_commitlog.storage.errors import InvalidConfigError
from pyspark_commitlog.storage.format import decompressed_parts, v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.tables import HeadersColumn
from pyspark_commitlog.storage.maintenance.outcome import OutcomeStatus
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides, MaintenanceRun
from pyspark_commitlog.storage.maintenance.selecting import select_partitions
from tests.storage.erasure.test_operation import carried_out, checked, read, verified
from tests.support.logs import raw_scan
from tests.support.logs.building import NOW_MS, records, rows

PARTITIONS = 2


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A topic whose values are JSON with a person, in two partitions, closed segments and an active one."""
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("orders", partitions=PARTITIONS)
        for n in range(3):
            append(manager, n)
    return tmp_path / "log"


def append(manager: LogManager, n: int) -> None:
    for number in range(PARTITIONS):
        log = manager.open_log("orders", number)
        values = [b'{"who": "%s-of-%d"}' % (who, n) for who in (b"ann", b"ida", b"ann")]
        some = records(values, keys=[b"k", None, b"k"], timestamps=NOW_MS + n)
        headers = HeadersColumn.repeated([(b"h", b"%d" % n), (b"none", None)], 3)
        log.append(v2.encode(replace(some, headers=headers), v2.BatchFields()))
        if n != 2:
            log.roll()


def asked_for(directory: Path, sql: str = "json->>'$.who' LIKE 'ann-%'") -> Erasure:
    return Erasure(SqlChoice(sql), "request 17", ("orders",), str(directory.parent / "certificate.json"))


def left(directory: Path, number: int = 0) -> list[int]:
    with LogManager.open(str(directory)) as manager:
        return [offset for offset, _ in rows(manager.open_reader("orders", number))]


def test_records_for_which_the_condition_is_true_go_and_all_others_stay(directory: Path) -> None:
    outcomes = carried_out(directory, asked_for(directory))
    assert {each.status for each in outcomes} == {OutcomeStatus.DONE}
    assert [left(directory, number) for number in range(PARTITIONS)] == [[1, 4, 7]] * PARTITIONS
    assert not raw_scan.has(directory, b"ann-of")
    assert len(raw_scan.has(directory, b"ida-of")) == 3 * PARTITIONS
    assert "none is one that was to be erased" in str(outcomes[0])
    assert verified(directory) == {"OutcomeStatus.DONE"}


def test_the_certificate_says_what_was_chosen_and_its_hash_can_be_made_from_the_old_records(directory: Path) -> None:
    asked = asked_for(directory)
    carried_out(directory, asked)
    content = read(asked)
    assert content["is_complete"]
    assert content["asked"] == {"topics": ["orders"], "where": "json->>'$.who' LIKE 'ann-%'"}
    (chosen,) = content["chosen"]["orders-1"]
    assert (chosen["records"], chosen["offsets"]) == (6, [[0, 0], [2, 3], [5, 6], [8, 8]])
    assert chosen["below_offset"] == content["partitions"]["orders-1"]["erased_below_offset"] == 9
    assert content["partitions"]["orders-1"]["after"]["chosen_records"] == 0
    digest = hashlib.sha256(bytes.fromhex(chosen["salt"]))
    for offset in (0, 2, 3, 5, 6, 8):
        n = offset // 3
        digest.update(struct.pack(">qqi", offset, NOW_MS + n, 2))
        for data in (b"k", b'{"who": "ann-of-%d"}' % n, b"h", b"%d" % n, b"none"):
            digest.update(struct.pack(">i", len(data)) + data)
        digest.update(struct.pack(">i", -1))
    assert chosen["sha256"] == digest.hexdigest()


def test_offsets_and_partitions_can_be_asked_for(directory: Path) -> None:
    carried_out(directory, asked_for(directory, '"offset" IN (0, 7) AND partition = 1'))
    assert left(directory, 0) == [*range(9)]
    assert left(directory, 1) == [1, 2, 3, 4, 5, 6, 8]


def test_a_dry_run_counts_and_changes_nothing(directory: Path) -> None:
    outcomes = carried_out(directory, asked_for(directory), dry_run=True)
    assert [each.facts["records_erased"] for each in outcomes] == [6, 6]
    assert left(directory) == [*range(9)]
    assert not (directory.parent / "certificate.json").exists()


def test_records_that_came_after_the_choice_are_not_covered_and_a_check_does_not_look_for_them(directory: Path) -> None:
    asked = asked_for(directory)

    @dataclass(frozen=True)
    class AppendsLate:
        """Another record arrives when the choice is made."""

        sql: str

        @contextmanager
        def opened(self) -> Iterator[Chooser]:
            with SqlChoice(self.sql).opened() as chooser:
                yield chooser
            with LogManager.open(str(directory)) as manager:
                append(manager, 2)

    late = Erasure(AppendsLate("json->>'$.who' LIKE 'ann-%'"), asked.reason, asked.topics, asked.certificate)
    outcomes = carried_out(directory, late)
    assert outcomes[0].facts["erased_below_offset"] == 9
    assert left(directory)[:6] == [1, 4, 7, 9, 10, 11]
    assert {each.status for each in checked(directory, asked.certificate)} == {OutcomeStatus.DONE}


def test_a_second_run_adds_what_it_chooses_and_both_are_checked(directory: Path) -> None:
    asked = asked_for(directory)
    carried_out(directory, asked)
    with LogManager.open(str(directory)) as manager:
        append(manager, 2)
    carried_out(directory, asked)
    assert [each["records"] for each in read(asked)["chosen"]["orders-0"]] == [6, 2]
    sought = ErasureClaim.read(asked.certificate).sought("orders-0", read(asked)["chosen"]["orders-0"][0]["topic_id"])
    assert isinstance(sought, ErasedOffsets)
    assert sought.offsets.tolist() == [0, 2, 3, 5, 6, 8, 9, 11]
    assert left(directory) == [1, 4, 7, 10]


def test_a_log_that_was_set_back_has_failed_the_check_and_one_of_another_topic_has_not(directory: Path) -> None:
    asked = asked_for(directory)
    before = {path: path.read_bytes() for path in (directory / "orders-0").glob("*")}
    carried_out(directory, asked)
    for path in (directory / "orders-0").glob("*"):
        path.unlink()
    for path, data in before.items():
        path.write_bytes(data)
    first, second = checked(directory, asked.certificate)
    assert (first.status, second.status) == (OutcomeStatus.FAILED, OutcomeStatus.DONE)
    assert "6 were to be erased: erase again" in str(first)
    with LogManager.open(str(directory)) as manager:
        delete_topic(manager, "orders")
        manager.create_topic("orders", partitions=PARTITIONS)
        append(manager, 0)
    assert {each.status for each in checked(directory, asked.certificate)} == {OutcomeStatus.DONE}


def test_a_run_that_is_killed_while_it_erases_has_named_the_records_before(directory: Path) -> None:
    asked = asked_for(directory)
    run = MaintenanceRun(str(directory))

    def dies(what: str, task: Any, items: Any) -> Any:
        if what == "logs":
            task(items[0])
            raise KeyboardInterrupt
        return map(task, items)

    with pytest.raises(KeyboardInterrupt):
        carried_out_by(dies, run, asked)
    assert not read(asked)["is_complete"]
    assert read(asked)["chosen"]["orders-0"][0]["records"] == 6
    carried_out(directory, asked)
    assert read(asked)["is_complete"]
    assert [left(directory, number) for number in range(PARTITIONS)] == [[1, 4, 7]] * PARTITIONS


def carried_out_by(runner: Any, run: MaintenanceRun, asked: Erasure) -> None:
    from pyspark_commitlog.storage.erasure.operation import erase_partitions  # noqa: PLC0415

    with run.manager() as manager:
        selection = select_partitions(manager, asked.topics, ConfigOverrides())
    list(erase_partitions(run, selection, runner, asked))


def test_another_condition_is_another_erasure(directory: Path) -> None:
    carried_out(directory, asked_for(directory))
    with pytest.raises(InvalidConfigError, match="of another erasure"):
        carried_out(directory, asked_for(directory, "true"))


def test_a_condition_that_fails_for_a_record_erases_nothing_of_its_partition(directory: Path) -> None:
    asked = asked_for(directory, "value_text[10:15] = 'ann-of' OR CAST(\"offset\" - 8 AS UTINYINT) = 0")
    outcomes = carried_out(directory, asked)
    assert {each.status for each in outcomes} == {OutcomeStatus.FAILED}
    assert "--where" in str(outcomes[0])
    assert left(directory) == [*range(9)]
    assert not read(asked)["is_complete"]


def test_damage_is_named_and_nothing_of_that_partition_is_erased(directory: Path) -> None:
    path = directory / "orders-0" / f"{3:020}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    outcomes = carried_out(directory, asked_for(directory))
    assert {str(each.topic) + str(each.partition): each.status for each in outcomes} == {
        "orders0": OutcomeStatus.DAMAGED,
        "orders1": OutcomeStatus.DONE,
    }
    assert str(path) in str(outcomes[0])
    assert len(raw_scan.has(directory, b"ann-of-0")) == 1


def test_a_certificate_whose_choice_was_changed_is_no_certificate(directory: Path) -> None:
    asked = asked_for(directory)
    carried_out(directory, asked)
    content = read(asked)
    content["chosen"]["orders-0"][0]["offsets"] = [[1]]
    content["chosen"]["orders-0"][0]["topic_id"] = None
    Path(asked.certificate).write_text(json.dumps(content))
    with pytest.raises(InvalidConfigError, match="is no certificate"):
        ErasureClaim.read(asked.certificate)


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("random() < 0.5", "random"),
        ("timestamp < now()", "now"),
        ("timestamp < CURRENT_TIMESTAMP", "current_timestamp"),
        ("abs(round(random())) = 1", "random"),
        ('"offset" = (SELECT max("offset") FROM records)', "subquery"),
        ('max("offset") = 1', "aggregates"),
        ("no_column = 1", "no_column"),
    ],
)
def test_conditions_that_do_not_choose_each_record_for_itself_are_refused(sql: str, error: str) -> None:
    with pytest.raises(InvalidConfigError, match=error):
        SqlChoice(sql)


def test_a_choice_sees_records_of_any_time_key_and_header() -> None:
    some = Records.to_append([b"\xff", None], [None, b"{"], 2**62, [(b"\xfe", None)])
    with SqlChoice("key_text IS NULL AND json IS NULL AND timestamp IS NULL").opened() as chooser:
        found = chooser(some, TopicPartition("t", 0))
    assert found.dtype == np.int64
    assert found.tolist() == [0, 1]


def test_records_are_chosen_from_batches_with_more_bytes_than_a_table_can_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompressed_parts, "INT32_MAX", 2**20)
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic("orders", partitions=1)
        log = manager.open_log("orders", 0)
        for number in range(5):
            log.append(v2.encode(records([bytes([number]) * 400_000]), v2.BatchFields(codec=Codec.ZSTD)))
        chosen = choose(log, TopicPartition("orders", 0), SqlChoice('"offset" IN (1, 4)'), None)
    assert chosen.offsets.tolist() == [1, 4]
