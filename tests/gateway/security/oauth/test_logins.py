"""Logins by OAUTHBEARER: which tokens are accepted, what is answered, when a session ends, and clients that do it."""

from __future__ import annotations

import base64
import http.server
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from confluent_kafka import Consumer, Producer
from cryptography.hazmat.primitives import serialization

from pyspark_commitlog.gateway.security.oauth.keys import UrlKeys, parse_keys
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import InvalidConfigError
from tests.gateway.security.oauth.issuer import Issuer, settings
from tests.support.gateway import WireClient, serving
from tests.support.kafka import kafka_jvm
from tests.support.waiting import soon

HANDSHAKE, AUTHENTICATE, METADATA = 17, 36, 3
FAILED = 58
REFUSED = b'{"status":"invalid_token"}'


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def gateway(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("oauth")
    with serving(home / "log", **settings(issuer.write(home / "keys.json"))) as started:
        yield started


def message(token: str, user: str = "", more: str = "") -> bytes:
    return f"n,{f'a={user}' if user else ''},\x01auth=Bearer {token}\x01{more}\x01".encode()


def sent(client: WireClient, data: bytes) -> Any:
    client.ask(HANDSHAKE, 1, mechanism="OAUTHBEARER")
    return client.ask(AUTHENTICATE, 2, auth_bytes=data)


@pytest.mark.parametrize("key_id", ["r", "e", None])
def test_a_valid_token_logs_in(gateway: Gateway, issuer: Issuer, key_id: str | None) -> None:
    with WireClient(gateway) as client:
        answer = sent(client, message(issuer.token(key_id=key_id), "alice", "traceId=x\x01"))
        assert (answer.error_code, answer.auth_bytes) == (0, b"")
        assert 3500 < answer.session_lifetime.total_seconds() <= 3600
        assert client.ask(METADATA, 12, topics=()).brokers


def unsigned(claims: dict[str, Any]) -> str:
    return jwt.encode(claims, None, algorithm="none")


def by_public_key(issuer: Issuer) -> str:
    """A token that an attacker signs with HMAC, for whose secret a careless server takes the public key."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = issuer.rsa.public_key().public_bytes(serialization.Encoding.PEM, form)
    parts = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=")
        for each in ({"alg": "HS256", "kid": "r"}, jwt.decode(issuer.token(), options={"verify_signature": False}))
    ]
    signature = jwt.get_algorithm_by_name("HS256").sign(b".".join(parts), public)
    return b".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            "expired",
            "no expiry",
            "from the future",
            "not yet",
            "no time",
            "audience",
            "no audience",
            "issuer",
            "no user",
        ),
        *("scope", "key", "other key", "none", "hmac", "secret", "changed", "no token"),
    ],
)
def test_any_other_token_is_refused_as_by_kafka(gateway: Gateway, issuer: Issuer, wrong: str) -> None:
    now_s = time.time()
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    token = {
        "expired": lambda: issuer.token(lasts_s=-60),
        "no expiry": lambda: issuer.token(exp=None),
        "from the future": lambda: issuer.token(iat=now_s + 600),
        "not yet": lambda: issuer.token(nbf=now_s + 600),
        "no time": lambda: issuer.token(iat=None),
        "audience": lambda: issuer.token(aud="other"),
        "no audience": lambda: issuer.token(aud=None),
        "issuer": lambda: issuer.token(iss="https://other.example"),
        "no user": lambda: issuer.token(sub=None),
        "scope": lambda: issuer.token(scope=[""]),
        "key": lambda: issuer.token(key_id="unknown"),
        "other key": lambda: Issuer().token(),
        "none": lambda: unsigned(claims),
        "hmac": lambda: by_public_key(issuer),
        "secret": lambda: jwt.encode(claims, "secret secret secret secret secret", "HS256", {"kid": "o"}),
        "changed": lambda: issuer.token()[:-10] + "AAAAAAAAAA",
        "no token": lambda: "abc",
    }[wrong]()
    with WireClient(gateway) as client:
        answer = sent(client, message(token))
        assert (answer.error_code, answer.auth_bytes) == (0, REFUSED)
        answer = client.ask(AUTHENTICATE, 2, auth_bytes=b"\x01")
        assert (answer.error_code, answer.error_message) == (FAILED, REFUSED.decode())
        assert client.is_closed()


def test_a_refused_token_leaves_little_of_its_text_in_memory_and_in_the_log(
    gateway: Gateway, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    token = jwt.encode({}, issuer.rsa, algorithm="RS256", headers={"kid": "k" * 300_000})
    with WireClient(gateway) as client:
        assert sent(client, message(token)).auth_bytes == REFUSED
        client.ask(AUTHENTICATE, 2, auth_bytes=b"\x01")
        assert client.is_closed()
    (line,) = [each for each in caplog.messages if "no key 'kkk" in each]
    assert line.endswith(" is known for 'RS256'; the connection is closed")
    assert len(line) < 300
    assert len(repr(gateway.context.refusals._repeats._kinds)) < 10_000


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"n,,\x01auth=Basic abc\x01\x01", "Invalid scheme in OAUTHBEARER client first message"),
        (b"n,,\x01a=b\x01\x01", "Invalid OAUTHBEARER client first message: 'auth' not specified"),
        (b"n,,\x01auth=Bearer\x01\x01", "Invalid OAUTHBEARER client first message: invalid 'auth' format"),
        (b"y,,\x01auth=Bearer a\x01\x01", "Invalid OAUTHBEARER client first message"),
        (b"\xff" * 10, "Invalid OAUTHBEARER client first message"),
    ],
)
def test_a_message_of_another_form_is_refused(gateway: Gateway, data: bytes, why: str) -> None:
    with WireClient(gateway) as client:
        answer = sent(client, data)
        assert (answer.error_code, answer.error_message) == (FAILED, why)
        assert client.is_closed()


def test_a_client_cannot_log_in_as_somebody_else(gateway: Gateway, issuer: Issuer) -> None:
    with WireClient(gateway) as client:
        answer = sent(client, message(issuer.token(), "root"))
        assert answer.error_code == FAILED
        assert "different from the token's principal name" in answer.error_message


def test_a_session_ends_with_its_token_unless_the_client_logs_in_again(gateway: Gateway, issuer: Issuer) -> None:
    with WireClient(gateway) as client:
        assert sent(client, message(issuer.token(lasts_s=1.5))).session_lifetime.total_seconds() <= 1.5
        assert not sent(client, message(issuer.token(lasts_s=2.5))).error_code
        time.sleep(1.6)
        assert client.ask(METADATA, 12, topics=()).brokers
        time.sleep(1.0)
        client.send(METADATA, 12, topics=())
        assert client.is_closed()


def test_another_user_cannot_take_over_a_connection(gateway: Gateway, issuer: Issuer) -> None:
    with WireClient(gateway) as client:
        assert not sent(client, message(issuer.token())).error_code
        answer = sent(client, message(issuer.token("bob")))
        assert "Cannot change principals during re-authentication" in answer.error_message


def test_keys_from_a_url_are_read_again_for_a_key_that_nobody_knows() -> None:
    first, second = Issuer(), Issuer()
    served = [first.jwks().encode()]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if served[-1] == b"no HTTP":
                self.wfile.write(b"no HTTP\r\n\r\n")
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(served[-1])

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        keys = UrlKeys(f"http://127.0.0.1:{server.server_port}/", refresh_s=3600, retry_s=0.1, retry_max_s=1)
        keys.start()
        try:
            (found,) = keys.find("r", "RS256")
            served.append(second.jwks().replace('"r"', '"new"').encode())
            assert not keys.find("new", "RS256")
            soon(lambda: bool(keys.find("new", "RS256")))
            for wrong in (b"damaged", b"no HTTP"):
                served.append(wrong)
                keys._refresh()
                assert keys.find("new", "RS256")  # the old ones stay
            assert keys._failures == 2
            assert found.key.public_numbers() == first.rsa.public_key().public_numbers()
        finally:
            keys.stop()
            server.shutdown()


@pytest.mark.parametrize(
    ("text", "why"),
    [("{", "not a set"), ('{"keys": 1}', "not a list"), ('{"keys": [{"kty": "oct", "k": "AAAA"}]}', "no public key")],
)
def test_a_set_without_usable_keys_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_keys(text)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "needs keys for OAUTHBEARER: set sasl.oauthbearer.jwks.endpoint.url"),
        ("file:///none.json", "No such file"),
        ("http://issuer.example/keys", "use https"),
        ("ftp://issuer.example/keys", "must be like https://HOST/PATH"),
    ],
)
def test_a_gateway_without_usable_keys_does_not_start(tmp_path: Path, url: str, why: str) -> None:
    with pytest.raises(InvalidConfigError, match=why), serving(tmp_path / "log", **settings(url)):
        pass


@pytest.mark.only_all
def test_librdkafka_logs_in_and_goes_on_with_new_tokens(gateway: Gateway, issuer: Issuer) -> None:
    given = []

    def token(_: str) -> tuple[str, float]:
        given.append(issuer.token(lasts_s=4))
        return given[-1], time.time() + 4

    common = {
        "bootstrap.servers": gateway.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": token,
    }
    producer = Producer(common)
    soon(lambda: bool(producer.list_topics(timeout=30).brokers))
    until_s = time.time() + 6
    while time.time() < until_s:  # longer than a token
        producer.produce("t", b"x")
        assert producer.flush(30) == 0
        time.sleep(0.2)
    assert len(given) > 1
    consumer = Consumer({**common, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    found = None
    while found is None:
        found = consumer.poll(1)
    assert found.value() == b"x"
    consumer.close()


@pytest.mark.slow
@pytest.mark.only_all
@pytest.mark.parametrize("release", [kafka_jvm.KAFKA_VERSION, kafka_jvm.KAFKA_4])
def test_java_logs_in(gateway: Gateway, issuer: Issuer, tmp_path: Path, release: str) -> None:
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    config, file = tmp_path / "client.properties", tmp_path / "token"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.login.callback.handler.class={handler}\nsasl.oauthbearer.token.endpoint.url={file.as_uri()}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;\n"
    )

    def topics(token: str) -> subprocess.CompletedProcess[str]:
        file.write_text(token)
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={file.as_uri()}"
        tool = [*kafka_jvm.broker_jvm(allowed, release=release), "org.apache.kafka.tools.TopicCommand"]
        command = [*tool, "--bootstrap-server", gateway.bootstrap_servers, "--command-config", str(config), "--list"]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    done = topics(issuer.token())
    assert done.returncode == 0, done.stderr
    refused = topics(issuer.token(aud="other"))
    assert refused.returncode == 1
    assert REFUSED.decode() in refused.stdout + refused.stderr
