"""A gateway serves while its kernels are being compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from pyspark_commitlog.gateway import GatewayConfig
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


@pytest.mark.slow
@pytest.mark.only_all
def test_a_child_compiles_what_the_gateway_then_finds(tmp_path: Path) -> None:
    assert run(COMPILED, NUMBA_CACHE_DIR=str(tmp_path)).strip() == "0"
