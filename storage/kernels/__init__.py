"""Compiled loops over uint8 buffers that fill native arrays.

A kernel does no I/O and raises nothing: it returns how far it got and why it stopped, and the calling format module
turns that into an error with a position. Every kernel has a slow twin in ``tests/support/logs/reference.py``.

``NUMBA_DISABLE_JIT=1`` runs the same bodies as plain Python, so they must be correct under both rules of arithmetic:
widen bytes with ``np.int64(...)`` (64 bits, wrapping) before shifting them, or with ``int(...)`` where products are
masked at once.

The kernel modules are imported on first use (``loading``), for they import numba.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .loading import IN_PLAIN, OnUse

if TYPE_CHECKING:
    from . import (
        canonical as canonical,
        memory as memory,
        murmur2 as murmur2,
        records as records,
        scan as scan,
        streams as streams,
        varint as varint,
        writing as writing,
    )
else:
    globals().update({module: OnUse(f"{__name__}.{module}") for module in IN_PLAIN})
