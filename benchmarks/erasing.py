"""Time an erasure of a hundredth of the keys, compared with a compaction of as many bytes in the same run.

The files are those of the part ``compaction``: 2,000,000 records over 200,000 keys, of which compaction keeps a tenth.
An erasure keeps 99 of 100 records, and so writes ten times as much; beside it is a compaction of as many bytes whose
keys are all different, which keeps all records. Each works on a new copy in the page cache and syncs what it writes.
The time is that of the erasure alone, without the reading again that follows it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.compaction import CODECS, KEYS, RECORDS, clean_copy, open_log, write
from benchmarks.comparison import Comparison, Ratio, Setting
from benchmarks.rows import keys as keys_of
from benchmarks.timing import alternate_told
from pyspark_commitlog.storage.erasure.keys import AskedKeys, KeyFinder
from pyspark_commitlog.storage.erasure.one_log import erase

EVERY = 100  # of the keys one is erased
DIFFERENT = 2**40  # keys to draw from, so that hardly any comes twice


def measure(setting: Setting) -> Iterator[Comparison]:
    count, keys = setting.sized(RECORDS), setting.sized(KEYS)
    gone = frozenset(key for key in keys_of(np.arange(0, keys, EVERY)).to_list() if key is not None)
    for codec in CODECS:
        directory = setting.directory / codec.name.lower()
        same, different, copy = directory / "same", directory / "different", directory / "copy"
        write(same, codec, count, keys)
        write(different, codec, count, DIFFERENT)
        runs = {
            "erase": partial(erase_from_copy, same, copy, gone),
            "a tenth": partial(clean_copy, same, copy),
            "all": partial(clean_copy, different, copy),
        }
        found = alternate_told(runs, setting.rounds)
        shutil.rmtree(directory)
        name = f"erase one key of {EVERY}, {codec.name.lower()}"
        for kept in ("a tenth", "all"):
            yield Comparison(
                name, f"our compaction that keeps {kept}", found["erase"], found[kept], 1.3, ratio=Ratio.SLOWER
            )


def erase_from_copy(written: Path, copy: Path, keys: frozenset[bytes]) -> float:
    """Seconds of an erasure; raises ValueError if it found none of the keys."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(written, copy)
    os.sync()
    with open_log(copy) as log:
        began = time.perf_counter()
        done = erase(log, KeyFinder(AskedKeys(keys)), "a benchmark")
        seconds = time.perf_counter() - began
    if not done.replaced:
        raise ValueError(f"{copy}: nothing was erased")
    return seconds
