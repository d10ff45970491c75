"""The commands that read, with ``--tier``: a tier alone, and below the log directory of its broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_commitlog.storage import Isolation
from tests.cli.in_process import Done, commitlog
from tests.support.tiers import Broker, broker

TOPIC = "t-plain"
END, TIER_END = 630, 618
START = 76  # of the second segment


@pytest.fixture(scope="module", params=["kafka", "aiven", pytest.param("aiven-zstd", marks=pytest.mark.only_all)])
def of_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Broker:
    return broker(request.param, tmp_path_factory.mktemp(request.param))


def run(of_broker: Broker, command: str, *arguments: object, alone: bool = False) -> Done:
    log = [] if alone else ["--log-dir", of_broker.log]
    return commitlog(command, "--tier", of_broker.tier, *log, *arguments)


@pytest.mark.parametrize("alone", [True, False])
def test_cat_prints_every_record(of_broker: Broker, alone: bool) -> None:
    at = ["--topic", TOPIC, "--partition", 0, "--offset", 0, "--exit", "--format", "%o %S\\n"]
    done = run(of_broker, "cat", *at, alone=alone)
    end = TIER_END if alone else END
    rows = [row for row in of_broker.rows(TOPIC, Isolation.READ_COMMITTED) if row[0] < end]
    assert (done.code, done.stderr) == (0, f"% Reached end of topic {TOPIC} [0] at offset {end}\n")
    assert done.stdout.splitlines() == [f"{row[0]} {-1 if row[4] is None else len(row[4])}" for row in rows]


@pytest.mark.parametrize("alone", [True, False])
def test_offsets_begin_in_the_tier(of_broker: Broker, alone: bool) -> None:
    for time, offset in {"earliest": 0, "latest": TIER_END if alone else END}.items():
        done = run(of_broker, "offsets", "--topic", TOPIC, "--time", time, alone=alone)
        assert (done.code, done.stdout) == (0, f"{TOPIC}:0:{offset}\n")


def test_offsets_of_the_local_part_and_of_the_tier_are_told_apart(of_broker: Broker) -> None:
    for time, offset in {"earliest-local": TIER_END, "-4": TIER_END, "latest-tiered": TIER_END - 1}.items():
        done = run(of_broker, "offsets", "--topic", TOPIC, "--time", time)
        assert (done.code, done.stdout) == (0, f"{TOPIC}:0:{offset}\n")


@pytest.mark.parametrize("alone", [True, False])
def test_describe_shows_the_segments_of_the_tier(of_broker: Broker, alone: bool) -> None:
    done = run(of_broker, "describe", "--topic", TOPIC, "--json", alone=alone)
    assert done.code == 0
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert {"0", str(TIER_END if alone else END)} <= set(map(str, _numbers(found)))


def _numbers(value: object) -> list[object]:
    """All numbers in a document."""
    if isinstance(value, dict):
        return [number for each in value.values() for number in _numbers(each)]
    if isinstance(value, list):
        return [number for each in value for number in _numbers(each)]
    return [value] if isinstance(value, int) else []


@pytest.mark.parametrize("alone", [True, False])
def test_find_searches_the_tier(of_broker: Broker, alone: bool) -> None:
    row = of_broker.rows(TOPIC, Isolation.READ_COMMITTED)[300]
    key = (row[3] or b"").decode()
    done = run(of_broker, "find", "--topic", TOPIC, "--key", key, "--json", alone=alone)
    assert done.code == 0
    assert row[0] in [json.loads(line)["offset"] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("alone", [True, False])
def test_verify_checks_the_tier(of_broker: Broker, alone: bool) -> None:
    done = run(of_broker, "verify", alone=alone)
    assert done.code == 0
    assert f"{TOPIC}-0: sound" in done.stdout


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(
    "command",
    [
        ["cat", "--topic", TOPIC, "--partition", 0, "--offset", 0, "--exit"],
        ["verify"],
        ["find", "--topic", TOPIC, "--key", "no such key"],
    ],
    ids=lambda each: each[0],
)
def test_damage_is_reported_with_the_name_of_the_object(tmp_path: Path, command: list[str], alone: bool) -> None:
    of_broker = broker("kafka", tmp_path)
    (damaged,) = of_broker.tier.glob(f"*/{TOPIC}-0-*/{START:020d}-*.log")
    data = bytearray(damaged.read_bytes())
    data[300] ^= 1
    damaged.write_bytes(data)
    done = run(of_broker, *command, alone=alone)
    assert done.code == 3
    assert f"{damaged}, position 0" in done.stdout + done.stderr
