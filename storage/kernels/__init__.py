"""Compiled loops over uint8 buffers that fill native arrays.

A kernel does no I/O and raises nothing: it returns how far it got and why it stopped, and the calling format module
turns that into an error with a position. Every kernel has a slow twin in ``tests/support/logs/reference.py``.

``NUMBA_DISABLE_JIT=1`` runs the same bodies as plain Python, so they must be correct under both rules of arithmetic:
widen bytes with ``np.int64(...)`` (64 bits, wrapping) before shifting them, or with ``int(...)`` where products are
masked at once.

The kernel modules are imported on first use: importing numba takes a third of a second, and listing topics needs no
kernel.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

Scalar = TypeVar("Scalar", bound=np.generic)

Bytes = npt.NDArray[np.uint8]


class _OnUse(ModuleType):
    """Acts as a module of kernels, which it imports when one of its attributes is first used."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    from . import (
        canonical as canonical,
        compaction_keys as compaction_keys,
        memory as memory,
        murmur2 as murmur2,
        offset_map as offset_map,
        records as records,
        scan as scan,
        streams as streams,
        varint as varint,
        writing as writing,
    )
else:
    _MODULES = "canonical compaction_keys memory murmur2 offset_map records scan streams varint writing"
    globals().update({module: _OnUse(f"{__name__}.{module}") for module in _MODULES.split()})


def are_imported() -> bool:
    """Whether numba has been imported, so that using a kernel costs no import."""
    return "numba" in sys.modules


def frozen(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Returns the array, or a view or copy of it, that is read-only and contiguous.

    Numba compiles a kernel once for each combination of argument types, and read-only is part of an array's type.
    Sources are always passed frozen, so that mapped files and buffers in memory use the same machine code.
    """
    if array.flags.c_contiguous and not array.flags.writeable:
        return array
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
