"""Frames of a coverage-guided fuzzer, read as a gateway reads them: each is a request, or malformed, and nothing else.

It begins with a request of every kind and version that is served.
"""

from __future__ import annotations

from functools import partial

from tests.torture.fuzz import fuzz
from tests.torture.suite import Suite

FRAMES_A_CASE = 100_000  # the start of a fuzzer takes as long as some thousands

SUITE = Suite("frames", 1_000_000, partial(fuzz, names=["request"], inputs=FRAMES_A_CASE))
