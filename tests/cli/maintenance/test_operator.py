"""What an operator does after a fault: each command agrees with a count made while the log was written."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from pyspark_commitlog.cli.produce import READ_BYTES
from pyspark_commitlog.storage import LogManager, TopicPartition
from pyspark_commitlog.storage.directory import log_directory
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from tests.cli.in_process import Done, commitlog
from tests.support.disk.faulty_filesystem import FaultyFileSystem, Rule, tear
from tests.support.logs.building import append

TOPICS = ("orders", "other")
SEGMENTS, BATCHES, RECORDS = 3, 3, 5  # in a log, in a segment, in a batch
CHECKS = (("verify",), ("recover", "--dry-run"), ("recover",), ("verify",))
LINE_BYTES = 100


class Batch(NamedTuple):
    """A batch as it was written; the value of each record is its offset."""

    file: str
    position: int
    size: int
    offsets: range


class Written(NamedTuple):
    """A log directory, with the batches of its topics, which have the same ones."""

    directory: Path
    batches: list[Batch]

    @property
    def size(self) -> int:
        return sum(batch.size for batch in self.batches)

    def copied(self, target: Path) -> Written:
        return Written(Path(shutil.copytree(self.directory, target)), self.batches)

    def path(self, batch: Batch) -> Path:
        return self.directory / "orders-0" / batch.file


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A log that no test changes."""
    directory, batches = tmp_path_factory.mktemp("operator") / "log", list[Batch]()
    with LogManager.open(str(directory), create=True) as manager:
        for topic in TOPICS:
            manager.create_topic(topic, partitions=1)
            log, batches = manager.open_log(topic, 0), []
            for first in range(0, SEGMENTS * BATCHES * RECORDS, RECORDS):
                if first and first % (BATCHES * RECORDS) == 0:
                    log.roll()
                file = max((directory / f"{topic}-0").glob("*.log"))
                position, offsets = file.stat().st_size, range(first, first + RECORDS)
                append(log, *(b"%d" % each for each in offsets))
                batches.append(Batch(file.name, position, file.stat().st_size - position, offsets))
    return Written(directory, batches)


@contextmanager
def faults(*rules: Rule) -> Iterator[None]:
    """In the ``with`` block, the disk of commands that open a log directory has faults, which must strike."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_directory, "LocalFileSystem", lambda: FaultyFileSystem(LocalFileSystem(), [*rules]))
        yield
    assert all(rule.struck for rule in rules)


def cat(log_dir: Path, topic: str = "orders") -> Done:
    return commitlog("cat", "--log-dir", log_dir, "-t", topic, "-e", "-q", "--skip-damaged")


def lines(values: Iterable[object]) -> str:
    return "".join(f"{each}\n" for each in values)


def last_line(text: str) -> str:
    return text.splitlines()[-1]


def check_all(log_dir: Path, code: int, said: str, finding: str) -> None:
    """Each check ends with ``code`` and a last line with ``said``, and has ``finding`` somewhere before it."""
    for command, *flags in CHECKS:
        done = commitlog(command, "--log-dir", log_dir, *flags)
        assert (done.code, last_line(done.stdout), done.stderr) == (code, f"{command}: {said}", "")
        assert finding in done.stdout


def flip_a_byte(log: Written) -> list[Batch]:
    batch = log.batches[BATCHES + 1]  # in a closed segment
    data = bytearray(log.path(batch).read_bytes())
    data[batch.position + batch.size // 2] ^= 1
    log.path(batch).write_bytes(data)
    return [batch]


def lose_the_first_segment(log: Written) -> list[Batch]:
    lost = log.batches[:BATCHES]
    log.path(lost[0]).unlink()
    return lost


def lose_it_with_its_indexes(log: Written) -> list[Batch]:
    lost = lose_the_first_segment(log)
    for path in (log.directory / "orders-0").glob(f"{Path(lost[0].file).stem}.*"):
        path.unlink()
    return lost


@pytest.mark.parametrize("spoil", [flip_a_byte, lose_the_first_segment, lose_it_with_its_indexes])
def test_damage_is_named_read_around_and_not_copied(
    spoil: Callable[[Written], list[Batch]], source: Written, tmp_path: Path
) -> None:
    log = source.copied(tmp_path / "log")
    lost = spoil(log)
    first, last = lost[0].offsets[0], lost[-1].offsets[-1]
    check_all(log.directory, 3, "2 partitions: 1 done, 1 damaged", f"; offsets {first} to {last} are lost")
    sound = log.size - sum(batch.size for batch in lost)
    assert f"{sound:,} sound bytes" in commitlog("verify", "--log-dir", log.directory, "-t", "orders").stdout
    read = cat(log.directory)
    assert (read.code, read.stdout) == (3, lines(n for each in log.batches if each not in lost for n in each.offsets))
    assert read.stderr.count("\n") == 1
    assert read.stderr.endswith(f"; skipped offsets {first} to {last}\n")
    copied = commitlog("copy", "--from", log.directory, "--to", tmp_path / "copy")
    count = len(log.batches) * RECORDS
    assert copied.code == 3
    assert copied.stdout == f"other-0: offsets 0 to {count}, {SEGMENTS} segments with {log.size:,} bytes\n"
    assert copied.stderr.startswith(f"commitlog: orders-0: damaged, not copied: {log.directory}/orders-0")
    assert last_line(copied.stderr).startswith("commitlog: copy: 2 partitions: 1 done, 1 damaged; ")
    assert cat(tmp_path / "copy", "other").stdout == lines(range(count))


def test_each_command_names_the_checksums_of_a_damaged_batch_in_one_notation(source: Written, tmp_path: Path) -> None:
    log = source.copied(tmp_path / "log")
    flip_a_byte(log)
    said = re.compile(r"checksum (0x[0-9a-f]{8}) does not match (0x[0-9a-f]{8}) in the header")
    pairs = set()
    for command in (
        ("verify", "--log-dir", log.directory),
        ("rebuild-index", "--log-dir", log.directory),
        ("cat", "--log-dir", log.directory, "-t", "orders", "-e"),
        ("copy", "--from", log.directory, "--to", tmp_path / "copy"),
    ):
        done = commitlog(*command)
        assert done.code == 3
        (pair,) = said.findall(done.stdout + done.stderr)
        pairs.add(pair)
    assert len(pairs) == 1


def test_reading_a_log_from_where_it_begins_names_the_records_lost_before(source: Written, tmp_path: Path) -> None:
    log = source.copied(tmp_path / "log")
    last = lose_the_first_segment(log)[-1].offsets[-1]
    read = ("cat", "--log-dir", log.directory, "-t", "orders", "-e", "-q")
    done = commitlog(*read)
    assert (done.code, done.stdout) == (3, lines(range(last + 1, len(log.batches) * RECORDS)))
    assert done.stderr.startswith(f"commitlog: {log.directory}/orders-0: records 0 to {last} are gone")
    assert done.stderr.endswith(f"state it by commitlog delete-records up to offset {last + 1}\n")
    assert commitlog(*read, "--skip-damaged", "-o", last + 1) == Done(0, done.stdout, "")


def test_records_that_only_the_leader_epochs_miss_may_be_given_up(source: Written, tmp_path: Path) -> None:
    log = source.copied(tmp_path / "log")
    last = lose_it_with_its_indexes(log)[-1].offsets[-1]
    read = ("cat", "--log-dir", log.directory, "-t", "orders", "-e", "-q")
    said = f"records 0 to {last} are in no segment, but leader epoch 0 begins at offset 0"
    assert said in commitlog(*read).stderr
    assert commitlog(*read, "-o", last + 1).stderr == ""
    with LogManager.open(str(log.directory)) as manager:
        manager.open_log("orders", 0).delete_records(last + 1)
    assert commitlog(*read).stderr == ""
    assert commitlog("copy", "--from", log.directory, "--to", tmp_path / "copy").code == 0


def test_first_segments_that_retention_or_a_tier_took_are_not_lost(source: Written, tmp_path: Path) -> None:
    """Files that wait for their removal, or an entry for the log start, which a broker writes if there is a tier."""
    being_deleted, tiered = source.copied(tmp_path / "deleting"), source.copied(tmp_path / "tiered")
    first = being_deleted.batches[0]
    for path in being_deleted.path(first).parent.glob(f"{Path(first.file).stem}.*"):
        path.rename(f"{path}.deleted")
    lose_it_with_its_indexes(tiered)
    with LogManager.open(str(tiered.directory)) as manager:
        manager.note_log_start(TopicPartition("orders", 0), 0)
    for log in (being_deleted, tiered):
        assert cat(log.directory) == Done(0, lines(range(BATCHES * RECORDS, len(log.batches) * RECORDS)), "")
        assert commitlog("copy", "--from", log.directory, "--to", tmp_path / f"{log.directory.name} copy").code == 0


def test_a_copy_that_a_full_disk_stopped_is_visible_and_goes_on(source: Written, tmp_path: Path) -> None:
    copy = ("copy", "--from", source.directory, "--to", tmp_path / "copy")
    count, second = len(source.batches) * RECORDS, source.batches[BATCHES].file
    with faults(tear(f"{tmp_path}/copy/*.log", call=2, after=20, lasting=True)):
        stopped = commitlog(*copy)
    path = f"{tmp_path}/copy/orders-0.unfinished/{second}"
    assert stopped == Done(1, "", f"commitlog: {path}: write: No space left on device\n")
    check_all(tmp_path / "copy", 3, "1 partition: 1 damaged", "run the same commitlog copy again")
    read = cat(tmp_path / "copy")
    assert (read.code, read.stdout) == (3, "")
    assert read.stderr.startswith(f"commitlog: {tmp_path}/copy/orders-0.unfinished: the copy of this partition to here")
    done = commitlog(*copy)
    whole = f"offsets 0 to {count}, {SEGMENTS} segments with {source.size:,} bytes"
    assert done == Done(0, lines(f"{topic}-0: {whole}" for topic in TOPICS), "")
    records = f"{SEGMENTS} segments, {len(source.batches)} batches and {count} records"
    verified = commitlog("verify", "--log-dir", tmp_path / "copy")
    sound = f"sound; {records} in {source.size:,} sound bytes, up to offset {count}"
    assert verified == Done(0, lines([*(f"{each}-0: {sound}" for each in TOPICS), "verify: 2 partitions: 2 done"]), "")
    assert all(cat(tmp_path / "copy", topic) == Done(0, lines(range(count)), "") for topic in TOPICS)


def test_a_producer_counts_what_it_appended_before_the_disk_was_full(source: Written, tmp_path: Path) -> None:
    log = source.copied(tmp_path / "log")
    settings = ("--alter", "--entity-type", "topics", "--entity-name", "orders")
    limits = "segment.bytes=40000,max.message.bytes=20000"
    assert commitlog("configs", "--log-dir", log.directory, *settings, "--add-config", limits).code == 0
    before, produced = len(log.batches) * RECORDS, [f"{n:0{LINE_BYTES - 1}}" for n in range(5_000)]
    with faults(tear("*/orders-0/*.log", call=8, after=100, lasting=True)):
        stopped = commitlog("produce", "--log-dir", log.directory, "-t", "orders", stdin=lines(produced).encode())
    read = cat(log.directory)
    appended = len(read.stdout.splitlines()) - before
    assert (stopped.code, read.code, 0 < appended < len(produced)) == (1, 0, True)
    assert read.stdout == lines([*range(before), *produced[:appended]])
    assert stopped.stderr.endswith(f"; appended before this: {appended:,} records\n")


def test_a_producer_on_a_full_disk_states_what_it_appended_and_can_go_on(source: Written, tmp_path: Path) -> None:
    log = source.copied(tmp_path / "log")
    produce = ("produce", "--log-dir", log.directory, "-t", "orders")
    before, produced = len(log.batches) * RECORDS, [f"{n:0{LINE_BYTES - 1}}" for n in range(12_000)]
    with faults(tear("*/orders-0/*.log", call=2, after=100, lasting=True)):
        stopped = commitlog(*produce, stdin=lines(produced).encode())
    appended = READ_BYTES // LINE_BYTES  # of the first read; the second one's batch is torn
    assert (stopped.code, stopped.stdout) == (1, "")
    path = f"{log.directory}/orders-0/{before:020}.log"
    assert stopped.stderr.startswith(f"commitlog: appending to orders-0 failed 3 times: {path}: write: No space left")
    assert stopped.stderr.endswith(f"; appended before this: {appended:,} records\n")
    assert cat(log.directory) == Done(0, lines([*range(before), *produced[:appended]]), "")
    verified = commitlog("verify", "--log-dir", log.directory)
    assert (verified.code, last_line(verified.stdout)) == (0, "verify: 2 partitions: 2 done")
    whole = f"{SEGMENTS + 1} segments, {len(log.batches) + 2} batches and {before + appended:,} records"
    # The torn batch was cut off when the log was opened again, to count.
    assert verified.stdout.startswith(f"orders-0: sound; {whole}")
    assert commitlog(*produce, stdin=lines(produced[appended:]).encode()).code == 0
    assert cat(log.directory) == Done(0, lines([*range(before), *produced]), "")
