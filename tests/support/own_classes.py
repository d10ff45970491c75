"""Modules of a user's own, in the current directory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def own_module(name: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Module ``name`` in ``folder``, the current directory inside the block, which Python does not search by itself."""
    (folder / f"{name}.py").write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    yield
    sys.modules.pop(name, None)
    sys.path_importer_cache.pop(str(folder), None)
