"""Spark's Python processes: what they import before they fork, how they use memory, what of an error they show, and
how they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .border import ending_here as ending_here, errors_end_here as errors_end_here
    from .memory import freeze_worker_imports as freeze_worker_imports
    from .quiet_end import end_quietly as end_quietly
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "border": ["ending_here", "errors_end_here"],
            "memory": ["freeze_worker_imports"],
            "quiet_end": ["end_quietly"],
        },
    )
