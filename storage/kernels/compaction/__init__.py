"""Kernels of compaction: ``keys`` reads and copies records, ``offset_map`` has the newest offset of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..loading import OnUse

if TYPE_CHECKING:
    from . import keys as keys, offset_map as offset_map
else:
    globals().update({module: OnUse(f"{__name__}.{module}") for module in ("keys", "offset_map")})
