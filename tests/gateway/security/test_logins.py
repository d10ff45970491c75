"""Real clients log in, with TLS and without; those who cannot get Kafka's answer, and nothing secret is logged."""

from __future__ import annotations

import asyncio
import datetime
import logging
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import kafka.errors
import pytest
import trustme
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from pyspark_commitlog.gateway import Gateway
from pyspark_commitlog.gateway.security import UsersFile
from tests.gateway.security.conftest import PASSWORDS, Secured
from tests.support.gateway import WireClient, produce_fields
from tests.support.logs.building import batch

TIMEOUT_S = 30.0
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
HANDSHAKE, AUTHENTICATE = 17, 36


def login(mechanism: str, user: str = "alice", password: str | None = None) -> Mapping[str, Any]:
    """librdkafka's settings of a login."""
    password = PASSWORDS[user] if password is None else password
    return {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}


def settings(gateway: Gateway, protocol: str, tls_files: Path, **more: object) -> dict[str, Any]:
    return {
        "bootstrap.servers": gateway.bootstrap_servers,
        "security.protocol": protocol,
        "ssl.ca.location": str(tls_files / "ca.pem"),
        **more,
    }


def round_trip(given: Mapping[str, Any], values: list[bytes]) -> list[bytes | None]:
    producer = Producer({**given, "linger.ms": 0})
    for value in values:
        producer.produce("t", value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**given, "group.id": "g"})
    consumer.assign([TopicPartition("t", 0, 0)])
    found: list[bytes | None] = []
    while len(found) < len(values):
        records = consumer.consume(len(values) - len(found), TIMEOUT_S)
        assert records
        assert not [each.error() for each in records if each.error()]
        found += [each.value() for each in records]
    consumer.close()
    return found


def refused(given: Mapping[str, Any]) -> str:
    """What a client of librdkafka is told that cannot connect."""
    errors: list[Any] = []
    admin = AdminClient({**given, "error_cb": errors.append, "socket.connection.setup.timeout.ms": 5000})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3)
    admin.poll(0)
    return " ".join(f"{each.name()} {each.str()}" for each in errors)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_logs_in_over_tls(secured: Secured, tls_files: Path, mechanism: str) -> None:
    values = [b"%d" % number * 5000 for number in range(200)]  # megabytes, so that sockets are full
    with secured("SASL_SSL") as gateway:
        assert round_trip(settings(gateway, "SASL_SSL", tls_files, **login(mechanism)), values) == values


@pytest.mark.parametrize(
    "mechanism", [MECHANISMS[0], *(pytest.param(each, marks=pytest.mark.only_all) for each in MECHANISMS[1:])]
)
def test_a_wrong_password_and_an_unknown_user_are_told_the_same(
    secured: Secured, tls_files: Path, mechanism: str
) -> None:
    with secured("SASL_SSL") as gateway:
        for user, password in (("alice", "wrong"), ("mallory", "wrong"), ("bob", PASSWORDS["alice"])):
            given = settings(gateway, "SASL_SSL", tls_files, **login(mechanism, user, password))
            said = refused(given)
            assert "_AUTHENTICATION" in said
            assert "Invalid username or password" in said or f"with SASL mechanism {mechanism}" in said


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_failed_login_gets_code_58_and_then_the_end(secured: Secured, version: int) -> None:
    with secured("SASL_PLAINTEXT") as gateway, WireClient(gateway) as client:
        assert client.ask(HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
        answer = client.ask(AUTHENTICATE, version, auth_bytes=b"\0alice\0wrong")
        assert (int(answer.error_code), answer.error_message) == (
            58,
            "Authentication failed: Invalid username or password",
        )
        assert client.is_closed()


def test_tokens_may_come_without_headers(secured: Secured) -> None:
    with secured("SASL_PLAINTEXT") as gateway:
        with WireClient(gateway) as client:
            assert client.ask(HANDSHAKE, 0, mechanism="PLAIN").error_code == 0
            client.send_frame(b"\0bob\0" + PASSWORDS["bob"].encode())
            assert client.receive() == b""
            assert client.ask(3, 9, topics=None, allow_auto_topic_creation=False).controller_id == 1
        with WireClient(gateway) as client:
            assert client.ask(HANDSHAKE, 0, mechanism="PLAIN").error_code == 0
            client.send_frame(b"\0bob\0wrong")
            assert client.is_closed()


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are(secured: Secured) -> None:
    with secured("SASL_PLAINTEXT", sasl_enabled_mechanisms="SCRAM-SHA-256") as gateway, WireClient(gateway) as client:
        answer = client.ask(HANDSHAKE, 1, mechanism="PLAIN")
        assert (int(answer.error_code), answer.mechanisms) == (33, ("SCRAM-SHA-256",))
        assert client.is_closed()


def test_nothing_else_is_served_before_a_login(secured: Secured) -> None:
    with secured("SASL_PLAINTEXT") as gateway:
        with WireClient(gateway) as client:
            assert client.ask(18, 3, client_software_name="x", client_software_version="1").error_code == 0
            client.send(3, 9, topics=None)
            assert client.is_closed()
        with WireClient(gateway) as client:
            client.send(0, 9, **produce_fields("t", batch(b"a")))
            assert client.is_closed()
        with WireClient(gateway) as client:
            client.ask(HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
            client.ask(AUTHENTICATE, 1, auth_bytes=b"n,,n=alice,r=abc")
            client.send(3, 9, topics=None)  # between the two messages
            assert client.is_closed()
        with WireClient(gateway) as client:  # large frames are for those who have logged in
            client.socket.sendall((1 << 20).to_bytes(4, "big"))
            assert client.is_closed()


def test_a_second_login_and_one_where_there_are_none_are_refused(secured: Secured, gateway: Gateway) -> None:
    with secured("SASL_PLAINTEXT") as with_logins, WireClient(with_logins) as client:
        client.ask(HANDSHAKE, 1, mechanism="PLAIN")
        assert client.ask(AUTHENTICATE, 2, auth_bytes=b"\0bob\0" + PASSWORDS["bob"].encode()).error_code == 0
        assert client.ask(HANDSHAKE, 1, mechanism="PLAIN").error_code == 34
        assert client.ask(AUTHENTICATE, 2, auth_bytes=b"\0bob\0x").error_code == 34
    with WireClient(gateway) as client:
        assert client.ask(HANDSHAKE, 1, mechanism="PLAIN").error_code == 34


def test_a_user_added_while_it_runs_logs_in_and_a_removed_one_does_not(
    secured: Secured, tls_files: Path, tmp_path: Path
) -> None:
    users = UsersFile(str(tmp_path / "own.json"))
    users.add("carol", "one")
    with secured("SASL_PLAINTEXT", commitlog_users_file=users.path) as gateway:
        users.add("dave", "two")
        dave = settings(gateway, "SASL_PLAINTEXT", tls_files, **login("SCRAM-SHA-512", "dave", "two"))
        assert AdminClient(dave).list_topics(timeout=TIMEOUT_S).topics == {}
        users.remove("dave")
        assert "_AUTHENTICATION" in refused(dave)


def test_kafka_python_and_aiokafka_log_in(secured: Secured, tls_files: Path) -> None:
    with secured("SASL_SSL") as gateway:
        given: dict[str, Any] = {
            "bootstrap_servers": gateway.bootstrap_servers,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": "bob",
            "sasl_plain_password": PASSWORDS["bob"],
        }
        producer = kafka.KafkaProducer(**given, ssl_cafile=str(tls_files / "ca.pem"))
        assert producer.send("t", b"x").get(TIMEOUT_S).offset == 0
        producer.close()

        async def run() -> int:
            context = ssl.create_default_context(cafile=str(tls_files / "ca.pem"))
            async with aiokafka.AIOKafkaProducer(**given, ssl_context=context) as producer:
                sent: int = (await producer.send_and_wait("t", b"y")).offset
                return sent

        assert asyncio.run(run()) == 1


def test_a_client_shows_a_certificate(secured: Secured, authority: trustme.CA, tls_files: Path, tmp_path: Path) -> None:
    authority.issue_cert("app@example.com", common_name="app").private_key_and_cert_chain_pem.write_to_path(
        str(tmp_path / "app.pem")
    )
    own = {"ssl.certificate.location": str(tmp_path / "app.pem"), "ssl.key.location": str(tmp_path / "app.pem")}
    asks = {"ssl_client_auth": "required", "ssl_truststore_location": str(tls_files / "ca.pem")}
    with secured("SSL", **asks) as gateway:
        assert round_trip(settings(gateway, "SSL", tls_files, **own), [b"x"]) == [b"x"]
        assert "_TRANSPORT" in refused(settings(gateway, "SSL", tls_files))


def test_an_expired_certificate_is_refused_on_both_sides(
    secured: Secured, authority: trustme.CA, tls_files: Path, tmp_path: Path
) -> None:
    long_ago = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    expired = authority.issue_cert("127.0.0.1", not_before=long_ago, not_after=long_ago + datetime.timedelta(days=9))
    expired.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "old.pem"))
    with secured("SSL", ssl_keystore_location=str(tmp_path / "old.pem")) as gateway:
        assert "certificate verify failed" in refused(settings(gateway, "SSL", tls_files))
    own = {"ssl.certificate.location": str(tmp_path / "old.pem"), "ssl.key.location": str(tmp_path / "old.pem")}
    asks = {"ssl_client_auth": "required", "ssl_truststore_location": str(tls_files / "ca.pem")}
    with secured("SSL", **asks) as gateway:
        assert "certificate expired" in refused(settings(gateway, "SSL", tls_files, **own))


def test_what_is_no_tls_costs_its_own_connection(secured: Secured, tls_files: Path) -> None:
    with secured("SSL") as gateway:
        with WireClient(gateway) as plain:
            plain.send(18, 0)
            with suppress(ConnectionResetError):
                while plain.socket.recv(100):
                    pass  # an alert, and then the end
        with socket.create_connection(gateway.address) as silent:  # never begins its handshake
            assert round_trip(settings(gateway, "SSL", tls_files), [b"x"]) == [b"x"]
            silent.close()


def test_pipelined_requests_in_one_record_of_tls_are_all_answered(secured: Secured, tls_files: Path) -> None:
    with secured("SSL") as gateway, WireClient(gateway) as client:
        context = ssl.create_default_context(cafile=str(tls_files / "ca.pem"))
        client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
        frame = b"\0\0\0\x0c" + b"\0\x12\0\0" + b"\0\0\0\x07" + b"\0\x02ab"
        client.socket.sendall(frame * 100)
        for _ in range(100):
            assert client.receive()[:4] == b"\0\0\0\x07"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_no_secret_is_logged_or_described(
    secured: Secured, tls_files: Path, caplog: pytest.LogCaptureFixture, mechanism: str
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = ["hush-hush-password", PASSWORDS["alice"], "password-of-the-key"]
    with secured("SASL_SSL", ssl_key_password=secrets[2]) as gateway:
        given = settings(gateway, "SASL_SSL", tls_files, **login(mechanism))
        refused({**given, "sasl.password": secrets[0]})
        round_trip(given, [b"x"])
        admin = AdminClient(given)
        node = next(iter(admin.describe_configs([ConfigResource("broker", "1")]).values())).result(TIMEOUT_S)
        assert node["ssl.key.password"].value is None
        assert node["ssl.key.password"].is_sensitive
        with WireClient(gateway) as client:
            client.socket = ssl.create_default_context(cafile=str(tls_files / "ca.pem")).wrap_socket(
                client.socket, server_hostname="127.0.0.1"
            )
            client.ask(HANDSHAKE, 1, mechanism=mechanism)
            client.send_body(AUTHENTICATE, 2, b"\x7f\0alice\0" + secrets[1].encode())  # cut off
            assert client.is_closed()
        stored = Path(gateway.config.commitlog_users_file).read_text()
    said = caplog.text
    assert "a login failed" in said
    assert not [each for each in (*secrets, "stored_key", stored.split('"stored_key": "')[1][:20]) if each in said]
