"""Who may produce to internal topics; and what a record there that cannot be read stops: only what it belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.gateway.handlers.access.guards import ADMIN_CLIENT
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import LogManager
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.internal.internal_topics import OffsetCommitKey, TransactionLogKey
from pyspark_commitlog.storage.groups import compacted_values
from pyspark_commitlog.storage.groups.appending import append_entries
from tests.cli.in_process import commitlog
from tests.support.gateway import WireClient, produce_fields, serving
from tests.support.logs.building import NOW_MS, records

INTERNAL = ("__consumer_offsets", "__transaction_state")
ONE_EACH = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}


def produced(gateway: Gateway, topic: str, version: int = 9, client_id: str = ADMIN_CLIENT) -> ErrorCode:
    """The error of a Produce by a client that calls itself so."""
    with WireClient(gateway, client_id=client_id) as client:
        for name in INTERNAL:
            client.ask(3, 4, topics=[{"name": name}], allow_auto_topic_creation=True)
        answer = client.ask(
            0, version, **produce_fields(topic, v2.encode(records([b"v"], keys=[b"k"]), v2.BatchFields()).tobytes())
        )
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def ruled(tmp_path: Path, operations: str) -> dict[str, Any]:
    path = tmp_path / "rules.toml"
    path.write_text(
        '[[allow]]\nusers = ["*"]\noperations = ["write", "create", "describe"]\ntopics = ["*"]\n'
        f'[[allow]]\nusers = ["ANONYMOUS"]\noperations = {operations}\ncluster = true\n'
    )
    return {"commitlog_rules_file": str(path)}


@pytest.mark.parametrize("topic", INTERNAL)
def test_the_name_of_an_administrator_opens_no_internal_topic(gateway: Gateway, topic: str) -> None:
    assert {produced(gateway, topic, version) for version in range(3, 12)} == {ErrorCode.invalid_topic_exception}


@pytest.mark.parametrize("topic", INTERNAL)
def test_a_setting_opens_internal_topics_to_that_name_only(tmp_path: Path, topic: str) -> None:
    with serving(tmp_path / "log", commitlog_internal_topics_writable=True, **ONE_EACH) as gateway:
        assert produced(gateway, topic) is ErrorCode.none
        assert produced(gateway, topic, client_id="another") is ErrorCode.invalid_topic_exception


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ('["cluster_action"]', ErrorCode.none),
        ('["alter"]', ErrorCode.none),
        ('["all"]', ErrorCode.none),
        ('["create", "describe", "alter_configs", "idempotent_write"]', ErrorCode.invalid_topic_exception),
    ],
)
def test_rules_open_internal_topics_whatever_the_setting(tmp_path: Path, operations: str, code: ErrorCode) -> None:
    settings = ruled(tmp_path, operations)
    for is_open in (False, True):
        with serving(tmp_path / "log", commitlog_internal_topics_writable=is_open, **settings) as gateway:
            assert {produced(gateway, topic) for topic in INTERNAL} == {code}
            assert produced(gateway, INTERNAL[0], client_id="another") is ErrorCode.invalid_topic_exception


# --- what comes through the door is not checked


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    compacted_values._SAID.clear()
    with serving(tmp_path / "log", **ONE_EACH) as gateway:
        init(gateway, "bad")
        commit(gateway, "bad")
    with LogManager.open(str(tmp_path / "log")) as manager:
        bad = {
            "__transaction_state": TransactionLogKey("bad").encode(),
            "__consumer_offsets": OffsetCommitKey("bad", "t", 0).encode(),
        }
        for topic, key in bad.items():
            append_entries(manager.open_log(topic, 0), [(b"", b"x"), (key, b"\0")], NOW_MS)
    return str(tmp_path / "log")


def init(gateway: Gateway, name: str) -> ErrorCode:
    with WireClient(gateway) as client:
        return ErrorCode(client.ask(22, 1, transactional_id=name, transaction_timeout=1000).error_code)


def commit(gateway: Gateway, group: str) -> ErrorCode:
    with WireClient(gateway) as client:
        client.ask(3, 4, topics=[{"name": "t"}], allow_auto_topic_creation=True)
        topics = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
        answer = client.ask(8, 2, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics)
        return ErrorCode(answer.topics[0].partitions[0].error_code)


def fetched(gateway: Gateway, group: str) -> tuple[ErrorCode, int]:
    with WireClient(gateway) as client:
        answer = client.ask(9, 5, group_id=group, topics=[{"name": "t", "partition_indexes": [0]}])
        part = answer.topics[0].partitions[0] if answer.topics else None
        return ErrorCode(answer.error_code), -1 if part is None else part.committed_offset


def test_one_record_that_cannot_be_read_stops_no_coordinator(log_dir: str, caplog: pytest.LogCaptureFixture) -> None:
    with serving(log_dir, **ONE_EACH) as gateway:
        assert init(gateway, "good") is ErrorCode.none
        assert init(gateway, "bad") is ErrorCode.invalid_record
        assert commit(gateway, "good") is ErrorCode.none
        assert fetched(gateway, "good") == (ErrorCode.none, 5)
        assert fetched(gateway, "bad")[0] is ErrorCode.invalid_record
        assert commit(gateway, "bad") is ErrorCode.none  # a newer record of the key
        assert fetched(gateway, "bad") == (ErrorCode.none, 5)
        with WireClient(gateway) as client:
            listed = client.ask(66, 0, state_filters=[], producer_id_filters=[])
            assert (listed.error_code, [each.transactional_id for each in listed.transaction_states]) == (0, ["good"])
            groups = client.ask(16, 1)
            assert (groups.error_code, sorted(each.group_id for each in groups.groups)) == (0, ["bad", "good"])
    for topic in INTERNAL:
        assert f"{topic}-0: offset 1: the key b'' cannot be read" in caplog.text
        assert f"{topic}-0: offset 2: the value of " in caplog.text


@pytest.mark.parametrize(
    "command",
    [
        ("verify",),
        ("verify", "--json"),
        ("recover",),
        ("recover", "--json"),
        ("transactions",),
        ("groups", "--list"),
        ("groups", "--describe", "--all-groups"),
    ],
    ids=" ".join,
)
def test_the_commands_name_records_that_cannot_be_read(log_dir: str, command: tuple[str, ...]) -> None:
    done = commitlog(*command, "--log-dir", log_dir)
    assert done.code == 3
    shown = done.stdout + done.stderr
    for topic in {"transactions": INTERNAL[1:], "groups": INTERNAL[:1]}.get(command[0], INTERNAL):
        assert f"{topic}-0" in shown
    for offset in (1, 2):
        assert f"offset {offset}: " in shown
