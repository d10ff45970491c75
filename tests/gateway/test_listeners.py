"""Several listeners: each with its protocol, and with the addresses that its clients are told."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from confluent_kafka import Consumer, Producer

from pyspark_commitlog.gateway.security.users import UsersFile
from tests.support.gateway import WireClient, serving

METADATA, COORDINATOR, CLUSTER = 3, 10, 60


class _At(NamedTuple):
    """What a client needs to know of a gateway."""

    address: tuple[str, int]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    UsersFile(str(tmp_path / "users.json")).add("alice", "a long password")
    return {
        "ssl_keystore_location": str(tmp_path / "server.pem"),
        "commitlog_users_file": str(tmp_path / "users.json"),
    }


def test_clients_use_each_listener_by_its_protocol(tmp_path: Path, files: dict[str, str]) -> None:
    several = {
        "listeners": "PLAINTEXT://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,OUTSIDE:SASL_SSL",
        "group_initial_rebalance_delay_ms": 0,
    }
    with serving(tmp_path / "log", **several, **files) as gateway:
        assert len(set(gateway.addresses.values())) == 2
        inside = {"bootstrap.servers": str(gateway.addresses["PLAINTEXT"])}
        outside = {
            "bootstrap.servers": str(gateway.addresses["OUTSIDE"]),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": "a long password",
        }
        for number, client in enumerate((inside, outside)):
            producer = Producer(client)
            producer.produce("orders", b"%d" % number)
            assert producer.flush(60) == 0
            known = {f"{each.host}:{each.port}" for each in producer.list_topics(timeout=60).brokers.values()}
            assert known == {client["bootstrap.servers"]}
        for client in (inside, outside):
            group = {"group.id": f"by {client['bootstrap.servers']}", "auto.offset.reset": "earliest"}
            consumer = Consumer({**client, **group})
            consumer.subscribe(["orders"])
            records: list = []
            while len(records) < 2:
                records += consumer.consume(2 - len(records), 60)
            consumer.close()
            assert [each.value() for each in records] == [b"0", b"1"]


@pytest.mark.parametrize(
    ("advertised", "told"),
    [
        ("", ("own", "own")),
        ("IN://inside.example:1,OUT://[::1]:2", ("inside.example:1", "::1:2")),
        ("out://outside.example:3", ("own", "outside.example:3")),
    ],
)
def test_answers_have_the_address_of_the_listener_that_was_asked(
    tmp_path: Path, advertised: str, told: tuple[str, str]
) -> None:
    several = {
        "listeners": "IN://127.0.0.1:0,OUT://0.0.0.0:0",
        "listener_security_protocol_map": "IN:PLAINTEXT,OUT:PLAINTEXT",
        "advertised_listeners": advertised,
        "commitlog_insecure_listeners": True,
    }
    with serving(tmp_path / "log", **several) as gateway:
        for name, expected in zip(("IN", "OUT"), told, strict=True):
            address = gateway.addresses[name]
            own = f"127.0.0.1:{address.port}"
            with WireClient(_At(("127.0.0.1", address.port))) as client:
                nodes = [
                    client.ask(METADATA, 9, topics=()).brokers[0],
                    client.ask(COORDINATOR, 3, key="group", key_type=0),
                    client.ask(CLUSTER, 0).brokers[0],
                ]
            assert {f"{each.host}:{each.port}" for each in nodes} == {own if expected == "own" else expected}


def test_the_first_listener_is_closed_if_the_second_cannot_listen(tmp_path: Path) -> None:
    with serving(tmp_path / "log") as gateway:
        taken = gateway.address.port
        one = {"listeners": f"IN://127.0.0.1:0,OUT://127.0.0.1:{taken}"}
        with (
            pytest.raises(OSError, match="in use"),
            serving(tmp_path / "other", listener_security_protocol_map="IN:PLAINTEXT,OUT:PLAINTEXT", **one),
        ):
            pass
