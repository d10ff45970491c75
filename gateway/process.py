"""Tuning of a process that runs nothing but a gateway."""

from __future__ import annotations

import gc
import sys

from ..storage import keep_freed_memory, raise_limit_to_highest
from .threads.kept import watch_all_threads

# Requests allocate nothing in cycles, so reference counts free it; ended connections and some errors do have cycles. So
# the collector may run seldom, but must run: a few objects may hold buffers of a megabyte.
OBJECTS_A_COLLECTION = 5_000
# The thread of connections gives up the interpreter's lock at each read and send, thousands of times in a second. With
# Python's default of 5 ms, it would wait that long each time while another thread computes for a large request.
SWITCH_INTERVAL_S = 0.0005
# Batches of a few clients, decompressed: producers of large batches then cost a third less.
KEPT_BYTES = 32 * 2**20


def prepare_process() -> None:
    """Makes Python's cyclic garbage collector run seldom, and raises the limit of open files as far as the user may.

    Call it once the server has started. Threads of libraries that end with an error are reported from here on. The
    collector takes a tenth of the time of small requests. Objects made before this call are never scanned again.
    Threads give way to each other ten times sooner than by default. Some of the memory that requests free stays.
    """
    watch_all_threads()
    raise_limit_to_highest()
    keep_freed_memory(KEPT_BYTES)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_A_COLLECTION)
