"""Settings of a process that only runs a gateway."""

from __future__ import annotations

import gc


def prepare_process() -> None:
    """Turns Python's cyclic collector off, once the server has started: it takes a tenth of the time of small requests.

    What the server allocates for a request has no cycles, so it is freed without the collector.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
