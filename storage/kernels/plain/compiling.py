"""Stands in for ``kernels/compiling.py``: leaves kernels as they are."""

from __future__ import annotations

from typing import TypeVar

Kernel = TypeVar("Kernel")


def jit(kernel: Kernel) -> Kernel:
    """Returns the kernel as it is."""
    return kernel


inlined = jit
