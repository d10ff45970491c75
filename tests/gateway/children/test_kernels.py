"""A gateway serves while its kernels are being compiled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.children import kernels
from pyspark_commitlog.storage import LogManager
from tests.support.logs.building import batch

PROGRAM = """
import sys
from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.gateway.children import kernels
from pyspark_commitlog.gateway.server import Gateway
from confluent_kafka import Consumer, Producer

kernels._compile_in_child = lambda: __import__("threading").Event().wait()
settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "group.initial.rebalance.delay.ms": 0}
with Gateway(sys.argv[1], GatewayConfig.from_mapping(settings), create=True) as gateway:
    servers = {"bootstrap.servers": gateway.bootstrap_servers}
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({**servers, "compression.type": codec, "transactional.id": codec})
        producer.init_transactions(60)
        producer.begin_transaction()
        for number in range(100):
            producer.produce("orders", b"%d" % number * 9, key=b"key", headers={"name": b"value"})
        producer.commit_transaction(60)
    consumer = Consumer({**servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    records = []
    while len(records) < 500:
        records += consumer.consume(500 - len(records), 60)
    assert [each.value() for each in records] == [b"%d" % number * 9 for number in range(100)] * 5
    consumer.commit(asynchronous=False)
    consumer.close()
assert "numba" not in sys.modules
"""

LARGE = """
import sys
from threading import Event
from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.gateway.children import kernels
from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient, fetch_fields, produce_fields

compiled = Event()
kernels._compile_in_child = compiled.wait
batch = open(sys.argv[2], "rb").read()
settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "num.network.threads": 1}
with Gateway(sys.argv[1], GatewayConfig.from_mapping(settings)) as gateway, WireClient(gateway) as producer:
    with WireClient(gateway) as other, WireClient(gateway) as consumer:
        other.ask(1, 6, **fetch_fields("t", 0))  # opens it
        produced = [producer.send(0, 8, transactional_id=None, **produce_fields("t", batch)) for _ in range(2)]
        fetched = consumer.send(1, 3, **fetch_fields("t", 0, partition_max_bytes=10 << 20, max_bytes=10 << 20))
        try:
            for _ in range(3):
                assert not other.ask(18, 2).error_code
                assert not other.ask(1, 6, **fetch_fields("t", 0)).responses[0].partitions[0].error_code
        finally:
            compiled.set()
        found = consumer.answer(1, 3, fetched).responses[0].partitions[0]
        assert (found.error_code, len(found.records) > 5_000_000) == (0, True)
        answers = [producer.answer(0, 8, each).responses[0].partition_responses[0] for each in produced]
        assert [(each.error_code, each.base_offset) for each in answers] == [(0, 1), (0, 2)]
"""

COMPILED = """
import sys
from threading import Event
from pyspark_commitlog import storage
from pyspark_commitlog.gateway.children import kernels

loaded = Event()
load = storage.load_kernels
kernels.load_kernels_beside.__globals__["load_kernels"] = lambda: (load(), loaded.set())
kernels.compile_kernels_beside()
assert loaded.wait(300)
from numba.core.dispatcher import Dispatcher
import gc
found = [each for each in gc.get_objects() if isinstance(each, Dispatcher) and each.signatures]
assert found
print(sum(sum(each.stats.cache_misses.values()) for each in found))
"""


def run(program: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", program, *arguments],
        capture_output=True,
        env={**os.environ, **environment},
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_clients_are_served_before_kernels_are_compiled(tmp_path: Path) -> None:
    run(PROGRAM, str(tmp_path / "log"))


def test_others_are_answered_while_a_large_batch_waits_for_the_kernels(tmp_path: Path) -> None:
    """Both batches are so large that plain Python would take too long: one is produced, one is fetched in a format."""
    data = batch(bytes(5_000_000))
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=1, configs={"max.message.bytes": "10000000"})
        manager.open_log("t", 0).append(data.copy())
    (tmp_path / "batch").write_bytes(data.tobytes())
    run(LARGE, str(tmp_path / "log"), str(tmp_path / "batch"))


def test_the_child_ends_with_the_gateway_and_not_by_a_signal_to_both(tmp_path: Path) -> None:
    """Else a gateway that is stopped in its first half minute warns, and compiles while it closes its logs.

    The signal may come before the child has begun to run Python.
    """
    with kernels.compiler(env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}) as child:
        for number in (signal.SIGINT, signal.SIGTERM):
            child.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.2)
        assert child.stdin
        child.stdin.close()
        assert child.wait(60) == 0


@pytest.mark.slow
@pytest.mark.only_all
def test_a_child_compiles_what_the_gateway_then_finds(tmp_path: Path) -> None:
    assert run(COMPILED, NUMBA_CACHE_DIR=str(tmp_path)).strip() == "0"
