"""A gateway for the tests of a module, and connections to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.gateway import Gateway
from tests.support.gateway import WireClient, create_topic, serving


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
