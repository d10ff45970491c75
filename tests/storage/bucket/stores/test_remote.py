"""The port: the same contract for obstore's stores and for the one in memory that other tests use."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable

import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, PermissionDeniedError, PreconditionError
from obstore.store import MemoryStore as ObstoreMemory

from pyspark_commitlog.storage.bucket.stores import remote
from pyspark_commitlog.storage.bucket.stores.port import PUT_BYTES_MAX, ObjectStore, checked_size
from pyspark_commitlog.storage.bucket.stores.remote import open_store
from pyspark_commitlog.storage.errors import (
    CorruptionError,
    InvalidConfigError,
    LogStoreError,
    ObjectExistsError,
    ObjectMissingError,
    ObjectStoreError,
    StoreAccessError,
)
from tests.support.stores.memory_store import MemoryStore

SECRET = "wJalrXUtnFEMI"
URL = "s3://bucket/logs"


@pytest.fixture(params=["obstore", "in memory"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    if request.param == "in memory":
        return MemoryStore()
    memory = ObstoreMemory()
    monkeypatch.setattr(remote, "_CLIENTS", remote._Clients())
    monkeypatch.setattr(remote, "connect", lambda url, retries: memory)
    return open_store(URL)


def test_an_object_is_created_once(store: ObjectStore) -> None:
    store.put_new("commits/1", b"first")
    with pytest.raises(ObjectExistsError, match="commits/1"):
        store.put_new("commits/1", b"second")
    assert store.get("commits/1", limit=100) == b"first"


def test_a_put_replaces(store: ObjectStore) -> None:
    store.put("checkpoints/newest", b"1")
    store.put("checkpoints/newest", b"22")
    assert store.get("checkpoints/newest", limit=2) == b"22"


def test_what_is_missing_is_reported(store: ObjectStore) -> None:
    assert store.head("commits/1") is None
    with pytest.raises(ObjectMissingError, match="commits/1"):
        store.get("commits/1", limit=100)
    with pytest.raises(FileNotFoundError):
        store.get_range("commits/1", 0, 1)


def test_an_object_above_the_limit_is_damage(store: ObjectStore) -> None:
    store.put_new("commits/1", b"x" * 101)
    with pytest.raises(CorruptionError, match="101 bytes"):
        store.get("commits/1", limit=100)


def test_ranges_have_exactly_the_bytes_that_were_asked_for(store: ObjectStore) -> None:
    store.put_new("staged/a", bytes(range(100)))
    assert store.get_range("staged/a", 10, 5) == bytes(range(10, 15))
    assert store.get_range("staged/a", 10, 0) == b""
    assert store.get_ranges("staged/a", [(0, 2), (98, 2)]) == [b"\0\1", b"bc"]
    assert store.get_ranges("staged/a", []) == []
    for start in (99, 100, 5000):
        with pytest.raises(ObjectStoreError, match="staged/a"):
            store.get_range("staged/a", start, 2)


def test_a_listing_has_what_is_below_a_folder(store: ObjectStore) -> None:
    for key in ("staged/a/1", "staged/a-b/1", "staged/a/2", "stagedx", "commits/1"):
        store.put_new(key, b"12345")
    assert sorted(facts.key for facts in store.list("staged")) == ["staged/a-b/1", "staged/a/1", "staged/a/2"]
    assert [facts.key for facts in store.list("staged/a")].count("staged/a-b/1") == 0
    assert list(store.list("nothing")) == []
    assert [facts.key for facts in store.list("staged", after="staged/a/1")] == ["staged/a/2"]
    assert list(store.list("staged", after="staged/a/2")) == []
    facts = store.head("commits/1")
    assert facts is not None
    assert facts.size == 5
    assert facts.modified_ms > 1_600_000_000_000


def test_deleting_what_is_missing_is_no_error(store: ObjectStore) -> None:
    store.put_new("staged/a", b"")
    store.put_new("staged/b", b"")
    store.delete(["staged/a", "staged/none", "staged/b"])
    store.delete([])
    assert list(store.list("staged")) == []


def test_too_much_for_one_request_is_refused() -> None:
    with pytest.raises(ValueError, match="one object"):
        checked_size("staged/a", bytes(PUT_BYTES_MAX + 1))


# --- what obstore raises


class Failing:
    """A client whose every request fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Callable[..., None]:
        def fail(*_: object, **__: object) -> None:
            raise self.error

        return fail


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> ObjectStore:
    monkeypatch.setattr(remote, "_CLIENTS", remote._Clients())
    monkeypatch.setattr(remote, "connect", lambda url, retries: Failing(error))
    return open_store(URL)


@pytest.mark.parametrize(
    ("error", "wanted", "said"),
    [
        pytest.param(AlreadyExistsError("x"), ObjectExistsError, "exists", id="412 of a create"),
        pytest.param(PreconditionError("x"), ObjectExistsError, "exists", id="412"),
        pytest.param(FileNotFoundError("x"), ObjectMissingError, "no such object", id="404"),
        pytest.param(FileNotFoundError("<Code>NoSuchBucket</Code>"), StoreAccessError, "NoSuchBucket", id="no bucket"),
        pytest.param(GenericError("kind: Builder, source: BadScheme"), StoreAccessError, "ALLOW_HTTP", id="http"),
        pytest.param(PermissionDeniedError("<Code>AccessDenied</Code>"), StoreAccessError, "AccessDenied", id="403"),
        pytest.param(GenericError("status code: 403 Forbidden"), StoreAccessError, "403", id="403 of another request"),
        pytest.param(GenericError("kind: Timeout, kind: Request"), ObjectStoreError, "Timeout", id="timeout"),
        pytest.param(GenericError("kind: Connect, kind: Uncategorized"), ObjectStoreError, "Connect", id="no host"),
        pytest.param(GenericError("status: 503, <Code>SlowDown</Code>"), ObjectStoreError, "SlowDown", id="503"),
        pytest.param(GenericError("?"), ObjectStoreError, "GenericError", id="no code"),
    ],
)
def test_errors_are_cut_to_the_code_and_the_object(
    monkeypatch: pytest.MonkeyPatch, error: Exception, wanted: type[Exception], said: str
) -> None:
    error.args = (f"{error.args[0]} Authorization: {SECRET}",)
    store = failing(monkeypatch, error)
    for request in (
        lambda: store.put_new("a/b", b""),
        lambda: store.get("a/b", limit=1),
        lambda: list(store.list("a/b")),
    ):
        with pytest.raises(wanted, match=said) as raised:
            request()
        assert "s3://bucket/logs/a/b" in str(raised.value)
        assert type(raised.value) is wanted
        assert SECRET not in repr(raised.value)
        assert raised.value.__cause__ is raised.value.__context__ is None


def test_a_refusal_names_the_right_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = failing(monkeypatch, PermissionDeniedError("x"))
    requests = {
        "s3:PutObject": lambda: store.put_new("a", b""),
        "s3:GetObject and s3:ListBucket": lambda: store.get("a", limit=1),
        "s3:ListBucket": lambda: list(store.list("a")),
        "s3:DeleteObject": lambda: store.delete(["a"]),
    }
    for right, request in requests.items():
        with pytest.raises(StoreAccessError, match=f"check the credentials, and that they have {right}$"):
            request()


@pytest.mark.parametrize(
    ("url", "right"),
    [
        ("gs://bucket/logs", "storage.objects.get and storage.objects.list"),
        ("az://bucket/logs", "the role Storage Blob Data Reader"),
    ],
)
def test_a_refusal_names_the_right_in_the_words_of_its_provider(
    monkeypatch: pytest.MonkeyPatch, url: str, right: str
) -> None:
    failing(monkeypatch, PermissionDeniedError("x"))
    with pytest.raises(StoreAccessError, match=f"check the credentials, and that they have {right}$"):
        open_store(url).get("a", limit=1)


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
def test_an_endpoint_without_its_scheme_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "127.0.0.1:8333")
    with pytest.raises(InvalidConfigError, match=f"^{name} in the environment: must begin with https:// or http://$"):
        remote.connect(URL, 0)


def test_plain_http_must_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_CLIENTS", remote._Clients())
    environment = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    with pytest.raises(StoreAccessError, match="for an endpoint with http:// set AWS_ALLOW_HTTP=true"):
        open_store(URL, retries=0).get("a", limit=1)


def test_an_error_of_ours_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        failing(monkeypatch, ZeroDivisionError()).head("a")


# --- processes


def test_pickling_keeps_the_url_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    store = open_store("S3A://bucket/logs/")
    _ = remote.connect(store.url, 0)
    pickled = pickle.dumps(store)
    assert SECRET.encode() not in pickled
    assert pickle.loads(pickled).url == "s3://bucket/logs"


def test_a_process_has_one_client_for_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(remote, "_CLIENTS", remote._Clients())
    monkeypatch.setattr(remote, "connect", lambda url, retries: made.append(url) or ObstoreMemory())
    for url in (URL, "s3a://bucket/logs/", "s3://other"):
        open_store(url).put("a", b"")
    assert made == ["s3://bucket/logs", "s3://other"]


def test_a_process_forked_after_the_first_use_is_refused() -> None:
    program = """
import os
from pyspark_commitlog.storage.bucket.stores.remote import open_store
from pyspark_commitlog.storage.errors import StorageError
store = open_store("s3://bucket/logs", retries=0)
try: store.head("a")
except StorageError as error: assert "forked" not in str(error)
if os.fork() == 0:
    try: store.head("a")
    except StorageError as error: os._exit(0 if "forked" in str(error) else 1)
    os._exit(2)
raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    environment = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    environment |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=120)


# --- what a URL may be


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:wJalrXUtnFEMI@bucket/logs",
        "s3://wJalrXUtnFEMI@bucket",
        "s3://bucket/logs?secret=wJalrXUtnFEMI",
        "s3:///logs",
        "s3://bucket/a//b",
        "s3://bucket/../b",
        "s3://bucket/a b",
        "file:///logs",
        "hdfs://name/logs",
        "/logs",
    ],
)
def test_a_url_with_more_than_bucket_and_folders_is_refused(url: str) -> None:
    with pytest.raises(InvalidConfigError) as raised:
        open_store(url)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("url", ["gs://b/logs", "az://c/logs", "abfss://c@account.dfs.core.windows.net/logs"])
def test_urls_of_other_stores_are_taken(url: str) -> None:
    assert open_store(url).url == url


def test_settings_that_do_not_fit_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(LogStoreError, match="MissingAccount"):
        open_store("az://container/logs").head("a")
