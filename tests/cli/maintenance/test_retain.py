"""``commitlog retain`` and ``compact``: old segments and old values of keys, in one process without Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pyspark_commitlog.storage import LocalFileSystem, LogManager, TransactionalWriter, TransactionCoordinator
from tests.cli import kafka_said
from tests.cli.in_process import commitlog
from tests.support.delta_log import exported
from tests.support.logs.building import records
from tests.support.logs.transactions import encoded

POLICY = """
from pyspark_commitlog.storage import RetentionVerdict

class OddOffsets:
    name = "odd offsets"
    def __init__(self, below):
        self.below = below
    def judge(self, segment, situation):
        return RetentionVerdict(segment.base_offset < self.below, f"it begins at {segment.base_offset}")
"""


def make(directory: Path, configs: Mapping[str, str], *, topic: str = "t", segments: int = 4) -> Path:
    """A topic with one record per segment, the last one in the active segment."""
    with LogManager.open(str(directory), create=True) as manager:
        manager.create_topic(topic, partitions=1, configs=configs)
        log = manager.open_log(topic, 0)
        for n in range(segments):
            log.append_records(records([b"%d" % n], keys=[b"%d" % n]))
            if n < segments - 1:
                log.roll()
    return directory


def bases(directory: Path, topic: str = "t") -> list[int]:
    return sorted(int(path.stem) for path in (directory / f"{topic}-0").glob("*.log"))


def test_limits_of_the_topic_are_applied_and_reported(tmp_path: Path) -> None:
    directory = make(tmp_path / "log", {"retention.bytes": "200", "retention.ms": "-1"})
    before = kafka_said.contents(directory)
    planned = commitlog("retain", "--log-dir", directory, "--dry-run")
    assert planned.code == 0, planned.stderr
    assert kafka_said.contents(directory) == before
    done = commitlog("retain", "--log-dir", directory, "--json")
    assert done.code == 0, done.stderr
    removed = [each["base_offset"] for each in json.loads(done.stdout)["segments"] if each["goes"]]
    assert bases(directory) == [each for each in range(4) if each not in removed]
    assert removed == [0]


def test_a_policy_of_ones_own_deletes_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = make(tmp_path / "log", {"retention.ms": "1"})
    make(directory, {"cleanup.policy": "compact"}, topic="kept")
    (tmp_path / "policies_of_mine.py").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    options = ("--policy", "policies_of_mine:OddOffsets", "--policy-option", "below=2")
    done = commitlog("retain", "--log-dir", directory, *options)
    assert done.code == 0, done.stderr
    assert "by odd offsets: 2 segments, offsets 0 to 1" in done.stdout
    assert (bases(directory), bases(directory, "kept")) == ([2, 3], [0, 1, 2, 3])


def test_a_policy_that_cannot_be_loaded_changes_nothing(tmp_path: Path) -> None:
    directory = make(tmp_path / "log", {"retention.ms": "1"})
    before = kafka_said.contents(directory)
    done = commitlog("retain", "--log-dir", directory, "--policy", "no.such_module:Policy")
    assert (done.code, kafka_said.contents(directory)) == (1, before)
    assert "--policy no.such_module:Policy: No module named 'no'" in done.stderr


def test_a_policy_deletes_nothing_of_a_brokers_topic_whose_cleanup_policy_is_unknown(tmp_path: Path) -> None:
    directory = make(tmp_path / "log", {})
    (directory / "topics.json").unlink()
    ready = ("--policy", "pyspark_commitlog.storage:NewestSegmentsRetention", "--policy-option", "segments=1")
    done = commitlog("retain", "--log-dir", directory, *ready)
    assert "the cleanup.policy of this topic, which a broker created, is unknown" in done.stdout
    assert (done.code, bases(directory)) == (0, [0, 1, 2, 3])
    done = commitlog("retain", "--log-dir", directory, *ready, "--config", "cleanup.policy=delete")
    assert (done.code, bases(directory)) == (0, [3])


def test_options_of_a_policy_without_one_are_wrong_usage(tmp_path: Path) -> None:
    directory = make(tmp_path / "log", {})
    done = commitlog("retain", "--log-dir", directory, "--policy-option", "segments=1")
    assert done.code == 2


def test_compact_keeps_the_newest_record_of_each_key(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    with LogManager.open(str(directory), create=True) as manager:
        log = manager.open_log(manager.create_topic("t", partitions=1, configs=settings).name, 0)
        log.append_records(records([b"%d" % n for n in range(100)], keys=[b"k"] * 100))
        log.roll()
        log.append_records(records([b"new"], keys=[b"other"]))
    done = commitlog("compact", "--log-dir", directory)
    assert done.code == 0, done.stderr
    read = commitlog("cat", "--log-dir", directory, "--topic", "t", "-o", "beginning", "-e")
    assert read.stdout.split() == ["99", "new"]


def test_without_topics_only_changes_are_shown_and_the_last_line_has_the_sums(tmp_path: Path) -> None:
    directory = make(tmp_path / "log", {"retention.bytes": "200", "retention.ms": "-1"})
    make(directory, {"retention.ms": "-1"}, topic="kept")
    size = (directory / "t-0" / f"{0:020}.log").stat().st_size
    sums = f"1 segment, {size:,} bytes, of 1 topic"
    for flags, verb in ((["--dry-run"], "would delete"), ([], "deleted"), (["--dry-run"], "nothing to delete")):
        *shown, last = commitlog("retain", "--log-dir", directory, *flags).stdout.splitlines()
        assert last == f"retain: 2 partitions: 2 done; {verb}{'' if verb.startswith('nothing') else ' ' + sums}"
        assert [line.split(",")[0] for line in shown if line[0] != " "] == (
            [] if verb.startswith("nothing") else ["t-0"]
        )


def test_the_last_line_counts_the_abandoned_transactions_that_are_ended(tmp_path: Path) -> None:
    directory = make(tmp_path / "log", {"retention.ms": "-1"})
    with LogManager.open(str(directory)) as manager:
        coordinator = TransactionCoordinator.open(manager, "dead", holder="a query", timeout_ms=1)
        transaction = coordinator.begin([("t", 0)])
        writer = TransactionalWriter(manager, transaction)
        writer.append("t", 0, encoded(b"lost"))
        writer.sync()
        coordinator.close()
    flags = ("--log-dir", directory, "-t", "t")
    planned, done = commitlog("retain", *flags, "--dry-run"), commitlog("retain", *flags)
    for report, said in ((planned, "would be aborted"), (done, "aborted")):
        assert "open transaction of 'dead', producer " in report.stdout
        assert f"epoch 0, state Ongoing: {said}: older than its timeout; t-0 from offset" in report.stdout
    assert planned.stdout.endswith("1 partition: 1 done; nothing to delete; would abort 1 transaction\n")
    assert done.stdout.endswith("1 partition: 1 done; nothing to delete; aborted 1 transaction\n")


def test_a_topic_that_is_asked_for_is_shown_though_nothing_happens_to_it(tmp_path: Path) -> None:
    directory = make(tmp_path / "log", {"retention.ms": "-1"}, topic="kept")
    done = commitlog("retain", "--log-dir", directory, "--dry-run", "-t", "kept")
    assert "kept-0, as of " in done.stdout
    assert "nothing to delete; keeping 4 segments" in done.stdout


def test_what_a_table_does_not_have_is_kept_and_a_table_that_cannot_be_read_deletes_nothing(tmp_path: Path) -> None:
    directory = make(tmp_path / "log", {"retention.bytes": "0", "retention.ms": "-1"})
    refused = commitlog("retain", "--log-dir", directory, "--keep-for-tables", tmp_path / "table")
    assert (refused.code, bases(directory)) == (1, [0, 1, 2, 3])
    assert "has no Delta table" in refused.stderr
    exported(tmp_path / "table", "t", p0=2)
    done = commitlog("retain", "--log-dir", directory, "--keep-for-tables", tmp_path / "table")
    assert (done.code, bases(directory)) == (0, [2, 3])
    assert f"table {tmp_path / 'table'} has only what is below offset 2" in done.stdout


def test_only_what_a_table_has_on_disk_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark syncs no commit of a table, so a power cut may take one that came after the sync."""
    directory = make(tmp_path / "log", {"retention.bytes": "0", "retention.ms": "-1"})
    exported(tmp_path / "table", "t", p0=2)
    syncs = []

    def sync(_: LocalFileSystem, path: str) -> None:
        syncs.append((path, bases(directory)))
        exported(tmp_path / "table", "t", p0=3)

    monkeypatch.setattr(LocalFileSystem, "sync_all", sync)
    done = commitlog("retain", "--log-dir", directory, "--keep-for-tables", tmp_path / "table")
    assert (done.code, bases(directory)) == (0, [2, 3])
    assert syncs == [(str(tmp_path / "table"), [0, 1, 2, 3])]


def test_table_of_another_log_is_refused(tmp_path: Path) -> None:
    directory = make(tmp_path / "log", {"retention.bytes": "0", "retention.ms": "-1"})
    exported(tmp_path / "table", "u", p0=2)
    done = commitlog("retain", "--log-dir", directory, "--keep-for-tables", tmp_path / "table")
    assert (done.code, bases(directory)) == (1, [0, 1, 2, 3])
    assert "has rows of topic u, which" in done.stderr
