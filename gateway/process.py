"""Settings of a process that only runs a gateway."""

from __future__ import annotations

import gc

# What a request allocates is freed without the collector, as it has no cycles; a connection that ends, and some errors,
# have. So it may run seldom, but it must: buffers of a megabyte may hang on a few objects.
OBJECTS_A_COLLECTION = 5_000


def prepare_process() -> None:
    """Lets Python's cyclic collector run seldom, once the server has started: it takes a tenth of small requests' time.

    What the server made at its start is not looked through again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_A_COLLECTION)
