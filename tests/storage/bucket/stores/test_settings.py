"""Credentials and endpoints with small mistakes, in the environment and in the profiles of AWS's tools."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyspark_commitlog.storage.bucket.stores import profiles, remote
from pyspark_commitlog.storage.bucket.stores.profiles import ELSEWHERE, profile_in_use
from pyspark_commitlog.storage.bucket.stores.remote import open_store
from pyspark_commitlog.storage.bucket.stores.settings import AZURE, GOOGLE, S3, Provider, settings_of
from pyspark_commitlog.storage.errors import InvalidConfigError, StoreAccessError

URL = {"AWS_": "s3://bucket/logs", "GOOGLE_": "gs://bucket/logs", "AZURE_": "az://container/logs"}
CREDENTIALS = [
    pytest.param(provider, name, id=name) for provider in (S3, GOOGLE, AZURE) for name in provider.credentials
]
ENDPOINTS = [pytest.param(provider, name, id=name) for provider in (S3, AZURE) for name in provider.endpoints]
ALL = [
    pytest.param(each, name, id=name)
    for each in (S3, GOOGLE, AZURE)
    for name in (*each.credentials, *each.endpoints, *each.others)
]


class PanicException(BaseException):
    """As a crash in Rust reaches Python."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for provider in (S3, GOOGLE, AZURE):
        for name in (*provider.credentials, *provider.endpoints, *provider.others):
            monkeypatch.delenv(name, raising=False)
    for name in (*ELSEWHERE, "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".aws").mkdir()
    return tmp_path


@pytest.mark.parametrize("end", ["\n", "\r\n", " ", "\t"])
@pytest.mark.parametrize(("provider", "name"), ALL)
def test_white_space_at_the_end_of_a_value_does_no_harm(
    monkeypatch: pytest.MonkeyPatch, provider: Provider, name: str, end: str
) -> None:
    value = "http://127.0.0.1:9" if name in provider.endpoints else "30s"
    monkeypatch.setenv(name, f" {value}{end}")
    assert settings_of(URL[provider.prefix]).settings == {name.lower(): value}
    monkeypatch.setenv(name, value)
    assert settings_of(URL[provider.prefix]).settings == {}


@pytest.mark.parametrize("wrong", ["a\nb", "a\rb", "a\x01b", "ä"])
@pytest.mark.parametrize(("provider", "name"), CREDENTIALS)
def test_a_credential_that_cannot_be_one_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, provider: Provider, name: str, wrong: str
) -> None:
    monkeypatch.setenv(name, wrong)
    with pytest.raises(InvalidConfigError, match=f"^{name} in the environment: has a line end or another") as caught:
        remote.connect(URL[provider.prefix], 0)
    assert wrong not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("127.0.0.1:9", "must begin with https:// or http://"),
        ("ftp://127.0.0.1", "must begin with https:// or http://"),
        ("http://", "has no host"),
        ("http://:80", "has no host"),
        ("http://127.0.0.1:99999", "Port out of range"),
        ("http://127.0.0.1:-1", "is not the URL of a server"),
        ("http://127.0.0.1:0", "has no port that a server may have"),
        ("http://127.0.0.1:x", "is not the URL of a server"),
        ("http://[::1", "is not the URL of a server"),
        ("http://127.0. 0.1", "has a space or another character"),
        ("http://127.0.0.1\n:9", "has a space or another character"),
        ("http://bücket", "has a space or another character"),
    ],
)
@pytest.mark.parametrize(("provider", "name"), ENDPOINTS)
def test_an_endpoint_that_is_no_url_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, provider: Provider, name: str, wrong: str, told: str
) -> None:
    monkeypatch.setenv(name, wrong)
    with pytest.raises(InvalidConfigError, match=f"^{name} in the environment: .*{told}"):
        remote.connect(URL[provider.prefix], 0)


@pytest.mark.parametrize("operation", ["put_new", "put", "get", "get_range", "get_ranges", "head", "list", "delete"])
def test_no_crash_of_the_client_reaches_a_caller(monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    def crash(*_: object, **__: object) -> Any:
        raise PanicException("called `Result::unwrap()` on an `Err` value: a secret")

    client = SimpleNamespace(put=crash, get=crash, get_range=crash, get_ranges=crash, head=crash, list=crash)
    client.delete = crash
    monkeypatch.setattr(remote, "_CLIENTS", SimpleNamespace(of=lambda *_: client))
    store = open_store("s3://bucket/logs")
    requests = {
        "put_new": lambda: store.put_new("a", b""),
        "put": lambda: store.put("a", b""),
        "get": lambda: store.get("a", limit=1),
        "get_range": lambda: store.get_range("a", 0, 1),
        "get_ranges": lambda: store.get_ranges("a", [(0, 1)]),
        "head": lambda: store.head("a"),
        "list": lambda: list(store.list("a")),
        "delete": lambda: store.delete(["a"]),
    }
    with pytest.raises(StoreAccessError, match="the client crashed: check the variables AWS_") as caught:
        requests[operation]()
    assert "secret" not in repr(caught.value)


def test_a_crash_of_a_new_client_is_a_setting_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **__: object) -> Any:
        raise PanicException("a secret")

    monkeypatch.setattr("obstore.store.from_url", crash)
    with pytest.raises(InvalidConfigError, match="the settings in the environment do not fit this store"):
        remote.connect("s3://bucket/logs", 0)


# Profiles


def write(home: Path, name: str, text: str) -> None:
    (home / ".aws" / name).write_text(text)


def test_the_default_profile_is_read(home: Path) -> None:
    write(home, "credentials", "[default]\naws_access_key_id = key \naws_secret_access_key=secret\n")
    write(home, "config", "[default]\nregion = eu-central-1\nendpoint_url = http://127.0.0.1:9\ns3 =\n  max = 1\n")
    assert settings_of("s3://bucket/logs").settings == {
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "aws_region": "eu-central-1",
        "aws_endpoint_url": "http://127.0.0.1:9",
    }
    assert settings_of("gs://bucket/logs").settings == {}


def test_a_named_profile_is_read_from_the_files_that_the_environment_names(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "keys").write_text("[work]\naws_access_key_id=k\naws_secret_access_key=s\naws_session_token=t\n")
    (home / "rest").write_text("[profile work]\nregion=us-west-2\n[default]\nregion=eu-west-1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "~/keys")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(home / "rest"))
    monkeypatch.setenv("AWS_PROFILE", "work\n")
    wanted = dict(zip((*profiles.KEYS, "aws_region"), ("k", "s", "t", "us-west-2"), strict=True))
    assert profile_in_use().settings == wanted


@pytest.mark.parametrize("name", ELSEWHERE)
def test_credentials_of_the_environment_go_before_those_of_a_profile(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write(home, "credentials", "[default]\naws_access_key_id=key\naws_secret_access_key=secret\nregion=eu-west-1\n")
    monkeypatch.setenv(name, "other")
    assert profile_in_use().settings == {"aws_region": "eu-west-1"}
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert profile_in_use().settings == {}


def test_a_profile_that_is_in_no_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "wrok")
    with pytest.raises(InvalidConfigError, match=r"^AWS_PROFILE in the environment: neither .*/\.aws/credentials nor"):
        remote.connect("s3://bucket/logs", 0)


def test_a_file_that_is_no_file_of_profiles_is_named(home: Path) -> None:
    write(home, "credentials", "key = value\n")
    with pytest.raises(InvalidConfigError, match=r"credentials: cannot be read as a file of profiles"):
        remote.connect("s3://bucket/logs", 0)


ROLE = "[profile work]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = default\n"


@pytest.mark.parametrize(
    "text", [ROLE, "[profile work]\nsso_session = x\n", "[profile work]\ncredential_process = x\n"]
)
def test_what_only_botocore_can_do_is_said(home: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    write(home, "config", text)
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(InvalidConfigError, match=r"needs botocore: pip install botocore, or set AWS_ACCESS_KEY_ID"):
        remote.connect("s3://bucket/logs", 0)


def test_botocore_is_asked_for_what_the_files_do_not_have(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, "config", ROLE)
    monkeypatch.setenv("AWS_PROFILE", "work")
    asked = list[str]()

    class Session:
        def __init__(self, profile: str) -> None:
            asked.append(profile)

        def get_credentials(self) -> Any:
            return SimpleNamespace(get_frozen_credentials=lambda: ("key", "secret", "token"))

    monkeypatch.setitem(sys.modules, "botocore.session", SimpleNamespace(Session=Session))  # type: ignore[arg-type]
    found = profile_in_use()
    assert asked == ["work"]
    assert found.settings == {}
    assert found.ask is not None
    given = found.ask()
    assert (given["access_key_id"], given["secret_access_key"], given["token"]) == ("key", "secret", "token")
    assert given["expires_at"].tzinfo is not None
    assert remote.connect("s3://bucket/logs", 0) is not None
