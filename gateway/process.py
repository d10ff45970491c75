"""Tuning of a process that runs nothing but a gateway."""

from __future__ import annotations

import gc

from ..storage import raise_limit_to_highest
from .threads import watch_all_threads

# What a request allocates is freed without the collector, as it has no cycles; a connection that ends, and some errors,
# have. So it may run seldom, but it must: buffers of a megabyte may hang on a few objects.
OBJECTS_A_COLLECTION = 5_000


def prepare_process() -> None:
    """Makes Python's cyclic garbage collector run seldom, and raises the limit of open files as far as the user may.

    Call it once the server has started. Threads of libraries that end with an error are reported from here on. The
    collector takes a tenth of the time of small requests. Objects made before this call are never scanned again.
    """
    watch_all_threads()
    raise_limit_to_highest()
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_A_COLLECTION)
