"""Append a batch that a client sent: by few steps (``check_batch`` and ``append_checked``) and by ``Log.append``.

CPU time of one thread, without syncs. A batch has records of 100 bytes of words. *In a group*: five batches under one
lock, as a server appends what waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.comparison import Comparison, Setting
from benchmarks.rows import records
from benchmarks.timing import alternate_told
from pyspark_commitlog.storage import BatchFields, Codec, Log, LogConfig, check_batch, encode_batches

GROUP = 5
BATCHES = {  # bytes of records, codec, batches per round; what is required of one batch, and in a group
    "16 KB": (16_384, Codec.NONE, 200, 5, 6),
    "256 KB": (262_144, Codec.NONE, 50, 2.5, 3),
    "1 MB": (1_048_576, Codec.NONE, 20, 1.8, 2),
    "1 MB as lz4": (1_048_576, Codec.LZ4, 20, 1.3, 1.3),
}
RECORD_BYTES = 124  # key, value and what is around them
CONFIG = LogConfig.from_mapping({"max.message.bytes": "2000000"})


def measure(setting: Setting) -> Iterator[Comparison]:
    for name, (size, codec, count, *asked) in BATCHES.items():
        batch = _batch(setting.sized(size), codec)
        with Log.open(str(setting.directory / f"{name.replace(' ', '-')}-0"), CONFIG) as log:
            peers = {
                "append": partial(log.append, np.frombuffer(batch, dtype=np.uint8), sync=False),
                "one": partial(_append, log, [batch]),
                "group": partial(_append, log, [batch] * GROUP),
            }
            found = alternate_told(
                {peer: partial(_cpu_s, run, setting.sized(count)) for peer, run in peers.items()}, setting.rounds
            )
        yield Comparison(f"append a batch of {name}, CPU", "Log.append", found["one"], found["append"], asked[0])
        grouped = type(found["group"])(*(seconds / GROUP for seconds in found["group"]))
        yield Comparison(f"the same in a group of {GROUP}, CPU", "Log.append", grouped, found["append"], asked[1])


def _batch(size: int, codec: Codec) -> bytes:
    rows = records(np.arange(max(1, size // RECORD_BYTES)))
    return encode_batches(rows, BatchFields(codec=codec), batch_bytes_max=2**31 - 1).buffer.tobytes()


def _append(log: Log, batches: list[bytes]) -> None:
    log.append_checked([check_batch(each, log.context.config) for each in batches], sync=False)


def _cpu_s(run: Callable[[], object], count: int) -> float:
    """CPU seconds of one call, the median of ``count``."""
    each = []
    for _ in range(count):
        began = time.thread_time()
        run()
        each.append(time.thread_time() - began)
    return float(np.median(each))
