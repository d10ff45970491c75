"""A gateway for the tests of a module, and connections to it; what it may have its log on; a ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.registry.port import Registry
from pyspark_commitlog.registry.zookeeper import ZooKeeperRegistry
from pyspark_commitlog.storage.bucket.root import open_root
from tests.support.gateway import WireClient, create_topic, serving
from tests.support.kafka.zookeeper import ZooKeeper
from tests.support.stores.seaweed import SeaweedFS
from tests.support.stores.served import ServedStores

_NUMBERS = count()


@pytest.fixture(
    scope="module", params=["directory", "object store", pytest.param("seaweedfs", marks=pytest.mark.only_all)]
)
def log_at(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A directory for a log, or the URL of an empty one on an object store: in memory, or on a server."""
    home = tmp_path_factory.mktemp("gateway")
    with ExitStack() as stack:
        here = stack.enter_context(pytest.MonkeyPatch.context())
        if request.param == "directory":
            yield str(home / "log")
        elif request.param == "object store":
            ServedStores(here).create("s3://memory/logs")
            yield "s3://memory/logs"
        else:
            server = stack.enter_context(SeaweedFS(home / "store"))
            server.reach(here)
            open_root(server.url, create=True, check=lambda _: [])
            yield server.url


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serving(tmp_path_factory.mktemp("gateway") / "log") as started:
        yield started


@pytest.fixture
def client(gateway: Gateway) -> Iterator[WireClient]:
    with WireClient(gateway) as connected:
        yield connected


@pytest.fixture
def topic(client: WireClient, request: pytest.FixtureRequest) -> str:
    """A topic with two partitions, named after the test."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)[:200]
    create_topic(client, name, 2)
    return name


@pytest.fixture
def log_dir(gateway: Gateway) -> Path:
    return Path(gateway.context.log_dir)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as started:
        yield started


@pytest.fixture
def connect(zookeeper: ZooKeeper) -> str:
    """The ``zookeeper.connect`` of a chroot that is empty at first."""
    return f"{zookeeper.connect}/{next(_NUMBERS)}"


@pytest.fixture
def registry(connect: str) -> Iterator[Registry]:
    """A session in that chroot."""
    with ZooKeeperRegistry(connect) as opened:
        yield opened
