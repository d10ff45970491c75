"""How kernels are compiled, and where their machine code is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def jit(kernel: Kernel) -> Kernel:
    """Compile ``kernel`` on its first call, without the GIL, and keep the machine code on disk.

    Numba keeps it beside the module, else under the home folder (``NUMBA_CACHE_DIR`` overrules both). Where neither can
    be written, as in many containers, a folder of this user in the temporary directory takes it, so that the workers of
    one machine still compile once.
    """
    try:
        return cast(Kernel, _compiled(kernel, cache=True))
    except RuntimeError:  # "cannot cache function: no locator available"
        numba.config.CACHE_DIR = str(_temporary_cache())
        return cast(Kernel, _compiled(kernel, cache=True))


def inlined(function: Kernel) -> Kernel:
    """Compile ``function`` into every kernel that calls it: what is handed a tuple of arrays would else get a copy of
    it, which takes longer than writing a record.
    """
    return cast(Kernel, _compiled(function, forceinline=True))


def _compiled(kernel: Callable[..., Any], **options: bool) -> Any:
    """Without numba's reference counts: kernels make no arrays, and counting whoever is handed one, to read a number
    from it, takes several times what the reading takes.
    """
    njit: Any = numba.njit  # its types know no _nrt
    return njit(nogil=True, boundscheck=False, _nrt=False, **options)(kernel)


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
