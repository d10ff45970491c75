"""Rebuilds the indexes and snapshots of a log. Producer state is carried from segment to segment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..clock import instant
from ..errors import CorruptionError
from ..format.files import checkpoints, file_names
from ..format.files.checkpoints import ProducerEntry, encode_snapshot
from ..format.files.index_entries import AbortedTxn, decode_aborted, encode_aborted
from ..reading.reader import LogReader
from ..recovery.producer_state import PRODUCER_ID_EXPIRATION_MS
from ..recovery.producer_state_manager import ProducerStateManager
from ..segment.joining import Holes
from ..segment.walk import LogContext
from ..writing.log import Log
from .segment import Change, SegmentSurvey, carry_out, difference, read_sidecar, survey_segment


@dataclass(frozen=True)
class RebuildReport:
    """The files that were rebuilt, or would be."""

    changes: tuple[tuple[str, str], ...]  # path and reason, ascending by path
    refused: tuple[CorruptionError, ...]  # damaged logs: nothing is rebuilt from them


def plan_rebuild(log: LogReader) -> RebuildReport:
    """Returns what :func:`rebuild_log` would change. Reads only, takes no lock."""
    surveys = [survey.without_data() for survey in _surveys(log)]
    changes = {change.path: change.reason for change in producer_changes(log.context, surveys)}
    changes |= {change.path: change.reason for survey in surveys for change in survey.changes}
    return RebuildReport(tuple(sorted(changes.items())), _damage(surveys))


def rebuild_log(log: Log, *, holder: str = "") -> RebuildReport:
    """Rebuilds the indexes and snapshots that contradict the log, under its maintenance lock.

    An index of the active segment is rebuilt under the append lock; then the segment is rolled: other processes that
    have the log open notice this and stop writing to the old files. Processes that find the
    partition locked show ``holder`` in their errors.

    After a crash, every file is either old or correct; ``.tmp`` files have no meaning.

    Raises LogDirLockedError if another process maintains the partition, StorageError if the disk fails.
    """
    with log.maintaining(holder or f"index rebuild since {instant(log.context.clock.now_ms())}"):
        remove_temporary(log.context)
        done, surveys = [], []
        for survey in _surveys(log):
            if survey.base_offset != log.segments.active.base_offset:
                done += carry_out(log.context, survey.changes)
            surveys.append(survey.without_data())
        done += carry_out(log.context, producer_changes(log.context, surveys))
        for segment in log.segments:
            segment.close()  # the open files are the old ones
        done += rebuild_active(log)
    return RebuildReport(tuple(sorted(done)), _damage(surveys))


def _surveys(log: LogReader) -> Iterator[SegmentSurvey]:
    for segment in tuple(log.segments):
        yield survey_segment(segment, is_active=segment is log.segments.active)


def _damage(surveys: Iterable[SegmentSurvey]) -> tuple[CorruptionError, ...]:
    return tuple(survey.damage for survey in surveys if survey.damage is not None)


def rebuild_active(log: Log) -> list[tuple[str, str]]:
    """Rebuilds the wrong indexes of the active segment, then rolls it. Returns (path, reason) of each index.

    Does nothing if the indexes are correct or the segment is damaged. The caller holds the maintenance lock.
    """
    with log.replacing_segments({}) as segments:
        done = carry_out(log.context, survey_segment(segments.active, is_active=True).changes)
        segments.active.close()
    if done:
        log.roll()
    return done


def remove_temporary(context: LogContext) -> None:
    """Removes the unfinished ``.tmp`` files of an earlier rebuild that was interrupted."""
    for name in context.filesystem.list(context.directory):
        if name.endswith(file_names.TMP) and file_names.base_offset_of(name) is not None:
            context.filesystem.remove(file_names.join(context.directory, name))


def producer_changes(context: LogContext, surveys: Sequence[SegmentSurvey]) -> Iterator[Change]:
    """Yields a change for each transaction index and each snapshot that contradicts the log.

    ``surveys`` are those of all segments of the log, in order. Reads a file only when its segment is reached.
    """
    walk = _ProducerWalk(context, surveys[0].base_offset)
    for survey in surveys:
        if survey.damage is None:
            yield from walk.take(survey)
        else:
            walk.has_damage = True
    yield from walk.finish(surveys[-1].next_offset)


class _ProducerWalk:
    """Walks through the segments of a log in order, and updates the state of its producers."""

    def __init__(self, context: LogContext, first_base_offset: int) -> None:
        self._context = context
        self._first_base_offset = first_base_offset
        self._producers = ProducerStateManager(context.directory)
        self._is_state_whole = True  # covers all that the log ever held; otherwise a file may know more than the log
        self.has_damage = False  # a damaged segment was skipped

    def take(self, survey: SegmentSurvey) -> Iterator[Change]:
        """Yields the changes to the next segment's transaction index and to the snapshot at its base offset."""
        if self._reaches(survey.base_offset):
            yield from self._of_snapshot(survey.base_offset)
        completed = self._producers.replay(survey.producers, survey.markers)
        self._producers.map_end_offset = max(self._producers.map_end_offset, survey.next_offset)
        path = file_names.join(
            self._context.directory, file_names.segment_file(survey.base_offset, file_names.TXN_INDEX)
        )
        yield from self._of_txn_index(path, [each.index_entry for each in completed if each.aborted])

    def finish(self, log_end_offset: int) -> Iterator[Change]:
        """Yields the change to the snapshot at the log end, if there is one and it is wrong."""
        if self._is_there(log_end_offset) and self._producers.map_end_offset == log_end_offset:
            yield from self._of_snapshot(log_end_offset)

    @property
    def _may_lack_offsets(self) -> bool:
        return self._context.config.compact or self._context.holes() is Holes.ANYWHERE

    def _is_there(self, snapshot_offset: int) -> bool:
        return self._context.filesystem.status(self._snapshot_path(snapshot_offset)) is not None

    def _reaches(self, base_offset: int) -> bool:
        """Whether the producer state at ``base_offset`` is known from the log alone.

        If not, at the first segment and after a missing or damaged one, loads the snapshot at ``base_offset``, the only
        source about earlier offsets.
        """
        first = self._first_base_offset
        state_end = self._producers.map_end_offset
        if base_offset == first == 0:
            return False
        if base_offset > first and (state_end == base_offset or (self._may_lack_offsets and not self.has_damage)):
            self._producers.map_end_offset = base_offset
            return True
        self._is_state_whole = False
        self._producers.load(self._read_snapshot(base_offset) or (), 0, base_offset)
        return False

    # Transaction indexes

    def _of_txn_index(self, path: str, aborted: list[AbortedTxn]) -> Iterator[Change]:
        """Yields the change to a transaction index, if it is wrong.

        An index may have entries for records that were deleted from the log; such an index is kept.
        """
        right = encode_aborted(aborted)
        found = read_sidecar(self._context, path)
        if (found or b"") != right and not (self._may_know_more and _names_all(found or b"", aborted)):
            yield Change(path, difference(found, right), right)

    @property
    def _may_know_more(self) -> bool:
        return self._may_lack_offsets or not self._is_state_whole

    # Snapshots

    def _of_snapshot(self, offset: int) -> Iterator[Change]:
        """Yields the right snapshot at ``offset`` if the file is missing or contradicts the log below ``offset``."""
        wanted = [entry for entry in self._producers.entries() if not self._is_expired(entry)]
        stored = self._read_snapshot(offset)
        if stored is None or not self._states_all({entry.producer_id: entry for entry in stored}, wanted, offset):
            reason = "contradicts the log" if self._is_there(offset) else "missing"
            yield Change(self._snapshot_path(offset), reason, encode_snapshot(wanted))

    def _states_all(self, stored: Mapping[int, ProducerEntry], wanted: list[ProducerEntry], offset: int) -> bool:
        for entry in wanted:
            found = stored.get(entry.producer_id)
            if found is None:
                return False
            knows_more = (found.producer_epoch, found.last_offset) >= (entry.producer_epoch, entry.last_offset)
            if found.coordinator_epoch < 0:  # the snapshot does not know it
                found = found._replace(coordinator_epoch=entry.coordinator_epoch)
            if found != entry and not (knows_more and self._may_know_more):
                return False
        return all(entry.last_offset < offset for entry in stored.values())

    def _is_expired(self, entry: ProducerEntry) -> bool:
        idle_ms = self._context.clock.now_ms() - entry.timestamp
        return entry.current_txn_first_offset < 0 and idle_ms >= PRODUCER_ID_EXPIRATION_MS

    def _snapshot_path(self, offset: int) -> str:
        return file_names.join(self._context.directory, file_names.segment_file(offset, file_names.SNAPSHOT))

    def _read_snapshot(self, offset: int) -> list[ProducerEntry] | None:
        data = read_sidecar(self._context, self._snapshot_path(offset))
        try:
            return None if data is None else checkpoints.decode_snapshot(data)
        except CorruptionError:
            return None


def _names_all(found: bytes, aborted: list[AbortedTxn]) -> bool:
    """Whether ``found`` is a valid transaction index with an entry for each transaction in ``aborted``."""
    try:
        entries = decode_aborted(found)
    except CorruptionError:
        return False
    markers = [entry.last_offset for entry in entries]
    first_offsets = {(entry.producer_id, entry.last_offset): entry.first_offset for entry in entries}
    return markers == sorted(set(markers)) and all(
        first_offsets.get((each.producer_id, each.last_offset), each.first_offset + 1) <= each.first_offset
        for each in aborted
    )
