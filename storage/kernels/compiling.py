"""Compiles kernels and chooses where to cache their machine code."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def jit(kernel: Kernel) -> Kernel:
    """Compile ``kernel`` on its first call, to run without the GIL, and cache the machine code on disk.

    Numba's cache is beside the module, or else in the home folder (``NUMBA_CACHE_DIR`` overrides both). If neither is
    writable, as in many containers, the cache goes to a folder of this user in the temporary directory, so that the
    workers of one machine still compile each kernel only once.
    """
    try:
        return cast(Kernel, _compiled(kernel, cache=True))
    except RuntimeError:  # "cannot cache function: no locator available"
        numba.config.CACHE_DIR = str(_temporary_cache())
        return cast(Kernel, _compiled(kernel, cache=True))


def inlined(function: Kernel) -> Kernel:
    """Inline ``function`` into every kernel that calls it.

    Otherwise, passing it a tuple of arrays copies the tuple, which takes longer than writing a record.
    """
    return cast(Kernel, _compiled(function, forceinline=True))


def _compiled(kernel: Callable[..., Any], **options: bool) -> Any:
    """Compiles without numba's reference counts.

    Kernels create no arrays, and counting references to each array passed takes several times as long as reading a
    number from it.
    """
    njit: Any = numba.njit  # numba's type annotations lack _nrt
    return njit(nogil=True, boundscheck=False, _nrt=False, **options)(kernel)


def _temporary_cache() -> Path:
    """Returns a folder that only this user can write, because numba unpickles the files in it."""
    with tempfile.NamedTemporaryFile() as mine:
        user = Path(mine.name).stat().st_uid
    folder = Path(tempfile.gettempdir()) / f"pyspark-commitlog-kernels-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != user or found.st_mode & 0o022:
        return Path(tempfile.mkdtemp(prefix="pyspark-commitlog-kernels-"))
    return folder
