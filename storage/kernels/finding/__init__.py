"""Kernels of searches: ``matching`` compares strings with a given one, ``key_filter`` makes and asks Bloom filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..loading import OnUse

if TYPE_CHECKING:
    from . import key_filter as key_filter, matching as matching
else:
    globals().update({module: OnUse(f"{__name__}.{module}") for module in ("key_filter", "matching")})
