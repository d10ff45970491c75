"""``commitlog cat``, ``describe`` and ``topics`` on a directory of Kafka 0.7."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_commitlog.classic.log_0_7.directory import PositionLogDirectory
from pyspark_commitlog.classic.log_0_7.entries import encode
from pyspark_commitlog.classic.log_0_7.settings import PositionLogSettings
from tests.cli.in_process import commitlog
from tests.support.classic.kafka_0_7 import recorded, unpacked, write_segments

LAYOUT = ("--layout", "kafka-0.7")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked("main", tmp_path_factory.mktemp("main")) / "log"


def test_cat_prints_every_message_with_its_position(log: Path) -> None:
    done = commitlog("cat", "--log-dir", log, "-t", "alpha", "-p", 0, "-e", "-J", *LAYOUT)
    assert done.code == 0
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    entries = [each for _, inside, _ in recorded("main/settings.json")["entries"]["alpha-0"] for each in inside]
    assert sorted({row["offset"] for row in rows}) == entries
    assert len(rows) == 76
    assert {row["tstype"] for row in rows} == {"unknown"}
    assert done.stderr == "% Reached end of topic alpha [0] at offset 4914\n"


def test_cat_begins_at_a_position_and_ends_after_so_many(log: Path) -> None:
    arguments = ("cat", "--log-dir", log, "-t", "alpha", "-p", 0, "-e", "-q", "-f", "%o\n", *LAYOUT)
    assert commitlog(*arguments, "-o", 440, "-c", 4).stdout.split() == ["440", "440", "440", "677"]
    assert commitlog(*arguments, "-o", "end").stdout == ""
    done = commitlog(*arguments, "-o", 441)
    assert (done.code, "inside the one from 440 to 677" in done.stderr) == (1, True)
    assert commitlog(*arguments, "-o", "s@1").code == 2


def test_cat_waits_for_more(tmp_path: Path) -> None:
    with PositionLogDirectory(str(tmp_path / "log"), PositionLogSettings(flush_interval=1)) as logs:
        logs.log_to_append("t", 0).append(encode(b"first"))
        program = ["-c", "from pyspark_commitlog.cli import main; main()"]
        options = ["cat", "--log-dir", str(tmp_path / "log"), "-t", "t", "-q", *LAYOUT]
        with subprocess.Popen([sys.executable, *program, *options], stdout=subprocess.PIPE, text=True) as reader:
            try:
                assert reader.stdout is not None
                assert reader.stdout.readline() == "first\n"
                logs.log_to_append("t", 0).append(encode(b"second"))
                assert reader.stdout.readline() == "second\n"
                reader.send_signal(signal.SIGINT)
                assert reader.wait(30) == 0
            finally:
                reader.kill()


def test_describe_shows_the_files(log: Path) -> None:
    done = commitlog("describe", "--log-dir", log, "-t", "alpha", "-p", 0, *LAYOUT)
    assert done.stdout.splitlines()[0] == "alpha-0: positions 0 to 4914, 3 files, 4,914 bytes"
    assert done.stdout.splitlines()[3].split() == ["0", "1741", "1741", "2026-11-26", "17:17:44.000", "UTC"]
    (row,) = map(
        json.loads,
        commitlog("describe", "--log-dir", log, "-t", "beta", "-p", 1, "--json", *LAYOUT).stdout.splitlines(),
    )
    assert [each["first_position"] for each in row["files"]] == [0, 1889, 4312]
    assert commitlog("describe", "--log-dir", log, "-t", "alpha", "--as-of", "1", *LAYOUT).code == 2


def test_describe_without_a_topic_has_a_line_for_each(log: Path) -> None:
    done = commitlog("describe", "--log-dir", log, "--json", *LAYOUT)
    found = {each["topic"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert list(found) == ["alpha", "beta", "gamma"]
    files = [path.stat() for path in log.glob("alpha-*/*.kafka")]
    newest_ms = max(int(each.st_mtime) for each in files) * 1000
    assert (found["alpha"]["bytes"], found["alpha"]["last_change_ms"]) == (sum(x.st_size for x in files), newest_ms)
    assert "alpha" in commitlog("describe", "--log-dir", log, *LAYOUT).stdout


def test_topics_are_listed_and_nothing_else_is_done(log: Path) -> None:
    assert commitlog("topics", "--log-dir", log, "--list", *LAYOUT).stdout.split() == ["alpha", "beta", "gamma"]
    assert commitlog("topics", "--log-dir", log, "--delete", "--topic", "alpha", *LAYOUT).code == 2


def test_a_directory_of_0_7_is_named_as_such_without_the_flag(log: Path) -> None:
    for command in (("topics", "--list"), ("cat", "-t", "alpha"), ("describe", "-t", "alpha")):
        done = commitlog(*command, "--log-dir", log)
        assert done.code == 1
        assert "a log directory of Kafka 0.7: read it with layout kafka-0.7" in done.stderr


def test_damage_has_its_exit_code(tmp_path: Path) -> None:
    log = unpacked("recovery", tmp_path) / "no-marker-before"
    done = commitlog("cat", "--log-dir", log, "-t", "d_codec3", "-e", "-q", *LAYOUT)
    assert (done.code, "unknown compression codec" in done.stderr) == (3, True)


@pytest.mark.parametrize("at", [20, 80])
def test_messages_before_damage_in_the_last_file_are_printed_before_the_error(tmp_path: Path, at: int) -> None:
    messages = b"".join(encode(b"message %d" % number) for number in range(5))
    damaged = bytearray(messages)
    damaged[at] ^= 1
    write_segments(tmp_path / "log" / "t-0", messages, bytes(damaged))
    done = commitlog("cat", "--log-dir", tmp_path / "log", "-t", "t", "-e", "-q", *LAYOUT)
    sound = [f"message {number}" for number in range(at // (len(messages) // 5))]
    assert done.code == 3
    assert done.stdout.splitlines() == [f"message {number}" for number in range(5)] + sound
    assert f"{len(messages):020}.kafka, position {len(sound) * len(messages) // 5}" in done.stderr


def test_find_searches_values_and_gives_their_positions(log: Path) -> None:
    find = ("find", "--log-dir", log, "-t", "alpha", *LAYOUT)
    cat = commitlog("cat", "--log-dir", log, "-t", "alpha", "-e", "-q", "-J", *LAYOUT).stdout.splitlines()
    wanted = [line for line in cat if b"broke" in payload(json.loads(line))]
    done = commitlog(*find, "--value-contains", "broke", "--json")
    assert (done.code, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == sorted(wanted)
    assert wanted
    refused = commitlog(*find, "--value-contains", "1", "--newest-first")
    assert (refused.code, "have no times" in refused.stderr) == (2, True)


def payload(row: dict[str, str]) -> bytes:
    return row["payload"].encode() if "payload" in row else base64.b64decode(row["payload_base64"])
