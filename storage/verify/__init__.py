"""Verifies logs: checks every checksum, record, offset, index entry, marker, snapshot and checkpoint.

:func:`verify_log` checks a partition. To check its segments in several processes, :func:`plan_verification` lists them,
:func:`verify_segment` checks one, in any process and order, and :func:`join` combines the results.

Verification changes nothing and takes no lock. Damage does not end it: it continues at the next sound batch. While a
writer appends, unfinished writes are no damage: only bytes that were synced once, or that a sound batch follows, can be
damaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .findings import Finding as Finding, Kind as Kind, Severity as Severity
    from .log import (
        CheckpointedOffsets as CheckpointedOffsets,
        LogFindings as LogFindings,
        join as join,
        plan_verification as plan_verification,
        read_checkpoints as read_checkpoints,
        verify_log as verify_log,
    )
    from .segment import (
        SegmentFindings as SegmentFindings,
        SegmentToVerify as SegmentToVerify,
        verify_segment as verify_segment,
    )
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "findings": ["Finding", "Kind", "Severity"],
            "log": [
                "CheckpointedOffsets",
                "LogFindings",
                "join",
                "plan_verification",
                "read_checkpoints",
                "verify_log",
            ],
            "segment": ["SegmentFindings", "SegmentToVerify", "verify_segment"],
        },
    )
