"""A gateway for the tests of a module, and connections to it; a ZooKeeper for those that need one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from pyspark_commitlog.gateway import Gateway
from pyspark_commitlog.registry import Registry, ZooKeeperRegistry
from tests.support.gateway import WireClient, create_topic, serving
from tests.support.kafka.zookeeper import ZooKeeper

_NUMBERS = count()


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
