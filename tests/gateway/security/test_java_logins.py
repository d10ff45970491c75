"""Kafka 3.9.1's console tools log in by SCRAM over TLS."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.gateway.security.conftest import PASSWORDS, Secured
from tests.support.kafka import kafka_jvm

pytestmark = pytest.mark.slow

TIMEOUT_S = 120
PROPERTIES = """\
security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location={ca}
sasl.mechanism={mechanism}
sasl.jaas.config=org.apache.kafka.common.security.{module} required username="{user}" password="{password}";
"""
SCRAM, PLAIN = "scram.ScramLoginModule", "plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("mechanism", "module"), [("SCRAM-SHA-512", SCRAM), pytest.param("PLAIN", PLAIN, marks=pytest.mark.only_all)]
)
def test_java_logs_in_and_is_refused_with_a_wrong_password(
    secured: Secured, tls_files: Path, tmp_path: Path, mechanism: str, module: str
) -> None:
    config = tmp_path / "client.properties"

    def topics(servers: str, password: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        config.write_text(
            PROPERTIES.format(
                ca=tls_files / "ca.pem", mechanism=mechanism, module=module, user="alice", password=password
            )
        )
        tool = [*kafka_jvm.jvm(), "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", servers]
        command = [*tool, "--command-config", str(config), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    with secured("SASL_SSL") as gateway:
        servers = gateway.bootstrap_servers
        done = topics(servers, PASSWORDS["alice"], "--create", "--topic", "t", "--partitions", "1")
        assert done.returncode == 0, done.stderr
        assert topics(servers, PASSWORDS["alice"], "--list").stdout.split() == ["t"]
        refused = topics(servers, "wrong", "--list")
        assert refused.returncode == 1
        assert "SaslAuthenticationException: Authentication failed" in refused.stdout + refused.stderr
