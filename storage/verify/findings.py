"""What verification can find, how bad it is, and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

FINDINGS_MAX = 20  # of one kind in one file: a person reads the first; the last tells how many there are


class Severity(Enum):
    """How bad a finding is."""

    DAMAGE = "damage"  # records are lost or wrong
    REPAIRABLE = "repairable"  # a file that can be made anew from the logs
    NOTE = "note"  # unusual, but every record is there


_RESTORE = "restore the file from a copy; what it says of the lost records cannot be rebuilt"
_REBUILD = "rebuild it from the log"
_REOPEN = "opening the log to write puts it in order"
_NOTHING = "nothing has to be done"
_WRITER = "ask who wrote it; readers show it as Kafka does"


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
        "restore the file, or lower the recovery point to give them up",
    )
    MISSING_SEGMENT = "missing-segment", Severity.DAMAGE, "restore the files of the segment"
    UNREADABLE = "unreadable", Severity.DAMAGE, "see to the disk and to permissions, and run this again"

    OFFSET_OVERFLOW = "offset-overflow", Severity.REPAIRABLE, "opening the log to write splits the segment"
    BAD_OFFSET_INDEX = "bad-offset-index", Severity.REPAIRABLE, _REBUILD
    BAD_TIME_INDEX = "bad-time-index", Severity.REPAIRABLE, _REBUILD
    BAD_TXN_INDEX = "bad-txn-index", Severity.REPAIRABLE, _REBUILD
    MISSING_INDEX = "missing-index", Severity.REPAIRABLE, _REBUILD
    MISSING_ABORT = "missing-abort", Severity.REPAIRABLE, "rebuild the index: read_committed may show aborted records"
    BAD_SNAPSHOT = "bad-snapshot", Severity.REPAIRABLE, _REBUILD
    MISSING_SNAPSHOT = "missing-snapshot", Severity.REPAIRABLE, _REBUILD
    BAD_EPOCHS = "bad-epochs", Severity.REPAIRABLE, _REOPEN
    BAD_CHECKPOINT = "bad-checkpoint", Severity.REPAIRABLE, "remove or correct it: the logs tell what it should say"
    BAD_METADATA = "bad-metadata", Severity.REPAIRABLE, "restore it: it names the topic id"
    ORPHAN_INDEX = "orphan-index", Severity.REPAIRABLE, _REOPEN

    UNFINISHED_SWAP = "unfinished-swap", Severity.NOTE, "unless a compaction works here now: " + _REOPEN
    UNSYNCED_TAIL = (
        "unsynced-tail",
        Severity.NOTE,
        "a write goes on or was never acknowledged: opening to write cuts it",
    )
    VANISHED = "vanished", Severity.NOTE, "deleted or replaced meanwhile: run this again"
    OFFSETS_OVERLAP = "offsets-overlap", Severity.NOTE, _WRITER
    OFFSET_GAP = "offset-gap", Severity.NOTE, "nothing, if the topic was ever compacted"
    ODD_ATTRIBUTES = "odd-attributes", Severity.NOTE, _WRITER
    ODD_PRODUCER = "odd-producer", Severity.NOTE, _WRITER
    ODD_OFFSETS = "odd-offsets", Severity.NOTE, _WRITER
    ODD_TIMESTAMP = "odd-timestamp", Severity.NOTE, _WRITER
    ODD_VARINT = "odd-varint", Severity.NOTE, _WRITER
    ODD_CONTROL = "odd-control", Severity.NOTE, _WRITER
    ODD_EPOCH = "odd-epoch", Severity.NOTE, _NOTHING

    def __init__(self, label: str, severity: Severity, advice: str) -> None:
        self.label = label
        self.severity = severity
        self.advice = advice


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    kind: Kind
    path: str
    position: int | None  # byte in the file; None: the file as a whole
    offset: int | None  # of the record or batch; None: not known, or none is meant
    what: str

    @property
    def severity(self) -> Severity:
        return self.kind.severity

    @property
    def advice(self) -> str:
        return self.kind.advice

    def __str__(self) -> str:
        where = self.path if self.position is None else f"{self.path}, position {self.position}"
        at = "" if self.offset is None else f", offset {self.offset}"
        return f"{self.severity.value}: {where}{at}: {self.what} [{self.kind.label}]; {self.advice}"


class Findings:
    """Collects findings: at most :data:`FINDINGS_MAX` of a kind in a file, and one more that counts the rest."""

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._counts: Counter[tuple[Kind, str]] = Counter()

    def add(self, kind: Kind, path: str, what: str, *, position: int | None = None, offset: int | None = None) -> None:
        self._counts[kind, path] += 1
        if self._counts[kind, path] <= FINDINGS_MAX:
            self._kept.append(Finding(kind, path, position, offset, what))

    def all(self) -> tuple[Finding, ...]:
        """In the order in which they were found."""
        return (*self._kept, *self._rest())

    def _rest(self) -> Iterator[Finding]:
        for (kind, path), count in self._counts.items():
            if count > FINDINGS_MAX:
                yield Finding(kind, path, None, None, f"{count - FINDINGS_MAX} more of these")
