"""Spark's Python processes: what they import before they fork, and how they use memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .memory import freeze_worker_imports as freeze_worker_imports
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "memory": ["freeze_worker_imports"],
        },
    )
