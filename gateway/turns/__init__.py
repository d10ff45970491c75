"""Produce requests that have arrived at several connections, served together in one turn of their thread.

What is plain (``storage/kernels/produce``) is found without an object for a request, appended with one write for each
partition, and answered with one send for each connection. The rest goes the usual way, by ``handlers``. ``turn`` is one
thread's; ``known`` has the partitions that its requests may name; ``compressed`` checks what must be decompressed;
``answers`` wait for syncs; ``loading`` loads the kernels once a client produces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .turn import ProduceTurn as ProduceTurn, Shared as Shared
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"turn": ["ProduceTurn", "Shared"]})
