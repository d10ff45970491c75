"""``commitlog configs --entity-type brokers --entity-default``: the configs for all topics, with Kafka's text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_commitlog.storage import LogManager, Owner, alter_own_settings
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


@pytest.fixture
def owned(directory: Path) -> Path:
    """The directory, with settings for all topics, of two nodes and of a group, as a gateway has written them."""
    with LogManager.open(str(directory)) as manager:
        for_all = {"max.connections": "500"}
        for name, value in (("1", "100"), ("2", "200")):
            changes = {"max.connections": value}
            alter_own_settings(manager, Owner.NODE, name, changes, lambda _: None, for_all=for_all)
        changes = {"consumer.session.timeout.ms": "50000"}
        alter_own_settings(manager, Owner.GROUP, "shop", changes, lambda _: None)
    return directory


def test_what_one_node_has_is_described_with_what_all_have(owned: Path) -> None:
    one = configs(owned, "--describe", "--entity-type", "brokers", "--entity-name", "1")
    assert one == (
        "Dynamic configs for broker 1 are:\n  max.connections=100 sensitive=false "
        "synonyms={DYNAMIC_BROKER_CONFIG:max.connections=100, DYNAMIC_DEFAULT_BROKER_CONFIG:max.connections=500}\n"
    )
    every = configs(owned, "--describe", "--entity-type", "brokers")
    assert every.startswith(one + "Dynamic configs for broker 2 are:\n  max.connections=200 ")
    assert every.endswith(configs(owned, "--describe", *OF_ALL))
    nothing = configs(owned, "--describe", "--entity-type", "brokers", "--entity-name", "3")
    assert nothing == "Dynamic configs for broker 3 are:\n"


def test_what_a_group_has_is_described(owned: Path) -> None:
    shown = configs(owned, "--describe", "--entity-type", "groups")
    assert shown == (
        "Dynamic configs for group shop are:\n  consumer.session.timeout.ms=50000 sensitive=false "
        "synonyms={DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000}\n"
    )
    as_json = configs(owned, "--describe", "--entity-type", "groups", "--entity-name", "shop", "--json")
    assert json.loads(as_json) == {"group": "shop", "config": "consumer.session.timeout.ms", "value": "50000"}
