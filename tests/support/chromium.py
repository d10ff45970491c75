"""Debian's Chromium, driven by playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@contextmanager
def chromium() -> Iterator[Browser]:
    """Starts Chromium for the ``with`` block. Raises FileNotFoundError if it is not there."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  takes a second

    path = shutil.which("chromium")
    if path is None:
        raise FileNotFoundError("no chromium in PATH: install it (Debian: apt-get install chromium)")
    # As root, as in a container, Chromium does not start with its sandbox.
    sandbox = ["--no-sandbox"] * (os.geteuid() == 0)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=sandbox)
        try:
            yield started
        finally:
            started.close()
