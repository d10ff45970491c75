"""A broker's topic settings: from its metadata log, and from the output of its tools."""

from __future__ import annotations

import logging
import re
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from pyspark_commitlog.storage.directory.broker_settings.described import parse_described
from pyspark_commitlog.storage.directory.broker_settings.found import TopicSettings
from pyspark_commitlog.storage.directory.broker_settings.metadata_log import read_metadata_log
from pyspark_commitlog.storage.directory.topics_file import Known
from pyspark_commitlog.storage.errors import InvalidConfigError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.files import file_names
from tests.cli import kafka_said
from tests.support.kafka import broker_dirs
from tests.support.logs.building import open_log, records

METADATA = "__cluster_metadata-0"
ORDERS, AUDIT = b"o" * 16, b"a" * 16  # ids


# The tools


def test_the_output_of_kafka_configs_lists_the_topics_own_settings() -> None:
    found = parse_described("\n".join(kafka_said.lines("configs --describe --entity-type topics")), "said")
    assert found.topics["orders"] == ({"retention.ms": "-1", "segment.bytes": "16384"}, Known.OWN)
    assert found.topics["customers"] == ({"cleanup.policy": "compact"}, Known.OWN)
    assert found.topics["empty"] == ({}, Known.OWN)
    assert "__transaction_state" in found.topics


def test_with_all_it_lists_every_setting_that_holds() -> None:
    said = kafka_said.lines("configs --describe --entity-type topics --entity-name orders --all")
    configs, known = parse_described("\n".join(said), "said").topics["orders"]
    assert known is Known.ALL
    assert (configs["retention.ms"], configs["cleanup.policy"]) == ("-1", "delete")
    assert configs["leader.replication.throttled.replicas"] == ""


def test_a_list_in_the_output_of_kafka_configs_keeps_its_commas() -> None:
    found = parse_described("\n".join(kafka_said.lines("configs after add")), "said")
    assert found.topics["empty"].configs == {"cleanup.policy": "compact,delete", "retention.ms": "1000"}


def test_the_output_of_kafka_topics_lists_differences_from_kafkas_defaults() -> None:
    found = parse_described("\n".join(kafka_said.lines("topics --describe --exclude-internal")), "said")
    assert found.topics == {
        "orders": ({"segment.bytes": "16384", "retention.ms": "-1"}, Known.ALL),
        "customers": ({"cleanup.policy": "compact"}, Known.ALL),
        "empty": ({}, Known.ALL),
        "new.topic": ({}, Known.ALL),
    }


def test_the_output_of_older_tools_lists_only_the_topics_own_settings() -> None:
    text = (
        "Topic:a\tPartitionCount:1\tReplicationFactor:1\tConfigs:cleanup.policy=compact,delete,retention.ms=5\n"
        "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n"
        "Topic: b\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: \n"
        "Configs for topic 'c' are retention.ms=7,max.message.bytes=9\n"
    )
    assert parse_described(text, "said").topics == {
        "a": ({"cleanup.policy": "compact,delete", "retention.ms": "5"}, Known.OWN),
        "b": ({}, Known.OWN),
        "c": ({"retention.ms": "7", "max.message.bytes": "9"}, Known.OWN),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "said: contains no topic"),
        ("Dynamic configs for topic a are:\nretention.ms=1\n", "said, line 2: 'retention.ms=1' is not output"),
        ("  retention.ms=1 sensitive=false synonyms={}\n", "said, line 1"),
        ('{"retention.ms": 1}', "said, line 1"),
    ],
)
def test_lines_that_the_tools_do_not_print_are_refused_and_shown(text: str, said: str) -> None:
    with pytest.raises(InvalidConfigError, match=re.escape(said)):
        parse_described(text, "said")


# The metadata log


def test_a_brokers_metadata_log_has_the_settings_of_its_topics(tmp_path: Path) -> None:
    found = read_metadata_log(str(broker_dirs.stage("plain/final") / "log"), LocalFileSystem())
    assert found.partitions == {"plain": 3}
    assert found.topics == {"plain": ({"segment.bytes": "10777", "index.interval.bytes": "256"}, Known.OWN)}
    assert read_metadata_log(str(tmp_path), LocalFileSystem()).topics == {}


def text(value: str | None) -> bytes:
    return b"\0" if value is None else bytes([len(value) + 1]) + value.encode()


def message(kind: int, content: bytes = b"") -> bytes:
    return bytes([1, kind, 0]) + content + b"\0"


def topic(name: str, topic_id: bytes) -> bytes:
    return message(2, text(name) + topic_id)


def partition(number: int, topic_id: bytes) -> bytes:
    """Of version 1, with replica and leader 1, and a directory."""
    lists = b"\2\0\0\0\1" * 2 + b"\1\1"
    leader = struct.pack(">iii", 1, 0, 0)
    tags = b"\1\0\x11\2" + b"d" * 16
    return bytes([1, 3, 1]) + struct.pack(">i", number) + topic_id + lists + leader + tags


def setting(name: str, key: str, value: str | None, kind: int = 2) -> bytes:
    return message(4, struct.pack(">b", kind) + text(name) + text(key) + text(value))


def removed(topic_id: bytes) -> bytes:
    return message(9, topic_id)


BEGIN, END, ABORT = message(23, b"\0"), message(24), message(25, b"\0")
NO_OP = message(20)


def metadata_log(directory: Path, values: Sequence[bytes], start: int = 0) -> Path:
    log = open_log(directory / METADATA, segment_bytes=200)
    if start:
        log.truncate_fully_and_start_at(start)
    for value in values:
        log.append_records(records([value]))
    log.close()
    return directory


def snapshot(directory: Path, end_offset: int, values: Sequence[bytes]) -> None:
    batches = v2.encode_batches(records(values), v2.BatchFields(), batch_bytes_max=100)
    name = f"{end_offset:020d}-{3:010d}.checkpoint"
    (directory / METADATA / name).write_bytes(batches.buffer.tobytes())


def test_the_newest_setting_counts_and_those_of_removed_topics_do_not(tmp_path: Path) -> None:
    values = [
        topic("orders", ORDERS),
        setting("orders", "retention.ms", "1"),
        setting("orders", "flush.ms", "2"),
        topic("audit", AUDIT),
        setting("audit", "retention.ms", "3"),
        NO_OP,
        setting("orders", "retention.ms", "4"),
        setting("orders", "flush.ms", None),
        removed(AUDIT),
    ]
    found = read_metadata_log(str(metadata_log(tmp_path, values)), LocalFileSystem())
    assert found.topics == {"orders": TopicSettings({"retention.ms": "4"}, Known.OWN)}


def test_a_transaction_of_the_controller_counts_once_it_ended(tmp_path: Path) -> None:
    values = [
        *(topic("orders", ORDERS), setting("orders", "retention.ms", "1")),
        *(BEGIN, setting("orders", "retention.ms", "2"), ABORT),
        *(BEGIN, setting("orders", "flush.ms", "3"), END),
        *(BEGIN, setting("orders", "retention.ms", "4")),
    ]
    found = read_metadata_log(str(metadata_log(tmp_path, values)), LocalFileSystem())
    assert found.topics["orders"].configs == {"retention.ms": "1", "flush.ms": "3"}


def test_the_newest_snapshot_counts_and_the_log_from_its_end_on(tmp_path: Path) -> None:
    later = [setting("orders", "retention.ms", str(n)) for n in range(10, 14)]
    metadata_log(tmp_path, later, start=10)
    snapshot(tmp_path, 5, [topic("audit", AUDIT)])
    told = [topic("orders", ORDERS), setting("orders", "retention.ms", "1"), setting("orders", "flush.ms", "2")]
    snapshot(tmp_path, 12, told)
    found = read_metadata_log(str(tmp_path), LocalFileSystem())
    assert found.topics == {"orders": ({"retention.ms": "13", "flush.ms": "2"}, Known.OWN)}


def test_settings_of_all_brokers_and_of_this_one_are_found(tmp_path: Path) -> None:
    values = [
        setting("", "log.retention.ms", "1", kind=4),
        setting("", "log.retention.bytes", "2", kind=4),
        setting("7", "log.retention.ms", "3", kind=4),
        setting("8", "log.retention.ms", "4", kind=4),
    ]
    (tmp_path / file_names.META_PROPERTIES_FILE).write_text("version=1\nnode.id=7\ncluster.id=x\n")
    found = read_metadata_log(str(metadata_log(tmp_path, values)), LocalFileSystem())
    assert found.broker == {"log.retention.ms": "3", "log.retention.bytes": "2"}


@pytest.mark.parametrize("harm", ["a flipped bit", "a hole at its beginning", "a frame of the future", "cut short"])
def test_nothing_is_used_from_a_damaged_metadata_log(
    harm: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = [topic("orders", ORDERS), setting("orders", "retention.ms", "1")]
    if harm == "a frame of the future":
        values.append(b"\2" + NO_OP[1:])
    elif harm == "cut short":
        values.append(setting("orders", "retention.ms", "5")[:-3])
    metadata_log(tmp_path, values, start=3 if harm == "a hole at its beginning" else 0)
    if harm == "a flipped bit":
        path = min((tmp_path / METADATA).glob("*.log"))
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    with caplog.at_level(logging.WARNING):
        assert read_metadata_log(str(tmp_path), LocalFileSystem()).topics == {}
    assert "the broker's topic settings are unknown, because its metadata is damaged" in caplog.text
