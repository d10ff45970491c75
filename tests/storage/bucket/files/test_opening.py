"""A log on an object store, opened by its URL: how often the store is asked, and what travels to other processes."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock, patch

import pytest

from pyspark_commitlog.storage.bucket.files import filesystem
from pyspark_commitlog.storage.bucket.files.filesystem import LOGS_KEPT, open_files
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import InvalidConfigError, NotALogDirError, StoreAccessError
from pyspark_commitlog.storage.maintenance.run import MaintenanceRun
from tests.support.logs.building import records
from tests.support.stores.filling import make_topic, write
from tests.support.stores.served import ServedStores

URL = "s3://memory/logs"


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> ServedStores:
    return ServedStores(monkeypatch)


def test_a_known_log_is_opened_again_by_two_requests_and_is_up_to_date(stores: ServedStores) -> None:
    log = stores.create(URL)
    make_topic(log, "t")
    with LogManager.open(URL) as manager:
        assert list(manager.topics()) == ["t"]
    write(log, "t", {0: [records([b"a", b"b"])]})
    stores.stores[URL].requests.clear()
    with LogManager.open(f"{URL}/") as manager, manager.open_reader("t", 0) as reader:
        assert reader.log_end_offset == 2
    assert sum(stores.stores[URL].requests.values()) == 3  # the last known commit, the new one, and none after it


def test_a_log_that_is_opened_or_made_is_made_once_and_shared_by_readers_and_writers(
    stores: ServedStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem, "open_root", partial(open_root, check=lambda _: []))
    with pytest.raises(NotALogDirError, match=f"{URL}: there is no log here"):
        LogManager.open_or_make(URL, dry_run=True)
    assert stores.stores[URL].objects == {}
    with LogManager.open_or_make(f"{URL}/") as manager:
        manager.create_topic("t", partitions=1)
        log = manager.bucket
    assert log is not None
    with LogManager.open_or_make(URL) as manager:
        assert (list(manager.topics()), manager.bucket) == (["t"], log)
    assert not log.is_replaced
    stores.stores[URL].objects.clear()
    assert LogManager.open_or_make(URL).topics() == {}
    assert log.is_replaced


def test_a_directory_is_made_the_same_way(stores: ServedStores, tmp_path: Path) -> None:
    with LogManager.open_or_make(str(tmp_path / "log")) as manager:
        assert (manager.topics(), manager.bucket, stores.stores) == ({}, None, {})


def test_another_log_in_the_place_of_a_known_one_is_noticed(stores: ServedStores) -> None:
    make_topic(stores.create(URL), "t")
    open_files(URL)
    stores.stores[URL].objects.clear()
    with pytest.raises(NotALogDirError, match=f"{URL}: there is no log here"):
        open_files(URL)
    make_topic(stores.create(URL), "u")
    with LogManager.open(URL) as manager:
        assert list(manager.topics()) == ["u"]


def test_an_older_copy_in_the_place_of_a_known_log_is_noticed(stores: ServedStores) -> None:
    log = stores.create(URL)
    make_topic(log, "t")
    objects = stores.stores[URL].objects
    copy = dict(objects)
    make_topic(log, "u")
    open_files(URL)
    objects.clear()
    objects.update(copy)
    make_topic(stores.create(URL), "v")
    with LogManager.open(URL) as manager:
        assert sorted(manager.topics()) == ["t", "v"]


def test_only_the_url_travels_to_other_processes(stores: ServedStores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "notASecretOfAnyone")
    make_topic(stores.create(URL), "t")
    run = MaintenanceRun(URL)
    data = pickle.dumps(run)
    assert URL.encode() in data
    assert b"notASecret" not in data
    assert len(data) < 2000
    assert pickle.loads(data).manager().topics().keys() == {"t"}


def test_a_url_that_is_to_be_created_as_a_directory_is_refused(stores: ServedStores) -> None:
    with pytest.raises(InvalidConfigError, match="a log lives on a file system that every worker mounts"):
        LogManager.open(URL, create=True)


def test_a_local_path_opens_no_store(stores: ServedStores, tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path / "s3:" / "logs"), create=True) as manager:
        assert manager.topics() == {}
    assert stores.stores == {}


def test_a_log_whose_store_refused_once_stays_open(stores: ServedStores, monkeypatch: pytest.MonkeyPatch) -> None:
    make_topic(stores.create(URL), "t")
    known = open_files(URL)
    with monkeypatch.context() as failing:
        failing.setattr(stores.stores[URL], "get", Mock(side_effect=StoreAccessError("403")))
        with pytest.raises(StoreAccessError):
            open_files(URL)
    assert open_files(URL) is known


def test_a_log_whose_store_is_silent_does_not_hold_up_another(stores: ServedStores) -> None:
    silent, other = f"{URL}/silent", f"{URL}/other"
    for url in (silent, other):
        make_topic(stores.create(url), "t")
        open_files(url)
    asked, goes_on = Event(), Event()
    get = stores.stores[silent].get

    def slow(*arguments: Any, **named: Any) -> bytes:
        asked.set()
        assert goes_on.wait(60)
        return get(*arguments, **named)

    with patch.object(stores.stores[silent], "get", slow), ThreadPoolExecutor(2) as threads:
        waiting = threads.submit(open_files, silent)
        assert asked.wait(60)
        try:
            threads.submit(open_files, other).result(60)
            assert not waiting.done()
        finally:
            goes_on.set()


def test_logs_that_were_not_used_for_long_are_opened_again(stores: ServedStores) -> None:
    urls = [f"{URL}/{number}" for number in range(LOGS_KEPT + 1)]
    for url in urls:
        stores.create(url)
    opened = [open_files(url) for url in urls]
    assert open_files(urls[-1]) is opened[-1]
    assert open_files(urls[0]) is not opened[0]
