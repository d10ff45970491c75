"""Requests that cannot be meant: each gets its error, and costs nobody else anything."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient, produce_fields, serving, set_config
from tests.support.logs.building import batch

POLICY_VIOLATION, INVALID_TOPIC, UNSUPPORTED_VERSION, INVALID_REQUEST = 44, 17, 35, 42
LONGEST = "y" * 32_767  # of a text in older versions


def test_a_text_of_the_client_in_an_error_is_cut_to_what_the_answer_has_room_for(client: WireClient) -> None:
    asked = {"name": LONGEST, "num_partitions": 1, "replication_factor": 1}
    answer = client.ask(19, 4, topics=[asked], timeout=1000).topics[0]
    assert (answer.name, answer.error_code) == (LONGEST, INVALID_TOPIC)
    assert answer.error_message.startswith("a topic cannot be named")


def test_so_is_one_in_an_error_about_acls_or_quotas(tmp_path: Path) -> None:
    settings = {"commitlog_acls_file": str(tmp_path / "acls.json"), "allow_everyone_if_no_acl_found": True}
    acl = {"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": LONGEST}
    limit = {"key": "producer_byte_rate", "value": 1.0, "remove": False}
    kind = {"entity_type": LONGEST, "entity_name": "a"}
    with serving(tmp_path / "log", **settings) as gateway, WireClient(gateway) as client:
        created = client.ask(30, 1, creations=[{**acl, "host": "*", "operation": 3, "permission_type": 3}])
        assert created.results[0].error_code == INVALID_REQUEST
        altered = client.ask(49, 0, entries=[{"entity": [kind], "ops": [limit]}], validate_only=True)
        assert altered.entries[0].error_code == INVALID_REQUEST
        wanted = {"entity_type": LONGEST, "match_type": 2, "match": None}
        described = client.ask(48, 0, components=[wanted], strict=False)
        assert described.error_code == UNSUPPORTED_VERSION


def test_answers_that_cannot_be_written_close_their_connections_and_hold_no_place(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path_factory.mktemp("hostile") / "log", queued_max_requests=2) as gateway:
        for _ in range(4):
            with WireClient(gateway) as client, monkeypatch.context() as patch:
                patch.setattr("pyspark_commitlog.gateway.handlers.topics.is_legal", lambda _: 1 / 0)
                patch.setattr("pyspark_commitlog.gateway.handlers.topics._not_created", lambda *_: {"name": None})
                asked = {"name": "t", "num_partitions": 1, "replication_factor": 1}
                client.send(19, 4, topics=[asked], timeout=1000)
                assert client.is_closed()
        with WireClient(gateway) as client:
            assert client.ask(18, 2).error_code == 0
    assert "the answer to a request of kind 19 cannot be written" in caplog.text


@pytest.mark.parametrize("count", [10_001, 2**31 - 1])
@pytest.mark.parametrize("validate_only", [True, False])
def test_a_request_for_too_many_partitions_is_refused(
    client: WireClient, topic: str, count: int, validate_only: bool
) -> None:
    one = {"name": "one", "num_partitions": 1, "replication_factor": 1}
    many = {"name": "many", "num_partitions": count, "replication_factor": 1}
    answer = client.ask(19, 4, topics=[one, many], timeout=1000, validate_only=validate_only)
    assert [each.error_code for each in answer.topics] == [POLICY_VIOLATION] * 2
    asked = [{"name": topic, "count": min(count + 2, 2**31 - 1), "assignments": None}]
    answer = client.ask(37, 2, topics=asked, timeout=1000, validate_only=validate_only)
    assert answer.results[0].error_code == POLICY_VIOLATION


@pytest.mark.parametrize(("producer_id", "epoch", "code"), [(-1, 0, 49), (-6, 0, 49), (1, -1, 47), (-1, -1, 49)])
def test_a_marker_of_no_producer_is_refused_and_fails_no_append_beside_it(
    gateway: Gateway, topic: str, producer_id: int, epoch: int, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    marker = {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "coordinator_epoch": 0,
        "transaction_result": True,
        "topics": [{"name": topic, "partition_indexes": (0,)}],
    }
    with WireClient(gateway) as client, WireClient(gateway) as other:
        client.ask(27, 1, markers=[marker])
        sent = client.send(27, 1, markers=[marker])
        answer = other.ask(0, 8, **produce_fields(topic, batch(b"v").tobytes()))
        assert answer.responses[0].partition_responses[0].error_code == 0
        answer = client.answer(27, 1, sent)
    assert answer.markers[0].topics[0].partitions[0].error_code == code
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_an_internal_topic_is_not_deleted_from_under_its_coordinator_not_even_empty(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    with serving(tmp_path_factory.mktemp("hostile") / "log") as gateway, WireClient(gateway) as client:
        client.ask(3, 4, topics=[{"name": name}], allow_auto_topic_creation=True)
        for _ in range(2):
            assert client.ask(9, 5, group_id="g", topics=None).error_code == 0
            assert client.ask(22, 1, transactional_id="x", transaction_timeout=1000).error_code == 0
            assert client.ask(20, 4, topic_names=(name,)).responses[0].error_code == POLICY_VIOLATION


@pytest.mark.parametrize("version", [8, 11])
def test_errors_of_produce_show_no_path_of_the_server(
    gateway: Gateway, client: WireClient, topic: str, log_dir: Path, version: int
) -> None:
    set_config(client, topic, "segment.bytes", "2000")
    set_config(client, topic, "max.message.bytes", "9000")
    too_large = client.ask(0, version, **produce_fields(topic, batch(b"v" * 3000).tobytes()))
    (log_dir / f"{topic}-1").rename(log_dir / "away")
    lost = client.ask(0, version, **produce_fields(topic, batch(b"v").tobytes(), partition=1))
    (log_dir / "away").rename(log_dir / f"{topic}-1")
    for answer, code in ((too_large, 18), (lost, 56)):
        partition = answer.responses[0].partition_responses[0]
        assert partition.error_code == code
        assert partition.error_message
        assert str(log_dir) not in partition.error_message


def test_errors_of_administration_show_no_path_and_no_other_topic(
    client: WireClient, topic: str, log_dir: Path
) -> None:
    missing, new = f"{topic}-x", {"num_partitions": 1, "replication_factor": 1}
    (log_dir / "linked-0").symlink_to(log_dir / f"{topic}-0")
    resource = {"resource_type": 2, "resource_name": missing, "configs": []}
    answers = (
        client.ask(19, 7, topics=[{"name": "linked", **new}], timeout=1000).topics[0],
        client.ask(32, 4, resources=[resource]).results[0],
        client.ask(33, 2, resources=[resource], validate_only=False).responses[0],
        client.ask(44, 1, resources=[resource], validate_only=False).responses[0],
        client.ask(37, 3, topics=[{"name": missing, "count": 3, "assignments": None}], timeout=1000).results[0],
        client.ask(61, 0, topics=[{"name": missing, "partition_indexes": (0,)}]).topics[0].partitions[0],
    )
    (log_dir / "linked-0").unlink()
    for answer in answers:
        assert answer.error_code
        assert str(log_dir) not in answer.error_message
        assert repr(topic) not in answer.error_message


FORGED = "\n2026-01-01 00:00:00,000 ERROR forged\x1b[31m"


def test_names_in_requests_of_members_are_quoted_in_the_log(
    gateway: Gateway, client: WireClient, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    group = {"group_id": f"{topic}{FORGED}"}
    times = {"session_timeout": 6000, "rebalance_timeout": 6000, "protocol_type": "x"}
    joined = []
    for instance, protocol in ((f"i{FORGED}", b""), (f"j{FORGED}", b""), (f"i{FORGED}", b"other")):
        own = {"member_id": "", "group_instance_id": instance, "reason": f"r{FORGED}"}
        protocols = [{"name": f"p{FORGED}", "metadata": protocol}]
        with WireClient(gateway) as member:
            joined.append(member.send(11, 9, **group, **own, **times, protocols=protocols))
    members = [{"member_id": "", "group_instance_id": f"i{FORGED}", "reason": f"r{FORGED}"}]
    client.ask(13, 5, **group, members=members)
    client.ask(42, 2, groups_names=(group["group_id"],))
    said = [record.getMessage() for record in caplog.records if "forged" in record.getMessage()]
    assert said
    assert [each for each in said if "\n" in each or "\x1b" in each] == []
