"""The arrays that kernels are given."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Scalar = TypeVar("Scalar", bound=np.generic)

Bytes = npt.NDArray[np.uint8]


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
