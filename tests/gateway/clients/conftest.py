"""Where the gateway of a client's test has its log: each client works on all of these ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pyspark_commitlog.storage.bucket import open_root
from tests.support.stores.seaweed import SeaweedFS
from tests.support.stores.served import ServedStores
from tests.support.stores.versity import VersityGateway

SERVERS = {"seaweedfs": SeaweedFS, "versitygw": VersityGateway}


@pytest.fixture(
    scope="module",
    params=["directory", "object store", *(pytest.param(name, marks=pytest.mark.only_all) for name in SERVERS)],
)
def log_at(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A directory for a log, or the URL of an empty one on an object store, which may be in memory."""
    home = tmp_path_factory.mktemp("gateway")
    with ExitStack() as stack:
        here = stack.enter_context(pytest.MonkeyPatch.context())
        if request.param == "directory":
            yield str(home / "log")
        elif request.param in SERVERS:
            server = stack.enter_context(SERVERS[request.param](home / "store"))
            server.reach(here)
            open_root(server.url, create=True, check=lambda _: [])
            yield server.url
        else:
            ServedStores(here).create("s3://memory/logs")
            yield "s3://memory/logs"
