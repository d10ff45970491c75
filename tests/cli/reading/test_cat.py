"""``commitlog cat``: compared with Kafka's consumer for the same directory, kcat's formats, and a growing log."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager, Records, delete_records, delete_topic
from tests.cli.in_process import commitlog
from tests.support.clock import ManualClock
from tests.support.kafka import broker_dirs
from tests.support.logs.building import NOW_MS, append, end_transaction, write_transactional
from tests.support.tiered import tiered_directory


def iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()


STAGES = ("plain/final", "codecs/final", "transactions/final", "times/final")


def shown(record: dict[str, Any]) -> tuple[Any, ...]:
    """Converts a line of JSON to the form that records have in consumed.json."""
    kind = {"create": "CreateTime", "logappend": "LogAppendTime", "unknown": "NoTimestampType"}[record["tstype"]]
    return record["offset"], record["ts"], kind, member(record, "key"), member(record, "payload")


def member(record: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_base64" in record:
        return base64.b64decode(record[f"{name}_base64"])
    text = record[name]
    return None if text is None else text.encode()


@pytest.mark.parametrize("stage", STAGES)
def test_json_has_what_kafkas_consumer_returned(stage: str) -> None:
    log_dir = broker_dirs.stage(stage) / "log"
    consumed = broker_dirs.consumed(stage)
    for place, by_isolation in list(consumed.items())[:4]:
        topic, partition = broker_dirs.topic_partition(place)
        for isolation in by_isolation.keys() & {"read_committed", "read_uncommitted"}:
            cat = ("cat", "--log-dir", log_dir, "-t", topic, "-p", partition, "-e", "-q", "-J")
            done = commitlog(*cat, "--isolation-level", isolation)
            assert (done.code, done.stderr) == (0, "")
            ours = [shown(json.loads(line)) for line in done.stdout.splitlines()]
            assert ours == [row[:5] for row in broker_dirs.expected_rows(by_isolation[isolation]["records"])]


# --- on a directory of ours


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Topic orders: five records in partition 0, one second apart, one of them a tombstone; two in partition 1."""
    path = str(tmp_path_factory.mktemp("cat") / "log")
    with LogManager.open(path, create=True, clock=ManualClock(NOW_MS)) as manager:
        manager.create_topic("orders", partitions=2)
        for n in range(5):
            value = None if n == 3 else b"v%d" % n
            headers = [(b"a", b"1"), (b"b", None)] if n == 1 else []
            manager.open_log("orders", 0).append_records(
                Records.to_append([b"k%d" % n], [value], NOW_MS + n * 1000, headers)
            )
        append(manager.open_log("orders", 1), b"\xff\xfe", None)
        manager.create_topic("pay", partitions=1)
        log = manager.open_log("pay", 0)
        write_transactional(log, 1, 0, b"kept")
        end_transaction(log, 1, commit=True)
        write_transactional(log, 1, 1, b"aborted")
        end_transaction(log, 1, commit=False)
        write_transactional(log, 1, 2, b"open")
    return path


def cat(directory: str, *arguments: object) -> list[str]:
    done = commitlog("cat", "--log-dir", directory, "-t", "orders", "-q", *arguments)
    assert (done.code, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("offset", "values"),
    [
        ("beginning", ["v0", "v1", "v2", "", "v4"]),
        ("3", ["", "v4"]),
        ("-2", ["", "v4"]),
        ("-99", ["v0", "v1", "v2", "", "v4"]),
        ("end", []),
        (f"s@{NOW_MS + 1500}", ["v2", "", "v4"]),
        (f"s@{iso(NOW_MS + 1500)}", ["v2", "", "v4"]),
        (f"s@{NOW_MS + 9000}", []),
    ],
)
def test_printing_begins_at_the_given_offset(offset: str, values: list[str], directory: str) -> None:
    assert cat(directory, "-p", 0, "-e", "-o", offset) == values


def test_printing_ends_at_the_end_time(directory: str) -> None:
    assert cat(directory, "-p", 0, "-o", f"s@{NOW_MS + 1000}", "-o", f"e@{NOW_MS + 3000}") == ["v1", "v2"]
    assert cat(directory, "-p", 0, "-o", f"s@{iso(NOW_MS + 1000)}", "-o", f"e@{iso(NOW_MS + 3000)}") == ["v1", "v2"]


def test_stored_begins_at_the_committed_offset_or_else_at_the_beginning(directory: str) -> None:
    with LogManager.open(directory) as manager:
        GroupOffsets(manager).commit("board", {("orders", 0): CommittedOffset(3)})
    assert cat(directory, "-e", "-Z", "-o", "stored", "--group", "board") == ["NULL", "v4", r"\xff\xfe", "NULL"]
    with LogManager.open(directory) as manager:
        assert GroupOffsets(manager).fetch("board") == {("orders", 0): CommittedOffset(3)}


def test_stored_begins_at_the_log_start_if_the_groups_next_record_was_deleted(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("orders", partitions=1)
        append(manager.open_log("orders", 0), b"v0", b"v1", b"v2")
        GroupOffsets(manager).commit("board", {("orders", 0): CommittedOffset(1)})
        assert [deleted.error for deleted in delete_records(manager, {("orders", 0): 2})] == [None]
    assert cat(str(tmp_path / "log"), "-e", "-o", "stored", "--group", "board") == ["v2"]


def test_printing_ends_after_count_records(directory: str) -> None:
    assert cat(directory, "-p", 0, "-c", 2) == ["v0", "v1"]
    assert cat(directory, "-c", 6, "-Z") == ["v0", "v1", "v2", "NULL", "v4", r"\xff\xfe"]


def test_keys_and_nulls_are_printed_as_requested(directory: str) -> None:
    assert cat(directory, "-p", 0, "-e", "-K", "\\t") == ["k0\tv0", "k1\tv1", "k2\tv2", "k3\t", "k4\tv4"]
    assert cat(directory, "-p", 0, "-c", 4, "-K", "=", "-Z", "-D", ";") == ["k0=v0;k1=v1;k2=v2;k3=NULL;"]


def test_formats_are_those_of_kcat(directory: str) -> None:
    text = r"%t [%p] at %o: %K %k, %S %s, %T, %h 100%%\x21\n"
    assert cat(directory, "-p", 0, "-o", "1", "-e", "-f", text)[:3:2] == [
        f"orders [0] at 1: 2 k1, 2 v1, {NOW_MS + 1000}, a=1,b=NULL 100%!",
        f"orders [0] at 3: 2 k3, -1 , {NOW_MS + 3000},  100%!",
    ]


def test_json_keeps_bytes_that_are_not_text(directory: str) -> None:
    first, second = map(json.loads, cat(directory, "-p", 1, "-e", "-J"))
    assert first["payload_base64"] == base64.b64encode(b"\xff\xfe").decode()
    assert (second["payload"], second["key"], "headers" in second) == (None, None, False)
    with_headers = json.loads(cat(directory, "-p", 0, "-o", 1, "-c", 1, "-J")[0])
    assert with_headers["headers"] == ["a", "1", "b", None]


def test_the_end_of_each_partition_is_reported(directory: str) -> None:
    done = commitlog("cat", "--log-dir", directory, "-t", "orders", "-e")
    assert done.stderr.splitlines() == [
        "% Reached end of topic orders [0] at offset 5",
        "% Reached end of topic orders [1] at offset 2",
    ]


def test_aborted_and_open_records_are_printed_only_on_request(directory: str) -> None:
    pay = ("cat", "--log-dir", directory, "-t", "pay", "-q", "-e")
    assert commitlog(*pay).stdout == "kept\n"
    assert commitlog(*pay, "--isolation-level", "read_uncommitted").stdout == "kept\naborted\nopen\n"


# Ctrl-C reaches it even where the tests were started in the background, where a shell has it ignored.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from pyspark_commitlog.cli import main
main()
"""


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[tuple[LogManager, subprocess.Popen[str]]]:
    """A topic of two partitions with one record, and a process that follows it."""
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("orders", partitions=2)
        append(manager.open_log("orders", 0), b"first")
        command = [sys.executable, "-c", PROGRAM, "cat", "--log-dir", manager.directory, "-t", "orders"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as following:
            yield manager, following
            following.kill()


def test_cat_waits_for_new_records_until_it_is_interrupted(growing: tuple[LogManager, subprocess.Popen[str]]) -> None:
    manager, following = growing
    assert following.stdout is not None
    assert following.stdout.readline() == "first\n"
    append(manager.open_log("orders", 1), b"second")
    assert following.stdout.readline() == "second\n"
    manager.open_log("orders", 0).roll()
    append(manager.open_log("orders", 0), b"third")
    assert following.stdout.readline() == "third\n"
    os.kill(following.pid, signal.SIGINT)
    _, errors = following.communicate(timeout=60)
    assert following.returncode == 0
    assert "Traceback" not in errors


def test_damage_exits_with_3_after_the_sound_records(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("orders", partitions=1)
        append(manager.open_log("orders", 0), b"sound")
        append(manager.open_log("orders", 0), b"damaged")
    [path] = (tmp_path / "log" / "orders-0").glob("*.log")
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    done = commitlog("cat", "--log-dir", tmp_path / "log", "-t", "orders", "-e", "-q")
    assert done.code == 3
    assert str(path) in done.stderr


def test_a_log_start_above_all_that_was_written_is_an_error() -> None:
    """Nothing was shown, though a wrong digit of the checkpoint may hide all records."""
    log_dir = broker_dirs.stage("recovery-fatal/log-start-beyond-before") / "log"
    done = commitlog("cat", "--log-dir", log_dir, "-t", "f", "-e", "-q")
    assert (done.code, done.stdout) == (3, "")
    assert "log-start-offset-checkpoint" in done.stderr


# --- partitions that do not hold the offset


@pytest.fixture
def uneven(tmp_path: Path) -> str:
    """Topic orders: offsets 0 to 19 in partition 0, 0 to 4 in 1, and 8 to 11 in 2, after lower ones were deleted."""
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("orders", partitions=3)
        for number, count in enumerate((20, 5, 12)):
            append(manager.open_log("orders", number), *(b"%d" % n for n in range(count)))
        list(delete_records(manager, {("orders", 2): 8}))
        return manager.directory


def offsets(**by_partition: range) -> str:
    return "".join(f"{name[1:]}:{n} " for name, found in by_partition.items() for n in found)


BELOW = "commitlog: orders [2] has offsets 8 to 12, but not {}; starting at 8\n"
ABOVE = "commitlog: orders [1] has offsets 0 to 5, but not {}; starting at 5\n"


@pytest.mark.parametrize(
    ("begin", "printed", "said"),
    [
        pytest.param("10", offsets(p0=range(10, 20), p2=range(10, 12)), ABOVE.format(10), id="above the end of one"),
        pytest.param(
            "3", offsets(p0=range(3, 20), p1=range(3, 5), p2=range(8, 12)), BELOW.format(3), id="deleted from one"
        ),
        pytest.param(
            "7", offsets(p0=range(7, 20), p2=range(8, 12)), ABOVE.format(7) + BELOW.format(7), id="one of each"
        ),
        pytest.param(
            "-6", offsets(p0=range(14, 20), p1=range(5), p2=range(8, 12)), "", id="fewer than that many in two"
        ),
        pytest.param("5", offsets(p0=range(5, 20), p2=range(8, 12)), BELOW.format(5), id="the end of one"),
    ],
)
def test_a_partition_without_the_offset_does_not_stop_the_others(
    begin: str, printed: str, said: str, uneven: str
) -> None:
    done = commitlog("cat", "--log-dir", uneven, "-t", "orders", "-e", "-q", "-f", "%p:%o ", "-o", begin)
    assert (done.code, done.stdout, done.stderr) == (0, printed, said)


def test_a_committed_offset_may_be_deleted_or_above_the_log_end(uneven: str) -> None:
    with LogManager.open(uneven) as manager:
        committed = {("orders", number): CommittedOffset(offset) for number, offset in ((0, 18), (1, 9), (2, 2))}
        GroupOffsets(manager).commit("board", committed)
    cat = ("cat", "--log-dir", uneven, "-t", "orders", "-e", "-f", "%p:%o ", "-o", "stored", "--group", "board")
    for quiet, said in (((), ABOVE.format(9) + BELOW.format(2)), (("-q",), "")):
        done = commitlog(*cat, *quiet)
        assert (done.code, done.stdout) == (0, offsets(p0=range(18, 20), p2=range(8, 12)))
        assert done.stderr.partition("% Reached")[0] == said


def test_offsets_deleted_while_cat_follows_are_named(uneven: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def between(_: float) -> None:
        if manager.open_log("orders", 1).log_start_offset:
            raise KeyboardInterrupt
        append(manager.open_log("orders", 1), b"unprinted", b"printed")
        list(delete_records(manager, {("orders", 1): 6}))

    monkeypatch.setattr(time, "sleep", between)
    with LogManager.open(uneven) as manager:
        done = commitlog("cat", "--log-dir", uneven, "-t", "orders", "-p", 1, "-o", "end")
    assert (done.code, done.stdout) == (0, "printed\n")
    assert "commitlog: orders [1]: offsets 5 to 5 were deleted before they were printed\n" in done.stderr


def test_a_topic_made_again_while_cat_follows_is_an_error_and_none_of_its_records_are_printed(
    uneven: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_again(_: float) -> None:
        if manager.open_log("orders", 0).log_end_offset > 20:
            raise KeyboardInterrupt
        delete_topic(manager, "orders")
        manager.create_topic("orders", partitions=3)
        append(manager.open_log("orders", 0), *(b"new %d" % number for number in range(30)))

    monkeypatch.setattr(time, "sleep", make_again)
    with LogManager.open(uneven) as manager:
        done = commitlog("cat", "--log-dir", uneven, "-t", "orders", "-p", 0, "-q", "-o", "19")
    assert (done.code, done.stdout) == (1, "19\n")
    assert "topic orders was deleted and made again: it was read with id " in done.stderr
    assert "run the command again" in done.stderr


def test_stored_by_a_group_whose_partition_is_missing_is_an_error_that_says_so(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("orders", partitions=1)
        GroupOffsets(manager).commit("board", {("orders", 0): CommittedOffset(0)})
        _, number = GroupOffsets(manager).partition_of("board")
    shutil.rmtree(tmp_path / "log" / f"__consumer_offsets-{number}")
    done = commitlog("cat", "--log-dir", tmp_path / "log", "-t", "orders", "-e", "-o", "stored", "--group", "board")
    assert (done.code, done.stdout) == (1, "")
    assert f"__consumer_offsets-{number}, which holds 'board', is not in" in done.stderr


def test_an_offset_above_every_log_end_is_an_error(uneven: str) -> None:
    done = commitlog("cat", "--log-dir", uneven, "-t", "orders", "-e", "-o", 20)
    assert done.code == 0  # the log end of one: what comes next has it
    done = commitlog("cat", "--log-dir", uneven, "-t", "orders", "-e", "-o", 21)
    assert (done.code, done.stdout, done.stderr.count("but not 21")) == (1, "", 3)


# --- wrong use


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["-o", "start"], "beginning, end, stored, 7, -7", id="no place"),
        pytest.param(["-o", "1", "-o", "2"], "once for the start", id="two places"),
        pytest.param(["-o", "s@noon"], "neither ISO 8601, such as 2026-11-21T06:00, nor milliseconds", id="no time"),
        pytest.param(["-o", "e@1", "-o", "e@2"], "once for the start", id="two ends"),
        pytest.param(["-o", "stored"], "--group", id="stored by nobody"),
        pytest.param(["-o", "1", "--group", "board"], "'--offset stored'", id="a group for nothing"),
        pytest.param(["-f", "%x"], "%s", id="no such field"),
        pytest.param(["-c", "-1"], "--count", id="fewer than none"),
    ],
)
def test_wrong_use_ends_with_2_and_says_what_is_right(arguments: list[str], said: str, directory: str) -> None:
    done = commitlog("cat", "--log-dir", directory, "-t", "orders", "-e", *arguments)
    assert (done.code, done.stdout) == (2, "")
    assert said in done.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["-t", "order"], "did you mean 'orders'?", id="no such topic"),
        pytest.param(["-t", "orders", "-o", "stored", "--group", "bored"], "no group 'bored'", id="no such group"),
        pytest.param(["-t", "orders", "-p", "7"], "has partitions [0, 1], but not 7", id="no such partition"),
        pytest.param(["-t", "orders", "-p", "0", "-o", "9"], "has offsets 0 to 5, but not 9", id="no such offset"),
    ],
)
def test_what_is_not_there_is_one_line_that_tells_what_is(arguments: list[str], said: str, directory: str) -> None:
    done = commitlog("cat", "--log-dir", directory, "-e", *arguments)
    assert (done.code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert said in done.stderr


def test_help_names_kcats_flags() -> None:
    done = commitlog("cat", "--help")
    assert done.code == 0
    for flag in ("-t", "-p", "-o", "-c", "-e", "-f", "-K", "-J", "-D", "-Z", "-q", "--group", "--isolation-level"):
        assert flag in done.stdout


def test_records_that_a_broker_has_only_in_remote_storage_are_named(tmp_path: Path) -> None:
    directory = tiered_directory(tmp_path / "log")
    said = "offsets 0 to 617 are only in the broker's remote storage, which is not read"
    cat = ("cat", "--log-dir", directory, "-t", "t-plain", "-e")
    assert commitlog(*cat).stderr.splitlines()[0] == f"commitlog: t-plain [0]: {said}"
    assert [said in commitlog(*cat, "-o", offset).stderr for offset in (3, 618, 619)] == [True, True, False]
    assert said in commitlog("describe", "--log-dir", directory, "--topic", "t-plain").stdout
    described = json.loads(commitlog("describe", "--log-dir", directory, "--topic", "t-plain", "--json").stdout)
    assert described["remote_offsets"] == [0, 618]


# --- damage


@pytest.fixture
def damaged(tmp_path: Path) -> str:
    """Topic lines: 40 batches of two records in segments; the second batch of the second segment has a flipped byte."""
    path = tmp_path / "log"
    with LogManager.open(str(path), create=True) as manager:
        configs = {"segment.bytes": "1000", "index.interval.bytes": "1"}
        manager.create_topic("lines", partitions=1, configs=configs)
        log = manager.open_log("lines", 0)
        for n in range(40):
            append(log, b"%d" % (2 * n), b"%d" % (2 * n + 1))
    second = sorted((path / "lines-0").glob("*.log"))[1]
    data = bytearray(second.read_bytes())
    data[len(data) // (len(data) // 77) + 75] ^= 1
    second.write_bytes(data)
    return str(path)


def test_skip_damaged_prints_all_sound_batches_and_reports_the_offsets_between(damaged: str) -> None:
    done = commitlog("cat", "--log-dir", damaged, "-t", "lines", "-e", "-q", "--skip-damaged")
    printed = [int(line) for line in done.stdout.splitlines()]
    first, last = (int(each) for each in re.findall(r"skipped offsets (\d+) to (\d+)", done.stderr)[0])
    assert (done.code, done.stderr.count("\n")) == (3, 1)
    assert printed == [each for each in range(80) if not first <= each <= last]
    assert last - first == 1
    behind = commitlog("cat", "--log-dir", damaged, "-t", "lines", "-e", "-q", "--skip-damaged", "-o", last + 1)
    assert (behind.code, behind.stdout.split("\n")[0]) == (0, str(last + 1))


def test_reading_right_after_damage_names_the_log_and_the_way_around_it(damaged: str) -> None:
    skipping = commitlog("cat", "--log-dir", damaged, "-t", "lines", "-e", "-q", "--skip-damaged")
    [last] = re.findall(r"skipped offsets \d+ to (\d+)", skipping.stderr)
    done = commitlog("cat", "--log-dir", damaged, "-t", "lines", "-e", "-q", "-o", int(last) + 1)
    assert (done.code, done.stdout) == (3, "")
    assert ".log, position " in done.stderr
    assert "to read around it: --skip-damaged" in done.stderr
    assert "index" not in done.stderr


def test_skip_damaged_of_a_sound_topic_ends_with_0(directory: str) -> None:
    done = commitlog("cat", "--log-dir", directory, "-t", "pay", "-e", "-q", "--skip-damaged")
    assert (done.code, done.stdout, done.stderr) == (0, "kept\n", "")
