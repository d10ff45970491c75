"""Is a log intact? Checks every checksum, record, offset, index entry, marker, snapshot and checkpoint, and reports.

:func:`verify_log` checks a partition. The work is divided by segment: :func:`plan_verification` lists the segments,
:func:`verify_segment` checks one of them, in any process and order, and :func:`join` combines the results.

Changes nothing and takes no lock. Damage never ends the check: it finds the next sound batch and continues there. While
a writer appends, unfinished writes are no damage: only bytes that were synced once, or that a sound batch follows, can
be damaged.
"""

from __future__ import annotations

from .findings import Finding, Kind, Severity
from .log import CheckpointedOffsets, LogFindings, join, plan_verification, read_checkpoints, verify_log
from .segment import SegmentFindings, SegmentToVerify, verify_segment

__all__ = [
    "CheckpointedOffsets",
    "Finding",
    "Kind",
    "LogFindings",
    "SegmentFindings",
    "SegmentToVerify",
    "Severity",
    "join",
    "plan_verification",
    "read_checkpoints",
    "verify_log",
    "verify_segment",
]
