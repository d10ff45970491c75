"""Object stores in memory behind URLs such as ``s3://memory/logs``, for all that this process opens by URL."""

from __future__ import annotations

import pytest

from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.files import filesystem as bucket_files
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.stores import remote
from pyspark_commitlog.storage.paths import store_url
from tests.support.stores.memory_store import MemoryStore


class ServedStores:
    """A store in memory for each URL that is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stores: dict[str, MemoryStore] = {}
        self.serve(monkeypatch)

    def serve(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Lets this process open the stores, until the patches are undone."""
        monkeypatch.setattr(remote, "RemoteStore", self._open)
        monkeypatch.setattr(bucket_files, "_of_this_process", {})

    def _open(self, url: str, _: int) -> MemoryStore:
        url = store_url(url)
        if url not in self.stores:
            self.stores[url] = MemoryStore()
            self.stores[url].url = url
        return self.stores[url]

    def create(self, url: str) -> CommitLog:
        """Creates a log at a URL."""
        return open_root(url, create=True, check=lambda _: [])
