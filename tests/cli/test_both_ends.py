"""Commands that read print the same of a directory and of its copy on an object store, but for one table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager, Records, TopicPartition
from pyspark_commitlog.storage.bucket.files.filesystem import open_files
from pyspark_commitlog.storage.transfer.groups import copy_groups
from pyspark_commitlog.storage.transfer.to_bucket import copy_to_bucket
from tests.cli.in_process import commitlog
from tests.support.clock import ManualClock
from tests.support.logs.building import NOW_MS, append, end_transaction, write_transactional
from tests.support.stores.served import ServedStores

URL = "s3://memory/logs"

SAME = [
    "topics --list",
    "topics --describe",
    "topics --describe --json",
    "topics --describe --topic nothing",
    "configs --describe",
    "configs --describe --all --topic orders --json",
    "offsets",
    "offsets --time -2",
    "offsets --time -3",
    f"offsets --time {NOW_MS + 1500}",
    "offsets --topic orders --partitions 1",
    "groups --list",
    "groups --describe --all-groups",
    "groups --describe --group board --json",
    "groups --describe --group nothing",
    "cat -t orders -e",
    "cat -t orders -e --json",
    "cat -t orders -e -p 0 -o 3",
    "cat -t orders -e -p 0 -o -2 -c 1",
    "cat -t orders -e -q -o 99",
    f"cat -t orders -e -o s@{NOW_MS + 1500} -o e@{NOW_MS + 3500}",
    "cat -t orders -e -o stored --group board",
    "cat -t pay -e",
    "cat -t pay -e --isolation-level read_uncommitted",
    "cat -t nothing -e",
    "describe -t pay --json",
    "transactions --list",
    "transactions --describe",
    "transactions --find-hanging",
    "metrics --once --cluster-name c",
    "verify --topics pay",
]

OF_GROUPS = (
    r"(?m)^.*(__consumer_offsets|\toffsets).*\n",
    "an object store keeps the offsets of groups in commits: the topic that shows them has offsets of its own",
)
# What differs, and why: a pattern that is removed from both outputs.
EXCEPTIONS = {
    "topics --describe": OF_GROUPS,
    "topics --describe --json": OF_GROUPS,
    "configs --describe": OF_GROUPS,
    "offsets": OF_GROUPS,
    "offsets --time -2": OF_GROUPS,
    "offsets --time -3": OF_GROUPS,
    "metrics --once --cluster-name c": (
        r"(?m)^.*(__consumer_offsets|segment|poll_time|_seconds|_ms).*\n",
        "the same; the empty segment at the end of each partition; and times of the look",
    ),
    "groups --describe --group board --json": (
        r'"(commit_timestamp|lag_seconds)": [0-9.-]+',
        "commits of offsets have no time for each group; and the age of a record is at the time of the look",
    ),
    "describe -t pay --json": (
        r'"segments": \[.*\]|"inode": \d+',
        "an object store shows an empty segment at the end of each partition",
    ),
    "transactions --find-hanging": (r" [0-9]{7,} ", "the age of a transaction is at the time of the look"),
    "verify --topics pay": (r"\d+ segments?", "the same empty segment is counted"),
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("ends") / "log")
    with LogManager.open(path, create=True, clock=ManualClock(NOW_MS)) as manager:
        manager.create_topic("orders", partitions=2, configs={"retention.ms": "-1"})
        for n in range(5):
            headers = [(b"a", b"1"), (b"b", None)] if n == 1 else []
            value = None if n == 3 else b"v%d" % n
            log = manager.open_log("orders", 0)
            log.append_records(Records.to_append([b"k%d" % n], [value], NOW_MS + n * 1000, headers))
            if n == 2:
                log.roll()
        append(manager.open_log("orders", 1), b"\xff\xfe", None)
        manager.create_topic("pay", partitions=1)
        log = manager.open_log("pay", 0)
        write_transactional(log, 1, 0, b"kept")
        end_transaction(log, 1, commit=True)
        write_transactional(log, 1, 1, b"aborted")
        end_transaction(log, 1, commit=False)
        write_transactional(log, 1, 2, b"open")
        offsets = {
            TopicPartition("orders", 0): CommittedOffset(2, "here"),
            TopicPartition("pay", 0): CommittedOffset(0),
        }
        GroupOffsets(manager, partitions=1).commit("board", offsets)
    return path


@pytest.fixture(scope="module")
def stores(directory: str) -> ServedStores:
    with pytest.MonkeyPatch.context() as monkeypatch:
        stores = ServedStores(monkeypatch)
        log = stores.create(URL)
        with LogManager.open(directory) as manager:
            list(copy_to_bucket(manager, log))
            copy_groups(manager, log)
    return stores


@pytest.mark.parametrize("arguments", SAME)
def test_the_output_is_the_same(
    arguments: str, directory: str, stores: ServedStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores.serve(monkeypatch)
    command, *rest = arguments.split()
    of_directory = commitlog(command, "--log-dir", directory, *rest)
    of_bucket = commitlog(command, "--log-dir", URL, *rest)
    pattern, _ = EXCEPTIONS.get(arguments, ("$^", ""))
    assert of_bucket.code == of_directory.code
    for one, other in ((of_bucket.stdout, of_directory.stdout), (of_bucket.stderr, of_directory.stderr)):
        assert re.sub(pattern, "", one.replace(URL, directory)) == re.sub(pattern, "", other)


def test_files_of_an_object_store_are_dumped_as_those_of_a_directory(
    directory: str, stores: ServedStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores.serve(monkeypatch)
    for file in ("pay-0/00000000000000000000.log", "orders-0/00000000000000000000.timeindex"):
        one, other = (
            commitlog("dump-log", "--print-data-log", "--files", f"{each}/{file}") for each in (directory, URL)
        )
        assert (other.code, other.stdout.replace(URL, directory)) == (0, one.stdout)
        assert one.stdout.count("\n") > 1


def test_every_exception_has_a_command_that_needs_it() -> None:
    assert EXCEPTIONS.keys() <= set(SAME)


def test_nothing_was_put_by_reading(directory: str, stores: ServedStores, monkeypatch: pytest.MonkeyPatch) -> None:
    stores.serve(monkeypatch)
    before = dict(stores.stores[URL].objects)
    commitlog("verify", "--log-dir", URL)
    assert stores.stores[URL].objects == before
    assert open_files(URL).root == URL
    assert Path(directory).is_dir()
