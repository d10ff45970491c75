"""Certificates and users for the tests of logins and TLS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from pyspark_commitlog.gateway.security.users import UsersFile
from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import serving

PASSWORDS = {"alice": "correct horse, battery=staple", "bob": "påssword"}


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def tls_files(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``ca.pem`` and ``server.pem``: the authority, and the gateway's key with its certificates."""
    folder = tmp_path_factory.mktemp("tls")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    return folder


@pytest.fixture(scope="session")
def users_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("users") / "users.json"
    for user, password in PASSWORDS.items():
        UsersFile(str(path)).add(user, password)
    return path


Secured = Callable[..., AbstractContextManager[Gateway]]


@pytest.fixture
def secured(tls_files: Path, users_file: Path, tmp_path: Path) -> Secured:
    """Starts a gateway with a protocol, such as SASL_SSL, and settings by the names of fields."""

    @contextmanager
    def start(protocol: str, **settings: Any) -> Iterator[Gateway]:
        given = {
            "listeners": f"{protocol}://127.0.0.1:0",
            "ssl_keystore_location": str(tls_files / "server.pem"),
            "commitlog_users_file": str(users_file),
            "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "connection_failed_authentication_delay_ms": 50,
            **settings,
        }
        with serving(tmp_path / "log", **given) as gateway:
            yield gateway

    return start
