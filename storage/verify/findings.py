"""The kinds of findings that verification reports, each with its severity and advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

FINDINGS_MAX = 20  # per kind and file: people read the first ones; one more counts the rest


class Severity(Enum):
    """How severe a finding is."""

    DAMAGE = "damage"  # records are lost or wrong
    REPAIRABLE = "repairable"  # a file that can be rebuilt from the logs
    NOTE = "note"  # unusual, but no record is lost


_RESTORE = "restore the file from a copy; lost records cannot be rebuilt"
_REBUILD = "commitlog rebuild-index rebuilds it from the log"
_REOPEN = "commitlog recover repairs it, as opening the log for writing does"
_NOTHING = "no action needed"
_WRITER = "check the program that wrote it; readers show it as Kafka does"


class Kind(Enum):
    """The kinds of findings: value, severity, advice."""

    BAD_CHECKSUM = "bad-checksum", Severity.DAMAGE, _RESTORE
    BAD_BATCH = "bad-batch", Severity.DAMAGE, _RESTORE
    BAD_RECORDS = "bad-records", Severity.DAMAGE, _RESTORE
    BAD_MARKER = "bad-marker", Severity.DAMAGE, _RESTORE
    UNKNOWN_MAGIC = "unknown-magic", Severity.DAMAGE, "restore the file, or read it with a newer version of this engine"
    OFFSETS_GO_BACK = "offsets-go-back", Severity.DAMAGE, _RESTORE
    TORN_TAIL = "torn-tail", Severity.DAMAGE, _RESTORE
    RECORDS_MISSING = (
        "records-missing",
        Severity.DAMAGE,
        "restore the file; to give the records up, lower the partition's offset in recovery-point-offset-checkpoint",
    )
    MISSING_SEGMENT = "missing-segment", Severity.DAMAGE, "restore the files of the segment"
    LOST_START = (
        "lost-start",
        Severity.DAMAGE,
        "restore the files of the segments; if the records were deleted on purpose, say so by commitlog delete-records "
        "up to where the log begins",
    )
    BAD_STATE = (
        "bad-state",
        Severity.DAMAGE,
        "a key that cannot be read stops nothing, a value stops its group or transactional id until a newer one is "
        "written; find the program that wrote it",
    )
    UNREADABLE = "unreadable", Severity.DAMAGE, "check the disk and permissions, and run this again"

    OFFSET_OVERFLOW = (
        "offset-overflow",
        Severity.REPAIRABLE,
        "commitlog recover splits the segment, as opening the log for writing does",
    )
    BAD_OFFSET_INDEX = "bad-offset-index", Severity.REPAIRABLE, _REBUILD
    BAD_TIME_INDEX = "bad-time-index", Severity.REPAIRABLE, _REBUILD
    BAD_TXN_INDEX = "bad-txn-index", Severity.REPAIRABLE, _REBUILD
    MISSING_INDEX = "missing-index", Severity.REPAIRABLE, _REBUILD
    MISSING_ABORT = (
        "missing-abort",
        Severity.REPAIRABLE,
        "read_committed may show aborted records until commitlog rebuild-index has rebuilt the index",
    )
    BAD_KEY_FILTER = "bad-key-filter", Severity.REPAIRABLE, "remove it; commitlog key-filters makes it again"
    BAD_SNAPSHOT = "bad-snapshot", Severity.REPAIRABLE, _REBUILD
    MISSING_SNAPSHOT = "missing-snapshot", Severity.REPAIRABLE, _REBUILD
    BAD_EPOCHS = "bad-epochs", Severity.REPAIRABLE, _REOPEN
    BAD_CHECKPOINT = "bad-checkpoint", Severity.REPAIRABLE, "remove or correct it: the logs show the correct offsets"
    BAD_METADATA = "bad-metadata", Severity.REPAIRABLE, "restore it: it contains the topic id"
    ORPHAN_INDEX = "orphan-index", Severity.REPAIRABLE, _REOPEN

    UNFINISHED_SWAP = "unfinished-swap", Severity.NOTE, "unless a compaction is running now: " + _REOPEN
    UNSYNCED_TAIL = (
        "unsynced-tail",
        Severity.NOTE,
        "a write is in progress or was never acknowledged: commitlog recover cuts it off, as opening the log for "
        "writing does",
    )
    OLD_KEY_FILTER = (
        "old-key-filter",
        Severity.NOTE,
        "searches do not use it, as after a copy of the directory: commitlog key-filters makes it again",
    )
    VANISHED = "vanished", Severity.NOTE, "the file was deleted or replaced during the check: run this again"
    OFFSETS_OVERLAP = "offsets-overlap", Severity.NOTE, _WRITER
    OFFSET_GAP = "offset-gap", Severity.NOTE, "no action needed if the topic was ever compacted"
    ODD_ATTRIBUTES = "odd-attributes", Severity.NOTE, _WRITER
    ODD_PRODUCER = "odd-producer", Severity.NOTE, _WRITER
    ODD_OFFSETS = "odd-offsets", Severity.NOTE, _WRITER
    ODD_TIMESTAMP = "odd-timestamp", Severity.NOTE, _WRITER
    ODD_VARINT = "odd-varint", Severity.NOTE, _WRITER
    ODD_CONTROL = "odd-control", Severity.NOTE, _WRITER
    ODD_STATE = "odd-state", Severity.NOTE, "a later release of Kafka wrote it; coordinators pass over it"
    ODD_EPOCH = "odd-epoch", Severity.NOTE, _NOTHING

    def __init__(self, label: str, severity: Severity, advice: str) -> None:
        self.label = label
        self.severity = severity
        self.advice = advice


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem or oddity in one file."""

    kind: Kind
    path: str
    position: int | None  # byte in the file; None: the file as a whole
    offset: int | None  # offset of the record or batch; None: unknown or not applicable
    what: str
    lost: tuple[int, int] | None = None  # the first and the last offset whose records are lost; None: none, or unknown

    @property
    def severity(self) -> Severity:
        return self.kind.severity

    @property
    def advice(self) -> str:
        return self.kind.advice

    def __str__(self) -> str:
        where = self.path if self.position is None else f"{self.path}, position {self.position}"
        at = "" if self.offset is None else f", offset {self.offset}"
        lost = "" if self.lost is None else f"; {lost_text(*self.lost)}"
        return f"{self.severity.value}: {where}{at}: {self.what}{lost} [{self.kind.label}]; {self.advice}"


def lost_text(first: int, last: int) -> str:
    """Returns ``offsets 463 to 475 are lost``."""
    return f"offset {first} is lost" if first == last else f"offsets {first} to {last} are lost"


class Findings:
    """Collects findings: at most :data:`FINDINGS_MAX` per kind and file, and one more that counts the rest."""

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._counts: Counter[tuple[Kind, str]] = Counter()

    def add(
        self,
        kind: Kind,
        path: str,
        what: str,
        *,
        position: int | None = None,
        offset: int | None = None,
        lost: tuple[int, int] | None = None,
    ) -> None:
        self._counts[kind, path] += 1
        if self._counts[kind, path] <= FINDINGS_MAX:
            self._kept.append(Finding(kind, path, position, offset, what, lost))

    def all(self) -> tuple[Finding, ...]:
        """Returns all findings in the order in which they were added."""
        return (*self._kept, *self._rest())

    def _rest(self) -> Iterator[Finding]:
        for (kind, path), count in self._counts.items():
            if count > FINDINGS_MAX:
                yield Finding(kind, path, None, None, f"{count - FINDINGS_MAX} more findings of this kind")
