"""Erases records from a partition of a log on an object store: one segment, or one run of slices, at a time.

Each is copied to this machine, erased there, put as a new segment, and replaces the old one by a commit. If the process
is killed in between, the partition has old and new segments, and the next run does the rest. The old objects stay until
the collector may delete them, ``delete.grace.ms`` after the commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ..bucket.collecting import CollectLimits, collect, unnamed_objects
from ..bucket.commit_log import CommitLog
from ..bucket.commits.commit import Segment
from ..bucket.upkeep import Part
from ..clock import Clock
from ..config import LogConfig
from ..errors import StorageError
from ..format.files import file_names
from ..maintenance.bucket.consolidate import runs_of
from ..maintenance.bucket.scratch import Place, put_segment, scratch_log
from ..writing.log import Log
from .keys import RecordFinder
from .one_log import LogErasure, SegmentErasure, erase

COLLECT_EVERY_MS = 10_000
WITH_KEYS = (".data", file_names.LOG, file_names.KEY_FILTER)  # kinds of objects that have keys, or hashes of them


def erase_in_bucket(place: Place, config: LogConfig, clock: Clock, finder: RecordFinder, holder: str) -> LogErasure:
    """Erases all asked records below the first open transaction.

    Raises CorruptionError, with the object's name, for damage, ObjectStoreError, and StorageError if another run was
    faster; then run it again.
    """
    state = place.state
    open_from = state.stable_end if state.stable_end < state.end else None
    replaced: list[SegmentErasure] = []
    for parts in _groups(place, config):
        with scratch_log(place, [parts], config, clock) as log:
            done = erase(log, finder, holder).replaced
            if done:
                _put(place, log, parts, sum(each.records for each in done))
                replaced += done
    return LogErasure(state.stable_end, open_from, replaced)


def _groups(place: Place, config: LogConfig) -> Iterator[Sequence[Part]]:
    """Yields each segment, and runs of slices, in order."""
    parts = place.decided
    runs: dict[int, Sequence[Part]] = {run[0].base: run for run, _ in runs_of(parts, config)}
    for part in parts:
        if isinstance(part, Segment):
            yield [part]
        elif part.base in runs:
            yield runs[part.base]


def _put(place: Place, log: Log, parts: Sequence[Part], erased: int) -> None:
    if len(log.segments) != 2:  # the segment with records, and the empty active one
        raise StorageError(
            f"{place}: the records of one segment do not fit one any more, from offset {parts[0].base} on: raise "
            "segment.index.bytes of the topic"
        )
    is_compacted = all(isinstance(part, Segment) and part.is_compacted for part in parts)
    first = log.segments.first
    if put_segment(place, log, first, parts[-1].end, parts, is_compacted=is_compacted, erased=erased) is None:
        raise StorageError(f"{place}: another run replaced offset {parts[0].base} in the meantime; run this again")


def may_have_records(log: CommitLog, topics: Collection[str]) -> list[str]:
    """Returns the objects that the log does not name, and that may have records of ``topics``."""
    ids = {log.state.topic_ids.get(topic) for topic in topics}
    found = (key for key in unnamed_objects(log) if key.endswith(WITH_KEYS))
    return [key for key in found if not key.startswith("segments/") or key.split("/")[1] in ids]


def collect_old(
    log: CommitLog, limits: CollectLimits, old_objects: Collection[str], clock: Clock, *, wait: bool
) -> list[str]:
    """Deletes objects that the collector may delete; returns the ``old_objects`` that still exist.

    With ``wait``, continues until there are none. Raises the errors of ``collect``.
    """
    while True:
        collect(log, limits)
        left = [key for key in old_objects if _exists(log, key)]
        if not left or not wait:
            return left
        clock.sleep_ms(COLLECT_EVERY_MS)


def _exists(log: CommitLog, key: str) -> bool:
    return log.patient_store.head(key) is not None
