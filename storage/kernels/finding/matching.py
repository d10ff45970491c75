"""Which strings of a column equal, begin with, or contain a given string."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arrays import Bytes, frozen
from ..compiling import jit
from ..murmur2 import BinaryStrings

EQUAL, PREFIX, CONTAINS = 0, 1, 2

_NO_BOOLS = np.empty(0, dtype=np.bool_)


def matching(strings: BinaryStrings, wanted: bytes, how: int) -> npt.NDArray[np.bool_]:
    """Returns which strings are (``EQUAL``), begin with (``PREFIX``) or contain (``CONTAINS``) ``wanted``; shape (n,).

    A null string never matches; every other one begins with and contains the empty string.
    """
    found = np.zeros(len(strings.offsets) - 1, dtype=np.bool_)
    valid = _NO_BOOLS if strings.valid is None else strings.valid
    searched = frozen(np.frombuffer(wanted, dtype=np.uint8))
    _match(frozen(strings.data), frozen(strings.offsets), frozen(valid), searched, how, found)
    return found


@jit
def _match(
    data: Bytes,
    offsets: npt.NDArray[np.int32],
    valid: npt.NDArray[np.bool_],
    wanted: Bytes,
    how: int,
    found: npt.NDArray[np.bool_],
) -> None:
    size = len(wanted)
    for i in range(len(found)):
        start, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        if (len(valid) > 0 and not valid[i]) or stop - start < size or (how == EQUAL and stop - start != size):
            continue
        last = stop - size if how == CONTAINS else start  # where a match may begin at the latest
        at = start
        while at <= last and not found[i]:
            same = np.int64(0)
            while same < size and data[at + same] == wanted[same]:
                same += 1
            found[i] = same == size
            at += 1
