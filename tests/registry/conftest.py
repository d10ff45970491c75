"""Both registries, for tests that both must pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from pyspark_commitlog.registry.files import FileRegistry
from pyspark_commitlog.registry.port import Registry
from pyspark_commitlog.registry.zookeeper import ZooKeeperRegistry
from tests.support.kafka.zookeeper import ZooKeeper

Open = Callable[[], Registry]
_NUMBERS = count()


@pytest.fixture(params=["files", "zookeeper"])
def open_registry(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens sessions of one registry, which is empty at first, and closes them."""
    opened: list[Registry] = []
    make: Open = request.getfixturevalue(f"open_{request.param}")

    def open_one() -> Registry:
        opened.append(make())
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
def open_files(tmp_path_factory: pytest.TempPathFactory) -> Open:
    directory = tmp_path_factory.mktemp("log")
    return lambda: FileRegistry(str(directory), look_s=0.01)


@pytest.fixture
def open_zookeeper(zookeeper: ZooKeeper) -> Open:
    connect = f"{zookeeper.connect}/chroot/{next(_NUMBERS)}"
    return lambda: ZooKeeperRegistry(connect)


@pytest.fixture(scope="package")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A server that no test stops."""
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as started:
        yield started
