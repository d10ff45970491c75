"""Quotas over the protocol, and what they do to clients that exceed them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.gateway.handlers.table import KINDS
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.apis import ApiKey
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.protocol.errors import RequestError
from tests.support.gateway import WireClient, create_topic, fetch_fields, produce_fields, serving
from tests.support.logs.building import batch

DESCRIBE, ALTER, PRODUCE, FETCH = 48, 49, 0, 1
UNKNOWN_TOPIC, UNSUPPORTED_VERSION, INVALID_REQUEST, STORAGE, THROTTLED = 3, 35, 42, 56, 89
EVERYTHING: dict[str, Any] = {"components": (), "strict": False}


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Gateway]:
    with serving(tmp_path / "log", commitlog_quotas_file=str(tmp_path / "quotas.json")) as gateway:
        yield gateway


@pytest.fixture
def admin(limited: Gateway) -> Iterator[WireClient]:
    with WireClient(limited, "admin") as client:
        create_topic(client, "t")
        yield client


def entry(names: dict[str, str | None], *ops: tuple[str, float | None]) -> dict[str, Any]:
    entity = [{"entity_type": kind, "entity_name": name} for kind, name in names.items()]
    changes = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in ops]
    return {"entity": entity, "ops": changes}


def alter(client: WireClient, *entries: dict[str, Any], version: int = 1, validate_only: bool = False) -> list[int]:
    answer = client.ask(ALTER, version, entries=entries, validate_only=validate_only)
    return [int(each.error_code) for each in answer.entries]


def described(client: WireClient, version: int = 1, **filters: Any) -> list[tuple[dict[str, Any], dict[str, float]]]:
    answer = client.ask(DESCRIBE, version, **{**EVERYTHING, **filters})
    return [
        (
            {one.entity_type: one.entity_name for one in each.entity},
            {one.key: one.value for one in each.values},
        )
        for each in answer.entries
    ]


def produce(client: WireClient, size: int, version: int = 9) -> int:
    """Produces about so many bytes; returns the time, in milliseconds, for which the client is throttled."""
    answer = client.ask(PRODUCE, version, **produce_fields("t", bytes(batch(bytes(size)))))
    assert not answer.responses[0].partition_responses[0].error_code
    return int(answer.throttle_time.total_seconds() * 1000)


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_shown_and_removed(admin: WireClient, version: int) -> None:
    both = entry({"user": "alice", "client-id": None}, ("request_percentage", 12.5), ("consumer_byte_rate", 7.0))
    assert alter(admin, both, entry({"client-id": "app"}, ("producer_byte_rate", 5.0)), version=version) == [0, 0]
    alice = ({"client-id": None, "user": "alice"}, {"request_percentage": 12.5, "consumer_byte_rate": 7.0})
    app = ({"client-id": "app"}, {"producer_byte_rate": 5.0})
    assert described(admin, version) == [alice, app]
    exact = {"entity_type": "client-id", "match_type": 0, "match": "app"}
    assert described(admin, version, components=[exact], strict=True) == [app]
    removed = entry({"user": "alice", "client-id": None}, ("request_percentage", None), ("consumer_byte_rate", None))
    assert alter(admin, removed, version=version) == [0]
    assert described(admin, version) == [app]


def test_a_quota_that_is_not_there_may_be_removed(admin: WireClient) -> None:
    gone = entry({"user": "a"}, ("other", None), ("connection_creation_rate", None), ("producer_byte_rate", None))
    assert alter(admin, gone) == [0]
    assert described(admin) == []


def test_a_request_that_only_validates_changes_nothing(admin: WireClient) -> None:
    assert alter(admin, entry({"user": "a"}, ("producer_byte_rate", 1.0)), validate_only=True) == [0]
    assert alter(admin, entry({"user": "a"}, ("other", 1.0)), validate_only=True) == [INVALID_REQUEST]
    assert described(admin) == []


def test_what_is_wrong_is_refused_and_the_others_are_set(admin: WireClient) -> None:
    rate = ("producer_byte_rate", 1.0)
    fine = entry({"user": "bob"}, rate)
    wrong = [
        entry({}, rate),
        entry({"user": ""}, rate),
        entry({"ip": "10.0.0.1"}, rate),
        entry({"ip": "10.0.0.1", "user": "a"}, ("connection_creation_rate", 1.0)),
        entry({"ip": "10.0.0"}, ("connection_creation_rate", 1.0)),
        entry({"ip": "10.0.0.1"}, ("connection_creation_rate", 1.5)),
        entry({"user": "a"}, ("connection_creation_rate", 1.0)),
        entry({"ip": "10.0.0.1"}, ("connection_creation_rate", 2.0**31)),
        entry({"user": "a"}, ("producer_byte_rate", -1.0)),
        entry({"user": "a"}, ("producer_byte_rate", 1.5)),
        entry({"user": "a"}, ("consumer_byte_rate", 0.5)),
        entry({"user": "a"}, ("producer_byte_rate", float("nan"))),
        entry({"user": "a"}, rate, ("producer_byte_rate", None)),
        {**fine, "entity": [*fine["entity"], *fine["entity"]]},
    ]
    assert alter(admin, *wrong, fine, fine) == [INVALID_REQUEST] * len(wrong) + [0, INVALID_REQUEST]
    assert described(admin) == [({"user": "bob"}, {"producer_byte_rate": 1.0})]


@pytest.mark.parametrize(
    "components",
    [
        [{"entity_type": "", "match_type": 2, "match": None}],
        [{"entity_type": "user", "match_type": 9, "match": None}],
        [{"entity_type": "user", "match_type": 0, "match": None}],
        [{"entity_type": "user", "match_type": 2, "match": "a"}],
        [{"entity_type": "user", "match_type": 2, "match": None}] * 2,
        [{"entity_type": each, "match_type": 2, "match": None} for each in ("user", "ip")],
    ],
)
def test_a_wrong_filter_is_refused(admin: WireClient, components: list[dict[str, Any]]) -> None:
    answer = admin.ask(DESCRIBE, 1, components=components, strict=False)
    assert (int(answer.error_code), answer.entries) == (INVALID_REQUEST, None)


def test_a_filter_of_another_kind_is_not_supported(admin: WireClient) -> None:
    components = [{"entity_type": "colour", "match_type": 9, "match": None}]
    assert int(admin.ask(DESCRIBE, 1, components=components, strict=False).error_code) == UNSUPPORTED_VERSION


def test_without_a_file_there_are_no_quotas(client: WireClient) -> None:
    assert described(client) == []
    [refused] = client.ask(ALTER, 1, entries=[entry({"user": "a"}, ("producer_byte_rate", 1.0))]).entries
    assert refused.error_code == INVALID_REQUEST
    assert "commitlog.quotas.file" in refused.error_message


def test_a_damaged_file_is_reported_without_its_path(admin: WireClient, tmp_path: Path) -> None:
    (tmp_path / "quotas.json").write_text("{")
    [failed] = admin.ask(ALTER, 1, entries=[entry({"user": "a"}, ("producer_byte_rate", 1.0))]).entries
    assert failed.error_code == STORAGE
    assert "json" not in failed.error_message


@pytest.mark.parametrize("version", [3, 9])
def test_a_producer_above_its_quota_waits_and_others_do_not(limited: Gateway, admin: WireClient, version: int) -> None:
    with WireClient(limited, "greedy") as greedy, WireClient(limited, "modest") as modest:
        assert produce(greedy, 400_000, version) == 0
        assert alter(admin, entry({"client-id": "greedy"}, ("producer_byte_rate", 300_000.0))) == [0]
        assert 333 <= produce(greedy, 400_000, version) <= 335  # what it used of the second before was not counted
        waiting = greedy.send(3, 9, topics=())  # which is not served while it waits
        assert [produce(modest, 400_000, version) for _ in range(3)] == [0, 0, 0]
        greedy.answer(3, 9, waiting)
    assert alter(admin, entry({"client-id": "greedy"}, ("producer_byte_rate", None))) == [0]
    with WireClient(limited, "greedy") as greedy:
        assert [produce(greedy, 100_000, version) for _ in range(3)] == [0, 0, 0]


@pytest.mark.parametrize("version", [4, 11, 12])
def test_a_consumer_above_its_quota_waits_with_all_connections_of_its_id(
    limited: Gateway, admin: WireClient, version: int
) -> None:
    produce(admin, 150_000)
    alter(admin, entry({"user": "ANONYMOUS", "client-id": None}, ("consumer_byte_rate", 10_000.0)))
    with WireClient(limited, "greedy") as one, WireClient(limited, "greedy") as two, WireClient(limited, "x") as other:
        throttled = [each.ask(FETCH, version, **fetch_fields("t", 0)).throttle_time for each in (one, two, other)]
    own, shared, others = (each.total_seconds() for each in throttled)
    assert 14 <= own <= 14.1
    assert own < shared
    assert others == own


def test_a_consumer_above_its_quota_keeps_its_fetch_session(limited: Gateway, admin: WireClient) -> None:
    alter(admin, entry({"client-id": "greedy"}, ("consumer_byte_rate", 100_000.0)))
    produce(admin, 150_000)
    with WireClient(limited, "greedy") as greedy:
        first = greedy.ask(FETCH, 12, **fetch_fields("t", 0, session_epoch=0))
    assert first.throttle_time.total_seconds() > 0
    assert first.session_id > 0


def test_requests_that_have_arrived_wait_too(limited: Gateway, admin: WireClient) -> None:
    alter(admin, entry({"client-id": "greedy"}, ("producer_byte_rate", 400_000.0)))
    with WireClient(limited, "greedy") as greedy:
        fields = produce_fields("t", bytes(batch(bytes(200_000))))
        sent = [greedy.send(PRODUCE, 9, **fields) for _ in range(5)]
        answers = [greedy.answer(PRODUCE, 9, each) for each in sent]
    assert [each.responses[0].partition_responses[0].base_offset for each in answers] == list(range(5))
    # The first two are what may be used at once. Each of the others was read when the one before it was paid for.
    throttled = [each.throttle_time.total_seconds() for each in answers]
    assert throttled[0] == 0
    assert all(each <= 0.51 for each in throttled)


def test_an_address_opens_as_many_connections_as_it_may_and_others_are_closed_late(
    limited: Gateway, admin: WireClient
) -> None:
    assert alter(admin, entry({"ip": "127.0.0.1"}, ("connection_creation_rate", 1.0))) == [0]
    assert described(admin) == [({"ip": "127.0.0.1"}, {"connection_creation_rate": 1.0})]
    with ExitStack() as stack:
        clients = [stack.enter_context(WireClient(limited)) for _ in range(30)]  # ten at once, and one a second
        assert clients[0].ask(3, 9, topics=()).brokers
        assert clients[-1].is_closed()
    assert alter(admin, entry({"ip": "127.0.0.1"}, ("connection_creation_rate", None))) == [0]
    with WireClient(limited) as another:
        assert another.ask(3, 9, topics=()).brokers


def created(client: WireClient, version: int, name: str, partitions: int) -> tuple[int, float]:
    """Creates a topic; returns the error, and for how long the client is throttled."""
    asked = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": (), "configs": ()}
    answer = client.ask(19, version, topics=[asked], timeout=1000, validate_only=False)
    return int(answer.topics[0].error_code), answer.throttle_time.total_seconds()


def test_changes_of_topics_are_refused_or_slowed_down_by_the_version(limited: Gateway, admin: WireClient) -> None:
    assert alter(admin, entry({"client-id": None}, ("controller_mutation_rate", 0.5))) == [0]
    with WireClient(limited, "other") as other:
        code, throttled_s = created(other, 7, "b", 25)  # 5.5 at once, as 11 windows of a second
    assert (code, 20 < throttled_s <= 30) == (0, True)
    with WireClient(limited, "other") as strict:  # the connection before is muted
        code, throttled_s = created(strict, 6, "c", 1)
        assert (code, throttled_s > 10) == (THROTTLED, True)
    with WireClient(limited, "other") as old:
        assert created(old, 5, "c", 1)[0] == 0
    with WireClient(limited, "other") as deleting:
        asked = deleting.ask(20, 6, topics=[{"name": "b"}], timeout=1000)
        assert (int(asked.responses[0].error_code), asked.throttle_time.total_seconds() > 10) == (THROTTLED, True)
    with WireClient(limited, "another") as modest:
        assert created(modest, 7, "d", 1) == (0, 0)


def test_topics_that_metadata_creates_count_until_their_client_must_wait(limited: Gateway, admin: WireClient) -> None:
    assert alter(admin, entry({"client-id": None}, ("controller_mutation_rate", 0.01))) == [0]
    with WireClient(limited, "other") as other:
        asked = other.ask(3, 8, topics=[{"name": "b"}, {"name": "c"}], allow_auto_topic_creation=True)
    assert {each.name: int(each.error_code) for each in asked.topics} == {"b": 0, "c": UNKNOWN_TOPIC}
    assert asked.throttle_time.total_seconds() == 30  # the longest
    assert {each.name for each in admin.ask(3, 8, topics=None).topics} == {"t", "b"}


def test_a_client_that_takes_more_time_than_it_may_waits(limited: Gateway, admin: WireClient) -> None:
    assert alter(admin, entry({"client-id": "busy"}, ("request_percentage", 0.0001))) == [0]
    for ask in (
        lambda busy: busy.ask(3, 9, topics=None).throttle_time,
        lambda busy: busy.ask(FETCH, 12, **fetch_fields("t", 0)).throttle_time,
        lambda busy: busy.ask(PRODUCE, 9, **produce_fields("t", bytes(batch(b"x")))).throttle_time,
        lambda busy: busy.ask(32, 4, resources=[{"resource_type": 4, "resource_name": "1"}]).throttle_time,
    ):
        with WireClient(limited, "busy") as busy:
            assert ask(busy).total_seconds() == 1  # at most, as on a broker
    with WireClient(limited, "other") as other:
        assert other.ask(3, 9, topics=None).throttle_time.total_seconds() == 0


def test_the_time_of_a_request_that_fails_counts_too(
    limited: Gateway, admin: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RequestError(ErrorCode.policy_violation)

    failing = KINDS[ApiKey.LIST_GROUPS]._replace(handler=fail)
    monkeypatch.setattr(limited, "_kinds", {**KINDS, ApiKey.LIST_GROUPS: failing})
    assert alter(admin, entry({"client-id": "busy"}, ("request_percentage", 0.0001))) == [0]
    asked: list[tuple[ApiKey, int, dict[str, Any]]] = [
        (ApiKey.LIST_GROUPS, 4, {}),
        (ApiKey.FETCH, 12, fetch_fields("t", 0, session_id=5, session_epoch=1)),
    ]
    for key, version, fields in asked:
        with WireClient(limited, "busy") as busy:
            answer = busy.ask(key, version, **fields)
            assert (answer.error_code != 0, answer.throttle_time.total_seconds()) == (True, 1)
