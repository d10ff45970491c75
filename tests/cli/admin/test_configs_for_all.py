"""``commitlog configs --entity-type brokers --entity-default``: the configs for all topics, with Kafka's text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_commitlog.storage import LogManager
from tests.cli.in_process import commitlog

OF_ALL = ("--entity-type", "brokers", "--entity-default")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=1, configs={"segment.bytes": "500"})
    return tmp_path / "log"


def configs(directory: Path, *arguments: str) -> str:
    done = commitlog("configs", "--log-dir", directory, *arguments)
    assert (done.code, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("flags", [OF_ALL, ("--broker-defaults",)])
def test_what_is_set_is_described_and_can_be_reset(flags: tuple[str, ...], directory: Path) -> None:
    added = "log.retention.ms=1000,log.cleanup.policy=[compact,delete]"
    assert configs(directory, *flags, "--alter", "--add-config", added) == (
        "Completed updating default config for brokers in the cluster.\n"
    )
    assert configs(directory, *flags, "--describe") == (
        "Default configs for brokers in the cluster are:\n"
        "  log.cleanup.policy=compact,delete sensitive=false"
        " synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.cleanup.policy=compact,delete}\n"
        "  log.retention.ms=1000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=1000}\n"
    )
    configs(directory, *flags, "--alter", "--delete-config", "log.retention.ms")
    (left,) = configs(directory, *flags, "--describe", "--json").splitlines()
    assert json.loads(left) == {"config": "log.cleanup.policy", "value": "compact,delete"}


def test_a_topic_shows_where_each_value_is_from(directory: Path) -> None:
    configs(directory, *OF_ALL, "--alter", "--add-config", "log.segment.bytes=900,log.index.interval.bytes=7")
    lines = configs(directory, "--describe", "--all", "--topic", "t").splitlines()
    assert (
        "  segment.bytes=500 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.bytes=500, "
        "DYNAMIC_DEFAULT_BROKER_CONFIG:log.segment.bytes=900, DEFAULT_CONFIG:log.segment.bytes=1073741824}"
    ) in lines
    assert (
        "  index.interval.bytes=7 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.index.interval.bytes=7, "
        "DEFAULT_CONFIG:log.index.interval.bytes=4096}"
    ) in lines
    assert configs(directory, "--describe", "--topic", "t").count("\n") == 2


def test_a_dry_run_changes_nothing(directory: Path) -> None:
    before = (directory / "topics.json").read_bytes()
    shown = configs(directory, *OF_ALL, "--alter", "--add-config", "log.retention.ms=1", "--dry-run")
    assert shown == "would leave these configs for all topics: log.retention.ms=1\n"
    assert (directory / "topics.json").read_bytes() == before


def test_a_topics_key_is_refused_with_the_brokers(directory: Path) -> None:
    done = commitlog("configs", "--log-dir", directory, *OF_ALL, "--alter", "--add-config", "retention.ms=1")
    assert (done.code, done.stdout) == (2, "")
    assert "for a broker it is log.retention.ms" in done.stderr
