"""A log of 0.7 beside what a real Kafka 0.7.2 answered, kept and decided."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.classic.log_0_7.directory import PositionLogDirectory
from pyspark_commitlog.classic.log_0_7.entries import encode
from pyspark_commitlog.classic.log_0_7.log import offsets_without_log
from pyspark_commitlog.classic.log_0_7.settings import PositionLogSettings
from pyspark_commitlog.storage.errors import (
    CorruptionError,
    InvalidTopicError,
    LogStoreError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    UnknownTopicOrPartitionError,
)
from tests.support.classic.kafka_0_7 import (
    RECORDED_AT_MS,
    consumed,
    consumed_as_recorded,
    produced_sets,
    recorded,
    requests,
    settings_of,
    sizes,
    unpacked,
)
from tests.support.clock import ManualClock

CODES = {OffsetOutOfRangeError: 1, UnknownTopicOrPartitionError: 3, InvalidTopicError: -1}


@pytest.fixture(scope="module")
def main(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PositionLogDirectory]:
    """The log that the recorded fetches were answered from, read only."""
    directory = unpacked("main", tmp_path_factory.mktemp("main")) / "log"
    with PositionLogDirectory(str(directory), settings_of("main"), clock=ManualClock(RECORDED_AT_MS)) as logs:
        yield logs


def fetched(logs: PositionLogDirectory, topic: str, partition: int, position: int, length: int) -> dict[str, Any]:
    """The answer to a fetch, in the form that was recorded."""
    try:
        log = logs.log(topic, partition)
        data = b"" if log is None else log.read(position, length).read()
    except LogStoreError as error:
        return {"errorCode": CODES[type(error)]}
    return {"errorCode": 0, "bytes": len(data), **consumed(data, position)}


def as_recorded(answer: dict[str, Any], head_bytes: int) -> dict[str, Any]:
    if answer["errorCode"]:
        return {"errorCode": answer["errorCode"]}
    return {"errorCode": 0, "bytes": answer["sizeInBytes"] - head_bytes, **consumed_as_recorded(answer)}


def test_every_fetch_is_answered_as_recorded(main: PositionLogDirectory) -> None:
    asked = [one for one in recorded("main/fetch.json.xz") if one["size"] >= 0]
    assert len(asked) > 800
    check_answers(main, asked, [])


def test_every_multifetch_is_answered_as_recorded(main: PositionLogDirectory) -> None:
    for one in recorded("main/multifetch.json.xz"):
        for request, answer in zip(one["requests"], one["sets"], strict=True):
            assert fetched(main, *request) == as_recorded(answer, 0), request


def test_every_question_for_offsets_is_answered_as_recorded(main: PositionLogDirectory) -> None:
    asked = recorded("main/offsets.json.xz")["asked"]
    assert len(asked) > 300
    for one in (each for each in asked if "offsets" in each):
        log = main.log(one["topic"], one["partition"])
        time_ms, count = one["time"], one["max"]
        found = offsets_without_log(time_ms) if log is None else log.offsets_before(time_ms, count)
        assert found == one["offsets"], one


RANDOM_PARTITION = 1  # where the broker put the message for partition -1


def test_every_produce_writes_the_recorded_bytes(tmp_path: Path) -> None:
    kept = unpacked("main", tmp_path / "kept") / "log"
    logs = PositionLogDirectory(str(tmp_path / "log"), settings_of("main"))
    for frame in requests("main"):
        append_all(logs, frame)
    logs.close()
    for directory in (path for path in kept.iterdir() if path.is_dir()):
        assert contents(tmp_path / "log" / directory.name) == contents(directory), directory.name


def append_all(logs: PositionLogDirectory, frame: bytes) -> None:
    """Appends what a produce request has, up to a set that a broker closes the connection for."""
    for topic, partition, data in produced_sets(frame):
        try:
            logs.log_to_append(topic, RANDOM_PARTITION if partition == -1 else partition).append(data)
        except RecordTooLargeError:
            pass  # a broker drops the set
        except (CorruptionError, InvalidTopicError, UnknownTopicOrPartitionError):
            return


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.kafka"))}


def test_a_log_that_was_closed_in_order_gives_the_same_answers_again(tmp_path: Path) -> None:
    directory = unpacked("main", tmp_path) / "log"
    before = contents(directory / "alpha-0")
    PositionLogDirectory(str(directory), settings_of("main")).close()
    with PositionLogDirectory(str(directory), settings_of("main"), clock=ManualClock(RECORDED_AT_MS)) as logs:
        for one in recorded("main/fetch.json.xz")[::20]:
            where = one["topic"], one["partition"], one["offset"], one["size"]
            assert fetched(logs, *where) == as_recorded(one, 2)
    assert contents(directory / "alpha-0") == before
    assert (directory / ".kafka_cleanshutdown").exists()


# Flushes: log.flush.interval 5, topic.flush.intervals.ms timed:400


def test_readers_see_what_was_flushed_by_count_by_a_roll_and_by_time(tmp_path: Path) -> None:
    clock = ManualClock(1_795_720_000_000)
    logs = PositionLogDirectory(str(tmp_path / "log"), settings_of("flush"), clock=clock)
    sent = iter([one for one in requests("flush") if produced_sets(one)])
    killed = False
    for step in recorded("flush/steps.json.xz"):
        if "command" in step:
            append_all(logs, next(sent))
            continue
        if step["note"].startswith("1 s later"):
            clock.advance(1000)
            logs.sync_due()
        if "SIGKILL" in step["note"] and not killed:
            killed = True
            shutil.copytree(tmp_path / "log", tmp_path / "killed", ignore=shutil.ignore_patterns(".lock"))
            logs = PositionLogDirectory(str(tmp_path / "killed"), settings_of("flush"), clock=clock)
        if "before_max" in step and not looked_amid(step):
            assert seen(logs, step) == as_seen(step), step["note"]
    assert killed


def looked_amid(step: dict[str, Any]) -> bool:
    """Whether the recording looked before the broker had the request, or while its scheduler synced."""
    return not step["files"] or step["latest"]["offsets"] != step["before_max"]["offsets"][:1]


def seen(logs: PositionLogDirectory, step: dict[str, Any]) -> dict[str, Any]:
    log = logs.log(step["look"], 0)
    assert log is not None
    return {
        "files": sizes(Path(log.directory)),
        "latest": log.offsets_before(-1, 1),
        "fetch0": fetched(logs, step["look"], 0, 0, 1_000_000),
        "fetch_at_file_end": fetched(logs, step["look"], 0, file_end(step), 1_000_000),
    }


def as_seen(step: dict[str, Any]) -> dict[str, Any]:
    return {
        "files": step["files"],
        "latest": step["latest"]["offsets"],
        "fetch0": as_recorded(step["fetch0"], 2),
        "fetch_at_file_end": as_recorded(step["fetch_at_file_end"], 2),
    }


def file_end(step: dict[str, Any]) -> int:
    name, size = max(step["files"].items())
    return int(name.removesuffix(".kafka")) + int(size)


# Retention


@pytest.mark.parametrize("scenario", ["retention", "retention-size"])
def test_files_go_by_their_time_and_by_size_as_recorded(scenario: str, tmp_path: Path) -> None:
    folders, answers = unpacked(scenario, tmp_path), recorded(f"{scenario}/answers.json.xz")
    live = recorded(f"{scenario}/settings.json")["files_after_live"]
    (fresh,) = live.keys() - recorded(f"{scenario}/settings.json")["files_before"].keys()
    directory = folders / "before"
    with PositionLogDirectory(str(directory), settings_of(scenario), clock=ManualClock(live[fresh][1])) as logs:
        logs.retain()
        assert segments_in(directory) == segments_in(folders / "after-live")
        set_time(directory / fresh, live[fresh][1])  # the others kept theirs
        check_answers(logs, answers["fetch_after"], answers["offsets_after"])
        for topic in {one["topic"] for one in answers["offsets_after_append"]}:
            newest = max((folders / "after-stop" / f"{topic}-0").iterdir())
            logs.log_to_append(topic, 0).append(newest.read_bytes())
        check_answers(logs, [], [one for one in answers["offsets_after_append"] if one["time"] < 0])
    assert segments_in(directory) == segments_in(folders / "after-stop")


def segments_in(directory: Path) -> dict[str, dict[str, int]]:
    return {path.name: sizes(path) for path in sorted(directory.iterdir()) if path.is_dir()}


def set_time(path: Path, time_ms: int) -> None:
    os.utime(path, ns=(time_ms * 10**6, time_ms * 10**6))


def check_answers(logs: PositionLogDirectory, fetches: list[dict[str, Any]], offsets: list[dict[str, Any]]) -> None:
    for one in fetches:
        where = one["topic"], one["partition"], one["offset"], one["size"]
        assert fetched(logs, *where) == as_recorded(one, 2), where
    for one in offsets:
        log = logs.log(one["topic"], one["partition"])
        assert log is not None
        assert log.offsets_before(one["time"], one["max"]) == one["offsets"], one


# Recovery


RECOVERY = PositionLogSettings(file_size=700, flush_interval=1)
BEFORE = ("no-marker", "marker", "marker-magic2_mid", "marker-magic2_last", "dir-empty-partition-directory")


@pytest.mark.parametrize("variant", BEFORE)
def test_a_damaged_log_is_cut_as_recorded(variant: str, tmp_path: Path) -> None:
    directory = unpacked("recovery", tmp_path) / f"{variant}-before"
    kept = recorded("recovery/summary.json.xz")[variant]
    with PositionLogDirectory(str(directory), RECOVERY) as logs:
        found = {
            name: [list(each) for each in sizes(directory / name).items()] for name in kept["segments_after_start"]
        }
        assert found == kept["segments_after_start"]
        for name, answers in kept["answers"].items():
            topic = name.removesuffix("-0")
            check_recovered(logs, topic, answers)
    after = {path: kept["files_after"][path][0] for path in kept["files_after"] if path.endswith(".kafka")}
    assert {path: (directory / path).stat().st_size for path in after} == after


def check_recovered(logs: PositionLogDirectory, topic: str, answers: dict[str, Any]) -> None:
    log = logs.log(topic, 0)
    assert log is not None
    assert log.offsets_before(-1, 1) == answers["offsets"]
    assert log.offsets_before(-2, 1) == answers["earliest"]
    for position, answer in answers["fetch"]:
        assert fetched(logs, topic, 0, position, 1_000_000) == as_recorded(answer, 2), (topic, position)
    log.append(encode(b"appended after the start"))
    assert log.offsets_before(-1, 1) == answers["latest_after_append"], topic
    appended = answers["fetch_appended"]
    assert fetched(logs, topic, 0, appended["initialOffset"], 1_000_000) == as_recorded(appended, 2), topic


REFUSED = sorted(name for name, one in recorded("recovery/summary.json.xz").items() if not one["started"])


@pytest.mark.parametrize("variant", REFUSED)
def test_a_log_that_kafka_does_not_start_with_is_refused_and_left_as_it_is(variant: str, tmp_path: Path) -> None:
    directory = unpacked("recovery", tmp_path) / f"{variant}-before"
    before = {path: path.read_bytes() for path in directory.rglob("*.kafka") if path.is_file()}
    with pytest.raises(LogStoreError) as refused:
        PositionLogDirectory(str(directory), RECOVERY)
    assert str(directory) in str(refused.value)
    assert {path: path.read_bytes() for path in before} == before
