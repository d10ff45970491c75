"""Listeners with TLS and logins, the same ones of both servers, and what clients need to connect to them.

Both servers have one key and its certificates, in one PEM file, and one user. Only TLS 1.3 is enabled.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from tests.support.ports import free_port

HOST = "127.0.0.1"
MODULES = "org.apache.kafka.common.security"
SCRAM, PLAIN = f"{MODULES}.scram.ScramLoginModule required", f"{MODULES}.plain.PlainLoginModule required"
USER, PASSWORD = "alice", "correct horse battery staple"
TLS = {"ssl.enabled.protocols": "TLSv1.3"}  # of servers and clients


class Listener(NamedTuple):
    """A listener, which both servers name by its protocol."""

    title: str  # in rows
    protocol: str
    mechanism: str = ""
    module: str = ""  # of Java's clients, for the mechanism

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")


TLS_ALONE = Listener("TLS", "SSL")
SCRAM_ALONE = Listener("SCRAM", "SASL_PLAINTEXT", "SCRAM-SHA-512", SCRAM)
TLS_AND_PLAIN = Listener("TLS and PLAIN", "SASL_SSL", "PLAIN", PLAIN)
LISTENERS = (TLS_ALONE, SCRAM_ALONE, TLS_AND_PLAIN)


class Keys:
    """A new authority, and a key with its certificates for both servers, as files."""

    def __init__(self, directory: Path) -> None:
        self._authority, self._server = directory / "authority.pem", directory / "server.pem"
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self._authority))
        issued = authority.issue_cert(HOST)
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        # Kafka reads no other format of keys.
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self._server.write_bytes(b"".join([pem, *(each.bytes() for each in issued.cert_chain_pems)]))

    def of_gateway(self, users: str) -> dict[str, str]:
        """The settings of ours, with its file of users."""
        mechanisms = ",".join(each.mechanism for each in LISTENERS if each.mechanism)
        login = {"sasl.enabled.mechanisms": mechanisms, "commitlog.users.file": users}
        return {**TLS, "ssl.keystore.location": str(self._server), **login}

    def of_kafka(self) -> dict[str, str]:
        """The settings of a broker, which does not keep users with SCRAM in them."""
        return {
            **TLS,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._server),
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{SCRAM};",
            "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} user_{USER}="{PASSWORD}";',
        }

    def of_java(self, listener: Listener) -> Path:
        """A file with the settings of Java's clients."""
        found = {"security.protocol": listener.protocol}
        if listener.has_tls:
            found |= {**TLS, "ssl.truststore.type": "PEM", "ssl.truststore.location": str(self._authority)}
        if listener.mechanism:
            login = f'{listener.module} username="{USER}" password="{PASSWORD}";'
            found |= {"sasl.mechanism": listener.mechanism, "sasl.jaas.config": login}
        path = self._authority.with_name(f"{listener.protocol}.properties")
        path.write_text("".join(f"{name}={value}\n" for name, value in found.items()))
        return path


def addresses() -> Mapping[str, str]:
    """An address for each protocol of a server."""
    return {each.protocol: f"{HOST}:{free_port()}" for each in LISTENERS}
