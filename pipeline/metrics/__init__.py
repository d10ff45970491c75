"""Figures for Prometheus: of running queries, and of a log directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .directory import DirectoryMetrics as DirectoryMetrics
    from .queries import CommitLogMetrics as CommitLogMetrics
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "directory": ["DirectoryMetrics"],
            "queries": ["CommitLogMetrics"],
        },
    )
