"""Clients in Go, JavaScript and C administer, produce, consume as a group and run transactions, and warn of nothing.

``make test-all`` runs this. Their versions are in ``franz_go/go.mod``, ``kafkajs/package-lock.json`` and Debian's kcat.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.server import Gateway
from tests.gateway.clients.programs import printed, program
from tests.support.gateway import serving

pytestmark = [pytest.mark.only_all, pytest.mark.slow]

HERE = Path(__file__).parent
BUILD_TIMEOUT_S = 900  # it fetches, too


@pytest.fixture(scope="module")
def gateway(log_at: str) -> Iterator[Gateway]:
    with serving(log_at, group_initial_rebalance_delay_ms=0) as started:
        yield started


def test_franz_go(gateway: Gateway, tmp_path: Path) -> None:
    go = program("go", "golang-go, 1.24 or newer")
    built = tmp_path / "client"
    printed([go, "build", "-o", str(built), "."], cwd=HERE / "franz_go", timeout_s=BUILD_TIMEOUT_S)
    assert printed([str(built), gateway.bootstrap_servers, "franz-go"]) == "done\n"


def test_kafkajs(gateway: Gateway, tmp_path: Path) -> None:
    npm, node = program("npm", "npm"), program("node", "nodejs")
    copied = shutil.copytree(HERE / "kafkajs", tmp_path / "client", ignore=shutil.ignore_patterns("node_modules"))
    printed([npm, "ci", "--no-audit", "--no-fund"], cwd=copied, timeout_s=BUILD_TIMEOUT_S)
    assert printed([node, "client.js", gateway.bootstrap_servers, "kafkajs"], cwd=copied) == "done\n"


def test_kcat(gateway: Gateway, topic: str) -> None:
    kcat = [program("kcat", "kcat"), "-b", gateway.bootstrap_servers]
    lines = [f"line {number}" for number in range(100)]
    printed([*kcat, "-P", "-t", topic, "-p", "0", "-z", "lz4"], stdin="\n".join(lines))
    printed([*kcat, "-P", "-t", topic, "-p", "0", "-X", "transactional.id=kcat"], stdin="in a transaction")
    consume = ["-C", "-t", topic, "-p", "0", "-e", "-q", "-X", "isolation.level=read_committed"]
    assert printed([*kcat, *consume]).splitlines() == [*lines, "in a transaction"]
    group = ["-X", "auto.offset.reset=earliest", "-c", "101", "-q", "-G", "kcat", topic]
    assert printed([*kcat, *group]).splitlines() == [*lines, "in a transaction"]
    assert f'topic "{topic}" with 2 partitions' in printed([*kcat, "-L"])
