"""Waiting for what happens on another thread, or in another process."""

from __future__ import annotations

import time
from collections.abc import Callable


def soon(is_so: Callable[[], bool], not_yet: type[Exception] = LookupError) -> None:
    """Wait until it is, and is not answered by the error ``not_yet``; AssertionError after two minutes."""
    deadline = time.monotonic() + 120
    while True:
        try:
            if is_so():
                return
        except not_yet:
            pass
        assert time.monotonic() < deadline, "not within two minutes"
        time.sleep(0.05)
