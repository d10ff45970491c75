"""Whatever a handler or a thread raises, its client gets an answer or a close, and others get its place."""

from __future__ import annotations

import gc
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest

from pyspark_commitlog.gateway.context import Handler
from pyspark_commitlog.gateway.groups.coordinator import GroupCoordinator
from pyspark_commitlog.gateway.groups.membership import Membership
from pyspark_commitlog.gateway.groups.offsets import Offsets
from pyspark_commitlog.gateway.handlers.table import KINDS, Kind
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.gateway.transactions.coordinator import TransactionCoordinator
from pyspark_commitlog.protocol.apis import APIS, ApiKey
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import LogManager
from tests.support.gateway import WireClient, create_topic, produce_fields, serving
from tests.support.logs.building import batch

PLACES = 2
ERRORS = [ValueError("x"), KeyError("x"), struct.error("x"), MemoryError(), RecursionError(), OSError()]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serving(tmp_path_factory.mktemp("lost") / "log", queued_max_requests=PLACES) as started:
        with WireClient(started) as client:
            create_topic(client, "t")
            client.ask(8, 7, group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=())
        yield started


def kinds_with(key: int, handler: Handler) -> Mapping[int, Kind]:
    """The table of requests with another handler for one kind."""
    return {**KINDS, key: KINDS[key]._replace(handler=handler)}


def failing(error: Exception) -> Handler:
    """A handler that raises ``error``."""

    def fail(*_: object) -> None:
        raise error

    return fail


def check_ends(gateway: Gateway, key: int, version: int, fields: dict[str, Any]) -> None:
    """Sends more such requests than there are places; each ends, and then another client is served."""
    for _ in range(PLACES + 1):
        with WireClient(gateway) as client:
            client.send(key, version, **fields)
            with suppress(EOFError, ConnectionResetError):  # a close
                client.receive()  # or an answer with the error
    with WireClient(gateway) as other:
        assert other.ask(18, 2).error_code == 0


@pytest.mark.parametrize("key", sorted(KINDS))
def test_an_error_of_a_handler_ends_its_request(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, key: int) -> None:
    if key == ApiKey.API_VERSIONS:  # by which the test sees that others are served
        pytest.skip("is covered by the errors of writing")
    errors = iter(ERRORS)

    def fail(*_: object) -> None:
        raise next(errors)

    monkeypatch.setattr(gateway, "_kinds", kinds_with(key, fail))
    check_ends(gateway, key, APIS[key].highest, {})


@pytest.mark.parametrize(
    ("key", "version"), [(ApiKey.FETCH, 7), (ApiKey.FIND_COORDINATOR, 3), (ApiKey.END_TXN, 0), (ApiKey.OFFSET_FETCH, 7)]
)
def test_an_error_of_a_handler_is_the_answer_if_there_is_a_field_for_it(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, key: ApiKey, version: int
) -> None:
    monkeypatch.setattr(gateway, "_kinds", kinds_with(key, failing(ERRORS[0])))
    with WireClient(gateway) as client:
        assert client.ask(key, version).error_code is ErrorCode.unknown_server_error


@pytest.mark.parametrize(
    ("key", "version"), [(ApiKey.FETCH, 6), (ApiKey.FIND_COORDINATOR, 4), (ApiKey.PRODUCE, 9), (ApiKey.OFFSET_FETCH, 8)]
)
def test_an_error_of_a_handler_closes_the_connection_if_the_answer_has_no_field_for_it(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, key: ApiKey, version: int
) -> None:
    monkeypatch.setattr(gateway, "_kinds", kinds_with(key, failing(ERRORS[0])))
    with WireClient(gateway) as client:
        client.send(key, version)
        assert client.is_closed()


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_any_error_of_a_handler_ends_its_request(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(gateway, "_kinds", kinds_with(ApiKey.METADATA, failing(error)))
    check_ends(gateway, ApiKey.METADATA, 9, {})


@pytest.mark.parametrize("key", sorted(KINDS))
def test_an_error_while_an_answer_is_written_ends_its_request(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, key: int
) -> None:
    def fail(asked: int, *_: object) -> bytes:
        if asked == key:
            raise struct.error("argument out of range")
        return write(asked, *_)

    from pyspark_commitlog.gateway import request as module  # noqa: PLC0415

    write: Any = module.write_answer
    if key in (ApiKey.PRODUCE, ApiKey.FETCH):
        name = "produce.encode_produced" if key == ApiKey.PRODUCE else "fetch.encode_fetched"
        monkeypatch.setattr(f"pyspark_commitlog.gateway.handlers.{name}", lambda *_: struct.pack(">b", 1000))
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_answer", fail)
        for _ in range(PLACES + 1):
            with WireClient(gateway) as client:
                fields = produce_fields("t", batch(b"v").tobytes()) if key == ApiKey.PRODUCE else {}
                client.send(key, APIS[key].highest, **fields)
                assert client.is_closed()
    with WireClient(gateway) as other:
        assert other.ask(18, 2).error_code == 0


PRODUCER = {"producer_id": 1, "producer_epoch": 0}
NO_PRODUCER = {"producer_id": -1, "producer_epoch": -1}
OFFSET = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
IN_THREADS: list[tuple[type, str, int, int, dict[str, Any]]] = [
    (Membership, "join", 11, 5, {"group_id": "g", "member_id": "", "group_instance_id": None, "protocols": ()}),
    (Membership, "sync", 14, 3, {"group_id": "g", "member_id": "", "group_instance_id": None, "assignments": ()}),
    (Membership, "heartbeat", 12, 3, {"group_id": "g", "member_id": ""}),
    (Membership, "leave", 13, 3, {"group_id": "g", "members": ()}),
    (Offsets, "commit", 8, 7, {"group_id": "g", "member_id": "", "topics": [{"name": "t", "partitions": [OFFSET]}]}),
    (Offsets, "fetch", 9, 5, {"group_id": "g", "topics": None}),
    (Offsets, "fetch", 9, 8, {"groups": [{"group_id": "g", "topics": None}]}),
    (Offsets, "delete", 47, 0, {"group_id": "g", "topics": ()}),
    (GroupCoordinator, "list", 16, 4, {}),
    (GroupCoordinator, "describe", 15, 5, {"groups": ("g",)}),
    (GroupCoordinator, "delete", 42, 2, {"groups_names": ("g",)}),
    (
        TransactionCoordinator,
        "init_producer_id",
        22,
        4,
        {"transactional_id": "x", "producer_id": -1, "producer_epoch": -1},
    ),
    (TransactionCoordinator, "add_group", 25, 3, {"transactional_id": "x", "group_id": "g", **PRODUCER}),
    (TransactionCoordinator, "end", 26, 3, {"transactional_id": "x", "committed": True, **PRODUCER}),
    (TransactionCoordinator, "describe", 65, 0, {"transactional_ids": ("x",)}),
    (TransactionCoordinator, "list", 66, 0, {}),
    (LogManager, "create_topic", 19, 4, {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}]}),
    (LogManager, "broker_settings", 32, 4, {"resources": [{"resource_type": 4, "resource_name": "1"}]}),
]


@pytest.mark.parametrize(("owner", "method", "key", "version", "fields"), IN_THREADS)
def test_an_error_in_another_thread_ends_the_request(
    gateway: Gateway,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    method: str,
    key: int,
    version: int,
    fields: dict[str, Any],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RecursionError

    monkeypatch.setattr(owner, method, fail)
    check_ends(gateway, key, version, fields)


@pytest.mark.parametrize(("owner", "method", "key", "version", "fields"), IN_THREADS)
def test_a_request_that_a_thread_forgets_ends(
    gateway: Gateway,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    method: str,
    key: int,
    version: int,
    fields: dict[str, Any],
) -> None:
    if owner is LogManager or method in ("heartbeat", "leave"):
        pytest.skip("returns what it is asked for, to a caller that answers")
    monkeypatch.setattr(owner, method, lambda *_, **__: None)
    check_ends(gateway, key, version, fields)


def test_a_request_that_is_part_of_a_cycle_ends_with_the_cycle(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget(request: Any, _: object) -> None:
        request.amend = lambda body: {**body, "": request}

    monkeypatch.setattr(gateway, "_kinds", kinds_with(ApiKey.METADATA, forget))
    with WireClient(gateway) as client:
        client.send(3, 9)
        with WireClient(gateway) as other:
            assert other.ask(18, 2).error_code == 0  # the first one has begun
        gc.collect()
        assert client.is_closed()


def test_an_answer_that_is_given_twice_counts_once(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Any, context: Any) -> Any:
        request.answer(KINDS[ApiKey.DESCRIBE_CLUSTER].handler(request, context))
        raise ValueError

    monkeypatch.setattr(
        gateway, "_kinds", {**KINDS, ApiKey.DESCRIBE_CLUSTER: KINDS[ApiKey.DESCRIBE_CLUSTER]._replace(handler=answer)}
    )
    with WireClient(gateway) as client:
        assert client.ask(60, 0).error_code == 0
        assert client.ask(18, 2).error_code == 0
