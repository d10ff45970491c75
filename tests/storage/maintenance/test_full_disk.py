"""Retention and deletion on a file system that is really full: a tmpfs of 2 MiB, in a mount namespace of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

MOUNT = 'mount -t tmpfs -o size=2m tmpfs "$1" && cd "$1" && exec "$2" -c "$3"'
PROGRAM = """
import json, os
from pyspark_commitlog.storage import LogManager, TransactionalWriter, TransactionCoordinator
from tests.cli.in_process import commitlog
from tests.support.logs.building import records
from tests.support.logs.transactions import encoded

RESERVE = "log/.commitlog.reserve"

def make(partitions=1):
    with LogManager.open("log", create=True) as manager:
        manager.create_topic("t", partitions=partitions, configs={"file.delete.delay.ms": "1"})
        for number in range(partitions):
            log = manager.open_log("t", number)
            for n in range(4):
                log.append_records(records([b"%d" % n * 20_000]))
                if n < 3:
                    log.roll()

def fill():
    with open("filler", "ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    assert not free()

def free():
    return os.statvfs(".").f_bfree > 0

def retain(limit):
    unlimited = [word for key in ("ms", "bytes") for word in ("--config", f"retention.{key}=-1")]
    return commitlog("retain", "--log-dir", "log", *unlimited, "--config", limit)

def values(number=0):
    with LogManager.open("log") as manager, manager.open_reader("t", number) as reader:
        pieces = reader.records(reader.log_start_offset, reader.log_end_offset)
        return [value[:1].decode() for piece in pieces for value in piece.values.to_list()]
"""


def on_a_small_disk(directory: Path, program: str) -> Any:
    """Returns what ``program`` prints last, as JSON. It runs in the root of a small disk."""
    probe = ["unshare", "--user", "--map-root-user", "--mount", "true"]
    if not Path("/usr/bin/unshare").exists() or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("no mounts in a namespace of one's own here")
    done = subprocess.run(
        [*probe[:-1], "sh", "-c", MOUNT, "sh", str(directory), sys.executable, PROGRAM + dedent(program)],
        env={"PYTHONPATH": str(Path.cwd()), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("limit", "kept"), [("retention.bytes=20000", ["3"]), ("retention.ms=0", [])], ids=["closed segments", "all"]
)
def test_retention_on_a_full_disk_deletes_and_the_next_run_frees_the_space(
    tmp_path: Path, limit: str, kept: list[str]
) -> None:
    found = on_a_small_disk(
        tmp_path,
        f"""
        make(partitions=3)
        fill()
        first = retain("{limit}")
        left = [values(number) for number in range(3)]
        second = retain("{limit}")
        print(json.dumps([first.code, left, second.code, free(), os.path.getsize(RESERVE) >= 65536]))
        """,
    )
    assert found == [0, [kept] * 3, 0, True, True]


def test_retention_recovers_the_log_of_a_writer_that_was_killed_by_a_full_disk(tmp_path: Path) -> None:
    found = on_a_small_disk(
        tmp_path,
        """
        make()
        if os.fork() == 0:
            manager = LogManager.open("log")
            log = manager.open_log("t", 0)
            log.append_records(records([b"4" * 20_000]))
            fill()
            os._exit(0)
        os.wait()
        done = retain("retention.bytes=40000")
        print(json.dumps([done.code, values()]))
        """,
    )
    assert found == [0, ["3", "4"]]


def test_an_abandoned_transaction_is_ended_on_a_full_disk_and_what_it_held_back_is_deleted(tmp_path: Path) -> None:
    code, said, kept = on_a_small_disk(
        tmp_path,
        """
        make()
        with LogManager.open("log") as manager:
            coordinator = TransactionCoordinator.open(manager, "dead", holder="a query", timeout_ms=1)
            writer = TransactionalWriter(manager, coordinator.begin([("t", 0)]))
            writer.append("t", 0, encoded(b"lost"))
            writer.sync()
            coordinator.close()
        fill()
        done = retain("retention.ms=0")
        print(json.dumps([done.code, done.stdout, values()]))
        """,
    )
    assert (code, kept) == (0, [])
    assert "epoch 0, state Ongoing: aborted" in said


def test_without_the_reserve_retention_says_what_to_do_and_loses_nothing(tmp_path: Path) -> None:
    code, said, values = on_a_small_disk(
        tmp_path,
        """
        make()
        os.remove(RESERVE)
        fill()
        done = retain("retention.bytes=20000")
        print(json.dumps([done.code, done.stdout + done.stderr, values()]))
        """,
    )
    assert (code, values) == (1, ["0", "1", "2", "3"])
    assert "free some space" in said


def test_records_are_deleted_on_a_full_disk_and_the_next_retention_frees_the_space(tmp_path: Path) -> None:
    found = on_a_small_disk(
        tmp_path,
        """
        make()
        with open("offsets.json", "w") as file:
            json.dump({"partitions": [{"topic": "t", "partition": 0, "offset": 3}]}, file)
        fill()
        first = commitlog("delete-records", "--log-dir", "log", "--offset-json-file", "offsets.json")
        left = values()
        second = retain("retention.ms=-1")
        third = retain("retention.ms=-1")
        print(json.dumps([first.code, left, second.code, third.code, free(), os.path.getsize(RESERVE) >= 65536]))
        """,
    )
    assert found == [0, ["3"], 0, 0, True, True]


def test_a_topic_is_deleted_on_a_full_disk(tmp_path: Path) -> None:
    found = on_a_small_disk(
        tmp_path,
        """
        make(partitions=2)
        fill()
        done = commitlog("topics", "--log-dir", "log", "--delete", "--topic", "t")
        with LogManager.open("log") as manager:
            print(json.dumps([done.code, [*manager.topics()], free(), os.path.getsize(RESERVE) >= 65536]))
        """,
    )
    assert found == [0, [], True, True]
