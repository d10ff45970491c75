"""Erasing from a log on an object store: segments, slices, old objects, and runs that were killed."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.arrow.choice import SqlChoice
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.commit import Segment
from pyspark_commitlog.storage.bucket.commits.state import Slice
from pyspark_commitlog.storage.erasure import operation
from pyspark_commitlog.storage.erasure.certificate import Erasure
from pyspark_commitlog.storage.erasure.keys import AskedKeys
from pyspark_commitlog.storage.erasure.operation import erase_partitions
from pyspark_commitlog.storage.maintenance.outcome import OutcomeStatus, PartitionOutcome
from pyspark_commitlog.storage.maintenance.partitions import compact_partitions, in_this_process
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides
from pyspark_commitlog.storage.maintenance.selecting import select_partitions
from tests.storage.maintenance.bucket.test_operations import DAY_MS, carry_out, made, run_on
from tests.support.logs import raw_scan
from tests.support.stores.commits import commit_log
from tests.support.stores.filled import place_of, read_rows, write_pairs
from tests.support.stores.killing import Killed, KillingStore
from tests.support.stores.memory_store import MemoryStore
from tests.support.stores.transactional import Client

ANN, IDA = b"ann@example.org", b"ida@example.org"
AT_ONCE = "delete.grace.ms=0"


def filled(store: MemoryStore) -> CommitLog:
    """A topic with a segment of six records, and two slices of three."""
    log = made(store)
    for n in range(4):
        write_pairs(log, (ANN, b"a%d" % n), (IDA, b"i%d" % n), (b"k%d" % n, b"x"))
        if n == 1:
            carry_out(compact_partitions, run_on(log, "segment.ms=1"))
    place = place_of(log)
    assert [type(part) for part in place.parts] == [Segment, Slice, Slice]
    return log


def erased(
    log: CommitLog, certificate: Path, *config: str, where: str | None = None, **options: Any
) -> list[PartitionOutcome]:
    run = run_on(log, *config, **options)
    with run.manager() as manager:
        selection = select_partitions(manager, ["t"], ConfigOverrides())
    wanted = AskedKeys(frozenset([ANN])) if where is None else SqlChoice(where)
    asked = Erasure(wanted, "a test", ("t",), str(certificate))
    return list(erase_partitions(run, selection, in_this_process, asked))


def traces(store: MemoryStore) -> list[str]:
    """The objects that have the key, compressed or not."""
    found = []
    for key, data in store.objects.items():
        plain = raw_scan.batches(data) if key.endswith((".log", ".data")) else ()
        if any(ANN in each for each in (data, *plain)):
            found.append(key)
    return found


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_all_other_records_stay_and_no_object_has_a_trace(tmp_path: Path) -> None:
    store = MemoryStore()
    log = filled(store)
    before = read_rows(log)
    assert traces(store)
    (outcome,) = erased(log, tmp_path / "c.json", AT_ONCE)
    assert outcome.status is OutcomeStatus.DONE
    assert outcome.facts["records_erased"] == 4
    assert read_rows(log) == [row for row in before if row[1] != ANN]
    assert place_of(log).state.end == 12
    assert not traces(store)
    assert read(tmp_path / "c.json")["is_complete"]


def test_the_certificate_waits_for_old_objects_and_a_later_run_completes_it(tmp_path: Path) -> None:
    store = MemoryStore()
    log = filled(store)
    erased(log, tmp_path / "c.json")
    content = read(tmp_path / "c.json")
    assert not content["is_complete"]
    assert {*traces(store)} == {*content["waiting_objects"]}
    store.now_ms += DAY_MS + 1
    erased(log, tmp_path / "c.json")
    assert not traces(store)
    content = read(tmp_path / "c.json")
    assert (content["is_complete"], content["waiting_objects"]) == (True, [])
    assert content["records_erased"] == 4


def test_a_dry_run_counts_and_puts_nothing(tmp_path: Path) -> None:
    store = MemoryStore()
    log = filled(store)
    before = dict(store.objects)
    (outcome,) = erased(log, tmp_path / "c.json", dry_run=True)
    assert outcome.facts["records_erased"] == 4
    assert store.objects == before


def test_records_of_an_open_transaction_are_covered_by_a_run_after_its_end(tmp_path: Path) -> None:
    store = MemoryStore()
    log = filled(store)
    client = Client(log)
    client.append(b"undecided")
    (outcome,) = erased(log, tmp_path / "c.json", AT_ONCE)
    assert "a transaction is open from offset 12 on; its records are not covered" in outcome.text
    assert not traces(store)
    assert not read(tmp_path / "c.json")["is_complete"]
    client.end(commit=True)
    erased(log, tmp_path / "c.json", AT_ONCE)
    assert read(tmp_path / "c.json")["is_complete"]


@pytest.mark.parametrize("number", range(1, 16, 2))
def test_killed_at_any_request_the_log_is_whole_and_the_next_run_completes(number: int, tmp_path: Path) -> None:
    store = MemoryStore()
    before = read_rows(filled(store))
    killing = KillingStore(store, number)
    with suppress(Killed):
        erased(commit_log(killing), tmp_path / "c.json", AT_ONCE)
    log = commit_log(store)
    rows = read_rows(log)
    assert [row for row in rows if row[1] != ANN] == [row for row in before if row[1] != ANN]
    assert [row for row in before if row in rows] == rows
    store.now_ms += 2 * DAY_MS
    erased(log, tmp_path / "c.json", AT_ONCE)
    assert read_rows(log) == [row for row in before if row[1] != ANN]
    assert not traces(store)
    assert read(tmp_path / "c.json")["is_complete"]


def test_old_objects_of_a_killed_run_are_waited_for_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, path = MemoryStore(), tmp_path / "c.json"
    log = filled(store)
    erased(log, path)
    store.now_ms += DAY_MS // 2
    write_pairs(log, (ANN, b"late"), (IDA, b"i"))

    def kill(*_: object) -> list[str]:
        raise Killed

    with monkeypatch.context() as killing, suppress(Killed):
        killing.setattr(operation, "may_have_records", kill)
        erased(log, path)
    store.now_ms += DAY_MS // 2 + 1
    erased(log, path)
    assert {*read(path)["waiting_objects"]} >= {*traces(store)} != set()
    assert not read(path)["is_complete"]
    store.now_ms += DAY_MS // 2
    erased(log, path)
    assert not traces(store)
    assert read(path)["is_complete"]


def test_records_are_erased_by_a_condition_from_segments_and_slices(tmp_path: Path) -> None:
    store = MemoryStore()
    log = filled(store)
    before = read_rows(log)
    condition = "value_text LIKE 'a%' AND \"offset\" <> 3"
    (outcome,) = erased(log, tmp_path / "c.json", AT_ONCE, where=condition)
    assert outcome.status is OutcomeStatus.DONE, outcome
    assert read_rows(log) == [row for row in before if row[1] != ANN or row[0] == 3]
    assert read(tmp_path / "c.json")["is_complete"]
    assert [each["offsets"] for each in read(tmp_path / "c.json")["chosen"]["t-0"]] == [[[0, 0], [6, 6], [9, 9]]]
