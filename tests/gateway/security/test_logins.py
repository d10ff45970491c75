"""Real clients log in, with TLS and without; those who cannot get Kafka's answer, and nothing secret is logged."""

from __future__ import annotations

import asyncio
import datetime
import logging
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import kafka.errors
import pytest
import trustme
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from pyspark_commitlog.gateway.security import plain
from pyspark_commitlog.gateway.security.scram import Credential, made_credential
from pyspark_commitlog.gateway.security.session import Session
from pyspark_commitlog.gateway.security.users import UsersFile
from pyspark_commitlog.gateway.server import Gateway
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


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_failed_login_names_its_user_and_address(
    secured: Secured, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    user = f"nobody of {mechanism}\n"
    first = f"n,,n={user},r=abc" if mechanism.startswith("SCRAM") else f"\0{user}\0wrong"
    with secured("SASL_PLAINTEXT") as gateway, WireClient(gateway) as client:
        client.ask(HANDSHAKE, 1, mechanism=mechanism)
        answer = client.ask(AUTHENTICATE, 1, auth_bytes=first.encode())
        if mechanism.startswith("SCRAM"):
            nonce = answer.auth_bytes.decode().partition(",")[0]
            client.ask(AUTHENTICATE, 1, auth_bytes=f"c=biws,{nonce},p=AAAA".encode())
        client.is_closed()
    assert [each for each in caplog.messages if each.startswith(f"127.0.0.1: a login of {user!r} failed: ")]


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


def logged_in(gateway: Gateway, user: str = "bob") -> WireClient:
    client = WireClient(gateway)
    assert client.ask(HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
    answer = client.ask(AUTHENTICATE, 2, auth_bytes=f"\0{user}\0{PASSWORDS[user]}".encode())
    assert answer.error_code == 0, answer.error_message
    return client


@contextmanager
def wrong_logins(gateway: Gateway, count: int) -> Iterator[list[WireClient]]:
    """Clients that wait for the answer to a wrong password."""
    with ExitStack() as stack:
        clients = [stack.enter_context(WireClient(gateway)) for _ in range(count)]
        for client in clients:
            client.ask(HANDSHAKE, 1, mechanism="PLAIN")
        for client in clients:
            client.send(AUTHENTICATE, 2, auth_bytes=b"\0alice\0wrong")
        yield clients


def test_wrong_logins_keep_no_place_from_others(secured: Secured) -> None:
    given = {"queued_max_requests": 2, "connection_failed_authentication_delay_ms": 60_000}
    with secured("SASL_PLAINTEXT", **given) as gateway, logged_in(gateway) as client, wrong_logins(gateway, 10):
        assert client.ask(3, 9, topics=None, allow_auto_topic_creation=False).controller_id == 1
        with logged_in(gateway) as another:
            assert another.ask(3, 9, topics=None, allow_auto_topic_creation=False).controller_id == 1


def test_a_login_does_not_wait_for_the_wrong_ones_of_another_user(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, checked = threading.Event(), list[bool]()

    def slow(mechanism: str, credential: Credential, password: str) -> bool:
        assert goes_on.wait(TIMEOUT_S)
        checked.append(password == PASSWORDS["bob"])
        return checked[-1]

    monkeypatch.setattr(plain, "has_password", slow)
    with secured("SASL_PLAINTEXT") as gateway, wrong_logins(gateway, 10), WireClient(gateway) as client:
        client.ask(HANDSHAKE, 1, mechanism="PLAIN")
        sent = client.send(AUTHENTICATE, 2, auth_bytes=b"\0bob\0" + PASSWORDS["bob"].encode())
        with WireClient(gateway) as later:
            later.ask(HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
            later.ask(AUTHENTICATE, 2, auth_bytes=b"n,,n=alice,r=abc")  # after the password of bob was read
        goes_on.set()
        assert client.answer(AUTHENTICATE, 2, sent).error_code == 0
    assert True in checked[:2]  # one was being checked already


def test_too_many_passwords_that_wait_close_connections_of_the_user_with_the_most(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    monkeypatch.setattr(plain, "has_password", lambda *_: goes_on.wait(TIMEOUT_S) and False)
    with (
        secured("SASL_PLAINTEXT", commitlog_login_queued_max_requests=2) as gateway,
        wrong_logins(gateway, 5) as clients,  # of which one is being checked, and two wait
    ):
        until_s = time.monotonic() + TIMEOUT_S
        sockets = [each.socket for each in clients]
        while len(select.select(sockets, [], [], 0.01)[0]) < 2 and time.monotonic() < until_s:
            time.sleep(0.01)
        goes_on.set()
        assert sum(each.is_closed() for each in clients) in (2, 3)  # the thread may not have begun before all came


def test_too_many_without_a_login_send_away_the_first_of_them(secured: Secured) -> None:
    with secured("SASL_PLAINTEXT", commitlog_login_max_connections=3) as gateway, logged_in(gateway) as known:
        with ExitStack() as stack:
            clients = [stack.enter_context(WireClient(gateway)) for _ in range(5)]
            assert [each.is_closed() for each in clients[:2]] == [True, True]
            stack.enter_context(logged_in(gateway))
        assert known.ask(18, 0).error_code == 0


def test_a_login_that_takes_too_long_ends_the_connection(secured: Secured, tls_files: Path) -> None:
    for protocol in ("SASL_PLAINTEXT", "SSL"):
        with secured(protocol, commitlog_login_timeout_ms=1) as gateway, WireClient(gateway) as silent:
            assert silent.is_closed()


def test_requests_before_a_login_share_a_memory_of_their_own(secured: Secured) -> None:
    given = {"commitlog_login_queued_max_request_bytes": 100_000, "queued_max_request_bytes": 100_000}
    with secured("SASL_PLAINTEXT", **given) as gateway, logged_in(gateway) as known, ExitStack() as stack:
        for _ in range(5):
            hostile = stack.enter_context(WireClient(gateway))
            hostile.socket.sendall((500_000).to_bytes(4, "big") + bytes(90_000))
        known.ask(3, 4, topics=[{"name": "t"}], allow_auto_topic_creation=True)
        answer = known.ask(0, 8, **produce_fields("t", batch(b"x" * 300_000).tobytes()))
        assert answer.responses[0].partition_responses[0].error_code == 0
        stack.enter_context(logged_in(gateway))


def test_a_login_that_has_expired_is_renewed_on_its_connection_or_the_connection_ends(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    expired = threading.Event()
    monkeypatch.setattr(Session, "has_expired", property(lambda _: expired.is_set()))
    with secured("SASL_PLAINTEXT", connections_max_reauth_ms=60_000) as gateway:
        with logged_in(gateway) as client:
            expired.set()
            assert client.ask(HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
            answer = client.ask(AUTHENTICATE, 2, auth_bytes=b"\0bob\0" + PASSWORDS["bob"].encode())
            assert (answer.error_code, answer.session_lifetime) == (0, datetime.timedelta(minutes=1))
            expired.clear()
            assert client.ask(3, 9, topics=None, allow_auto_topic_creation=False).controller_id == 1
            client.ask(HANDSHAKE, 1, mechanism="PLAIN")
            other = client.ask(AUTHENTICATE, 2, auth_bytes=b"\0alice\0" + PASSWORDS["alice"].encode())
            assert other.error_code == 58
            assert other.error_message == "Cannot change principals during re-authentication from User:bob"
        with logged_in(gateway) as client:
            expired.set()
            client.send(3, 9, topics=None)
            assert client.is_closed()


def test_a_login_expires_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(user: str, mechanism: str) -> Credential | None:
        return made_credential(mechanism, "one")

    session = Session(None, ["PLAIN"], find, lasts_s=10.0)
    session.begin("PLAIN", is_raw=False)
    assert session.answer(b"\0alice\0one") is None
    session.check()
    now_s = time.monotonic()
    for after_s, expired in ((9.0, False), (10.1, True)):
        with monkeypatch.context() as patch:
            patch.setattr(time, "monotonic", lambda after_s=after_s: now_s + after_s)
            assert session.has_expired is expired


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
    assert "a login of 'alice' failed" in said
    assert not [each for each in (*secrets, "stored_key", stored.split('"stored_key": "')[1][:20]) if each in said]
