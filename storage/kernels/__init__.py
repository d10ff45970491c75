"""Compiled loops: uint8 buffers in, native arrays out.

A kernel does no I/O and raises nothing: it returns how far it came and why it stopped, and the format module above
turns that into an error at a position. Every kernel has a slow twin in ``tests/support/reference.py``.

``NUMBA_DISABLE_JIT=1`` runs the same bodies as plain Python, so they must be right under both rules of arithmetic:
bytes are widened with ``np.int64(...)`` (64 bits, wrapping) before they are shifted, or with ``int(...)`` where
products are masked at once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

Scalar = TypeVar("Scalar", bound=np.generic)

Bytes = npt.NDArray[np.uint8]


def jit(kernel: Kernel) -> Kernel:
    """Compile ``kernel`` on its first call, without the GIL, and keep the machine code on disk.

    Numba keeps it beside the module, else under the home folder (``NUMBA_CACHE_DIR`` overrules both). Where neither can
    be written, as in many containers, a folder of this user in the temporary directory takes it, so that the workers of
    one machine still compile once.
    """
    try:
        return cast(Kernel, _njit(kernel))
    except RuntimeError:  # "cannot cache function: no locator available"
        numba.config.CACHE_DIR = str(_temporary_cache())
        return cast(Kernel, _njit(kernel))


def _njit(kernel: Callable[..., Any]) -> Any:
    return numba.njit(cache=True, nogil=True, boundscheck=False)(kernel)


def _temporary_cache() -> Path:
    """A folder that only this user can write: numba unpickles what it finds there, so a stranger's will not do."""
    with tempfile.NamedTemporaryFile() as mine:
        user = Path(mine.name).stat().st_uid
    folder = Path(tempfile.gettempdir()) / f"pyspark-commitlog-kernels-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != user or found.st_mode & 0o022:
        return Path(tempfile.mkdtemp(prefix="pyspark-commitlog-kernels-"))
    return folder


def frozen(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """A read-only, contiguous view.

    Numba compiles a kernel once for each combination of argument types, and read-only is part of an array's type.
    Sources are always passed frozen, so that a buffer mapped from a file and one in memory meet the same machine code.
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
