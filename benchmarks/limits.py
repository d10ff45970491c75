"""The limit of each figure: the work that an operation cannot avoid, at the speeds of this machine.

A comparison states its ``work`` by the names here: bytes of ``crc32c``, ``memcpy`` and so on, a number of ``sync``, or
seconds of a ``floor`` that was measured with it. Its limit is the sum, on one core; a part divides work that it spreads
over two cores. The speeds are measured in the same run as the figures.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO

import cramjam
import lz4.block
import numpy as np
import zstandard
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from benchmarks.rows import words
from benchmarks.timing import alternate
from pyspark_commitlog.storage.format.checksums import crc32c
from pyspark_commitlog.storage.format.tables import Bytes

BATCH_BYTES = 256 * 2**10
TLS_BYTES = 16 * 2**10  # of a record of TLS, at most
BUFFER_BYTES = 128 * 2**20  # larger than any cache
APPENDED = mmap.PAGESIZE
WRITTEN_BYTES = 64 * 2**20
FLOOR = "floor"
SYNC = "sync"
AES = "aes-256-gcm"

Limits = Mapping[str, float]
"""Seconds per byte, or per call."""


def measure_limits(directory: Path, rounds: int = 5) -> dict[str, float]:
    """Median seconds per unit of each kind of work, on one core. ``directory`` is on the disk to measure."""
    with tempfile.TemporaryFile(dir=directory) as file:
        amounts = {**_memory(), **_codecs(), **_cipher(), **_disk(file)}
        timings = alternate({name: run for name, (_, run) in amounts.items()}, rounds)
    return {name: timings[name].median / amount for name, (amount, _) in amounts.items()} | {FLOOR: 1.0}


def limit_s(work: Mapping[str, float], limits: Limits) -> float | None:
    """The least seconds that ``work`` can take; None if the comparison states none."""
    return sum(amount * limits[name] for name, amount in work.items()) if work else None


Measured = dict[str, tuple[int, Callable[[], object]]]


def _memory() -> Measured:
    source, target = words(BUFFER_BYTES), np.ones(BUFFER_BYTES, dtype=np.uint8)
    return {
        "crc32c": (BUFFER_BYTES, partial(crc32c, source)),
        "memcpy": (BUFFER_BYTES, partial(np.copyto, target, source)),
    }


def _codecs() -> Measured:
    """Codecs on single batches, as in a log; bytes are uncompressed."""
    batch = words(BATCH_BYTES)
    fast, small = lz4.block.compress(batch, store_size=False), zstandard.ZstdCompressor(level=3).compress(batch.data)
    target = np.empty(BATCH_BYTES, dtype=np.uint8)
    calls: dict[str, Callable[[], object]] = {
        "lz4 compress": partial(lz4.block.compress, batch, store_size=False),
        "lz4 decompress": partial(cramjam.lz4.decompress_block_into, fast, target, output_len=BATCH_BYTES),
        "zstd compress": partial(zstandard.ZstdCompressor(level=3).compress, batch.data),
        "zstd decompress": partial(zstandard.ZstdDecompressor().decompress, small),
    }
    return {name: (BATCH_BYTES * 40, partial(_repeat, call, 40)) for name, call in calls.items()}


def _cipher() -> Measured:
    """The cipher that both sides of TLS 1.3 prefer, on its largest records."""
    encrypt = partial(AESGCM(bytes(32)).encrypt, bytes(12), words(TLS_BYTES).data, None)
    return {AES: (TLS_BYTES * 640, partial(_repeat, encrypt, 640))}


def _disk(file: BinaryIO) -> Measured:
    return {
        SYNC: (10, partial(_repeat, partial(_append, file, words(APPENDED)), 10)),
        "write and sync": (WRITTEN_BYTES, partial(_append, file, words(WRITTEN_BYTES))),
    }


def _repeat(call: Callable[[], object], times: int) -> None:
    for _ in range(times):
        call()


def _append(file: BinaryIO, data: Bytes) -> None:
    os.write(file.fileno(), data)
    os.fsync(file.fileno())
