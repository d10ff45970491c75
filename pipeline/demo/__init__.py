"""The demo: flights from CSV files into a topic, read back and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .steps import (
        JAVA_OPTIONS as JAVA_OPTIONS,
        NEXT as NEXT,
        show_comparison as show_comparison,
        show_partitions as show_partitions,
        stderr_to as stderr_to,
        submit as submit,
    )
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "steps": ["JAVA_OPTIONS", "NEXT", "show_comparison", "show_partitions", "stderr_to", "submit"],
        },
    )
