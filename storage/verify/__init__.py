"""Is a log sound? Every checksum, record, offset, index entry, marker, snapshot and checkpoint, and a report to act on.

:func:`verify_log` checks a partition. Its work is cut by segment: :func:`plan_verification` names the segments,
:func:`verify_segment` checks one of them, in any process and order, and :func:`join` puts the results together.

Nothing is changed and no lock taken. Damage never ends the check: what lies behind it is found again and checked. While
a writer appends, what it has not finished is no damage: only what was synced once, or has a sound batch behind it, is.
"""

from __future__ import annotations

from pyspark_commitlog.storage.verify.findings import Finding, Kind, Severity
from pyspark_commitlog.storage.verify.log import (
    CheckpointedOffsets,
    LogFindings,
    join,
    plan_verification,
    read_checkpoints,
    verify_log,
)
from pyspark_commitlog.storage.verify.segment import SegmentFindings, SegmentToVerify, verify_segment

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
