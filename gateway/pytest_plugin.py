"""A pytest plugin with the fixture ``commitlog_gateway``: a Kafka server for tests, without a JVM.

pytest finds it by the package's entry point. It imports the gateway only when a test asks for it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .server import Gateway

# A test's group has its partitions at once: waiting for more members would gain nothing. And topics of one partition
# are created sooner than those of 50.
SETTINGS: Mapping[str, str | int | bool] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
}
SCOPES = ("function", "class", "module", "package", "session")


class _AsInstalled:
    """Imports our modules from their compiled files.

    pytest rewrites assertions in all modules of a package with a plugin, so it would compile them all again, which
    takes two thirds of the time of a first test.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith("pyspark_commitlog.") else None


def pytest_load_initial_conftests() -> None:
    """Installs the importer; pytest calls this before it imports tests."""
    sys.meta_path.insert(0, _AsInstalled)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the setting ``commitlog_gateway_scope``."""
    described = f"how long a gateway of tests lives: {', '.join(SCOPES)}"
    parser.addini("commitlog_gateway_scope", described, default="function")


def pytest_configure(config: pytest.Config) -> None:
    """Refuses a scope that pytest does not know."""
    scope = config.getini("commitlog_gateway_scope")
    if scope not in SCOPES:
        raise pytest.UsageError(f"commitlog_gateway_scope = {scope}: must be one of {', '.join(SCOPES)}")


def _scope(fixture_name: str, config: pytest.Config) -> Any:
    return config.getini("commitlog_gateway_scope")


@pytest.fixture(scope=_scope)
def commitlog_gateway_settings() -> Mapping[str, str | int | bool]:
    """Extra settings for :func:`commitlog_gateway`, by Kafka's names; empty unless a test overrides this fixture."""
    return {}


@pytest.fixture(scope=_scope)
def commitlog_gateway(
    tmp_path_factory: pytest.TempPathFactory, commitlog_gateway_settings: Mapping[str, str | int | bool]
) -> Iterator[Gateway]:
    """A gateway over an empty directory, on a free port of this machine.

    Each test has its own, unless the setting ``commitlog_gateway_scope`` of pytest says otherwise.
    ``commitlog_gateway.bootstrap_servers`` is for the settings of clients; ``commitlog_gateway.log_dir`` is the
    directory, for readers and writers without a client.
    """
    from ..storage import LogStoreError, needs_extra  # noqa: PLC0415  tests without the fixture load nothing of ours

    with needs_extra("commitlog_gateway"):
        from .config import GatewayConfig  # noqa: PLC0415
        from .server import Gateway  # noqa: PLC0415
    wrong = ""
    try:
        config = GatewayConfig.from_mapping({**SETTINGS, **commitlog_gateway_settings})
    except LogStoreError as error:
        wrong = str(error)
    if wrong:  # outside the block above, because pytest would also show that block's error
        pytest.fail(f"commitlog_gateway_settings: {wrong}", pytrace=False)
    with Gateway(str(tmp_path_factory.mktemp("commitlog") / "log"), config, create=True) as gateway:
        yield gateway
