"""``check_store``: a real store passes; stores that do not keep their word are refused, with the counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from pyspark_commitlog.storage.bucket.stores.port import ObjectFacts, ObjectStore
from pyspark_commitlog.storage.bucket.stores.probe import check_store
from pyspark_commitlog.storage.bucket.stores.race import NOBODY, Contenders, Outcome, race
from pyspark_commitlog.storage.bucket.stores.remote import open_store
from pyspark_commitlog.storage.errors import ObjectStoreError, StoreAccessError
from pyspark_commitlog.storage.verdicts import Finding, Verdict
from tests.cli.in_process import commitlog
from tests.support.stores.faulty_store import FaultyStore, StaleStore
from tests.support.stores.memory_store import MemoryStore
from tests.support.stores.proxies import CheckThenActProxy, Proxy, StaleProxy, StrippingProxy
from tests.support.stores.seaweed import SECRET, SeaweedFS

FEW = Contenders(processes=2, threads=3, rounds=4, rounds_min=2, seconds=5)


def in_turn(store: ObjectStore, folder: str, contenders: Contenders) -> list[Outcome]:
    """A race whose contenders put one behind the other; all read before any of them puts."""
    outcomes = []
    for number in range(contenders.rounds):
        answers, key = [], f"{folder}/{number}"
        for contender in range(contenders.total):
            try:
                store.put_new(key, f"{contender}".encode())
                answers.append("won")
            except ObjectStoreError as error:
                answers.append("refused" if "exist" in str(error) else "unknown")
        outcomes.append(Outcome(answers, int(store.get(key, limit=100)) if store.head(key) else None))
    return outcomes


def check(store: ObjectStore) -> dict[str, Finding]:
    return {each.check: each for each in check_store(store.url, FEW, store=store, racing=in_turn)}


def failed(findings: dict[str, Finding]) -> set[str]:
    return {name for name, each in findings.items() if each.verdict is Verdict.FAILED}


def test_a_good_store_passes_and_is_left_as_it_was() -> None:
    store = MemoryStore()
    store.put("commits/1", b"kept")
    findings = check(store)
    assert {each.verdict for each in findings.values()} == {Verdict.PASSED}, findings
    assert findings["one of many wins"].detail == "one winner in each of 4 rounds of 6 contenders in 2 processes"
    assert set(store.objects) == {"commits/1"}


class Changed(MemoryStore):
    """A store in memory with one promise broken."""


class Overwriting(Changed):
    def put_new(self, key: str, data: bytes) -> None:
        self.put(key, data)


class Replacing(Changed):
    """Refuses, and writes all the same."""

    def put_new(self, key: str, data: bytes) -> None:
        try:
            super().put_new(key, data)
        except ObjectStoreError:
            self.put(key, data)
            raise


class ShortRanges(Changed):
    def get_range(self, key: str, start: int, length: int) -> memoryview:
        return memoryview(self.objects[key])[start : start + length]


class ShiftedRanges(Changed):
    def get_range(self, key: str, start: int, length: int) -> memoryview:
        return super().get_range(key, max(start - 1, 0), length)


class Keeping(Changed):
    def delete(self, keys: Sequence[str]) -> None: ...


class Forgetful(Changed):
    def list(self, folder: str, after: str = "") -> Iterator[ObjectFacts]:
        yield from [*super().list(folder, after)][1:]


class Remembering(Changed):
    """Answers once more that an object is missing."""

    def __init__(self) -> None:
        super().__init__()
        self.missing: set[str] = set()

    def head(self, key: str) -> ObjectFacts | None:
        if key in self.missing:
            self.missing.discard(key)
            return None
        found = super().head(key)
        if found is None:
            self.missing.add(key)
        return found


@pytest.mark.parametrize(
    ("store", "checks"),
    [
        (Overwriting(), {"creates only if absent", "one of many wins"}),
        (Replacing(), {"creates only if absent", "one of many wins"}),
        (ShortRanges(), {"ranges"}),
        (ShiftedRanges(), {"ranges"}),
        (Remembering(), {"read after 404"}),
        (StaleStore(MemoryStore(), Random(3), 0.3), {"read after write", "read after 404"}),
        (FaultyStore(MemoryStore(), Random(4), 0.0), set()),
        (Keeping(), set()),
        (Forgetful(), set()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_store_that_breaks_its_word_is_refused(store: ObjectStore, checks: set[str]) -> None:
    if isinstance(store, FaultyStore):
        store.land_late = lambda share=0: None  # type: ignore[method-assign]
    findings = check(store)
    assert failed(findings) >= checks
    if not checks:
        assert failed(findings) == set()


def test_what_costs_only_money_is_a_warning() -> None:
    assert check(Keeping())["deletes"].verdict is Verdict.WARNING
    assert check(Forgetful())["lists"].verdict is Verdict.WARNING


def test_the_counts_are_shown() -> None:
    detail = check(Overwriting())["one of many wins"].detail
    assert "4 of 4 rounds of 6 contenders" in detail
    assert "4 with 6 winners" in detail


@pytest.mark.parametrize(
    ("answers", "found", "is_right"),
    [
        (["won", "refused"], 0, True),
        (["refused", "won"], 1, True),
        (["won", "refused"], 1, False),
        (["won", "refused"], None, False),
        (["won", "won"], 0, False),
        (["won", "refused"], NOBODY, False),
        (["refused", "unknown"], 1, True),
        (["unknown", "unknown"], None, True),
        (["refused", "unknown"], 0, False),
        (["refused", "refused"], NOBODY, False),
        (["won", "unknown"], 1, False),
    ],
)
def test_a_round_is_right_if_the_object_is_the_winners(answers: list[str], found: int | None, is_right: bool) -> None:
    assert Outcome(answers, found).is_right() is is_right


def test_a_store_without_access_ends_the_check() -> None:
    class Closed(MemoryStore):
        def put(self, key: str, data: bytes) -> None:
            raise StoreAccessError(f"{key}: the store refuses access")

    with pytest.raises(StoreAccessError):
        check(Closed())


# --- real processes, a real server


@pytest.fixture(scope="module")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFS]:
    with SeaweedFS(tmp_path_factory.mktemp("seaweed"), signed=False) as server:
        yield server


def test_seaweedfs_passes(seaweed: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> None:
    seaweed.reach(monkeypatch)
    findings = check_store(seaweed.url, FEW)
    assert {each.verdict for each in findings} == {Verdict.PASSED}, findings
    assert list(open_store(seaweed.url).list("")) == []


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (StrippingProxy, "creates only if absent"),
        pytest.param(CheckThenActProxy, "one of many wins", marks=pytest.mark.matrix),  # waits for many rounds
        pytest.param(StaleProxy, "read after 404", marks=pytest.mark.only_all),
    ],
)
def test_a_proxy_that_breaks_the_servers_word_is_refused(
    seaweed: SeaweedFS, monkeypatch: pytest.MonkeyPatch, kind: type[Proxy], check: str
) -> None:
    with kind(seaweed.port) as proxy:
        seaweed.reach(monkeypatch, proxy.port)
        findings = {each.check: each for each in check_store(seaweed.url, FEW)}
    assert check in failed(findings), findings


def test_the_command_refuses_a_store_by_its_exit_code(seaweed: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> None:
    def quick(store: ObjectStore, folder: str, contenders: Contenders, clock: Any = None) -> list[Outcome]:
        return race(store, folder, FEW)

    with StrippingProxy(seaweed.port) as proxy:
        seaweed.reach(monkeypatch, proxy.port)
        monkeypatch.setattr("pyspark_commitlog.storage.check_store", lambda url: check_store(url, FEW, racing=quick))
        done = commitlog("fs-check", "--log-dir", seaweed.url)
    assert done.code == 1
    assert "creates only if absent: failed: 20 of 20 objects that existed were created again" in done.stdout


def test_a_wrong_secret_is_refused_and_not_shown(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with SeaweedFS(tmp_path / "seaweed") as server:
        server.reach(monkeypatch)
        open_store(server.url).put("a", b"")
        server.reach(monkeypatch)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"{SECRET}2")
        with pytest.raises(StoreAccessError) as raised:
            check_store(server.url)
        assert SECRET not in str(raised.value)
        server.kill()
        with pytest.raises(ObjectStoreError) as down:
            check_store(server.url)
        assert SECRET not in str(down.value)
