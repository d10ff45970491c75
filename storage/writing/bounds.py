"""Bounds: where a log that is open for writing begins, and where it ends once records are cut off.

Appends move the end too: :mod:`.log_end`.
"""

from __future__ import annotations

from ..format.files import file_names
from ..reading.marks import Marks
from ..reading.view import LogView
from ..recovery.producer_snapshots import snapshots_outside, write_snapshot
from ..segment.writer import LogSegment
from .durability import Durability, FailStop
from .sharing import Sharing


class Bounds:
    """The log start of one open log, its entries in the checkpoints, and truncations.

    The caller holds the append lock.
    """

    def __init__(self, view: LogView, fail_stop: FailStop, durability: Durability, sharing: Sharing) -> None:
        """``view``: the log, which the methods change."""
        self._view, self._fail_stop, self._durability, self._sharing = view, fail_stop, durability, sharing

    def write_marks(self) -> None:
        """Writes recovery point and log start to the checkpoints.

        Never lowers the log start, which another process may have raised since. Keeps the log start of a broker whose
        remote storage has earlier offsets: it would delete them. Keeps one below lost segments: nobody deleted them.
        """
        view = self._view
        view.move_start(max(view.log_start_offset, view.checkpoints.read().log_start_offset))
        start = view.log_start_offset
        for elsewhere in (view.lost, view.remote):
            if elsewhere is not None and view.log_start_offset == elsewhere.stop:
                start = elsewhere.start
        self.sync_aborted()
        view.checkpoints.write(Marks(self._durability.recovery_point, start))

    def sync_aborted(self) -> None:
        """Syncs the index of aborted transactions: recovery writes it again only above the recovery point."""
        context, index = self._view.context, self._view.segments.active.txn_index
        if context.filesystem.status(index.path) is not None:
            index.sync()
            context.filesystem.sync_directory(context.directory)

    def raise_start(self, offset: int) -> None:
        """Raises the log start to ``offset``; durable on return."""
        view = self._view
        with self._fail_stop.changing:  # a log start that is not written must not stay
            view.move_start(offset)
            view.lost = None
            self.write_marks()
        view.epochs.truncate_from_start(view.log_start_offset)
        view.producers.on_log_start_offset_increased(view.log_start_offset)

    def raise_start_in_tier(self, offset: int) -> None:
        """Raises the start of what only a tier has to ``offset``, at most its end; durable on return."""
        view, tiered = self._view, self._view.in_tier
        if tiered is not None and offset > tiered.start:
            view.remote, view.lost = range(offset, tiered.stop) if offset < tiered.stop else None, None
            with self._fail_stop.changing:
                self.write_marks()

    def truncate_to(self, offset: int) -> None:
        """Removes all batches that reach ``offset`` or lie above it. Durable on return.

        The recovery point is lowered first: a crash at any later step leaves a log that opens, with none, some or all
        of the batches removed.
        """
        view = self._view
        with self._durability.syncing, self._fail_stop.changing:
            if offset >= view.log_end_offset:
                view.epochs.truncate_from_end(view.log_end_offset)
            elif offset < view.segments.first.base_offset:
                self._start_at(offset)
            else:
                self._cut_at(offset)

    def start_at(self, offset: int) -> None:
        """Deletes all records, and begins an empty log at ``offset``. Durable on return.

        Writes the log start first: a crash at any later step leaves a log that shows no records below ``offset``, and
        all, some or none of those above it.
        """
        with self._durability.syncing, self._fail_stop.changing:
            self._start_at(offset)

    def _cut_at(self, offset: int) -> None:
        view = self._view
        holding = view.segments.reaching(offset)[0]  # a batch that reaches the offset is removed whole
        self._lower_marks(holding.base_offset, min(view.log_start_offset, offset))
        for segment in reversed(view.segments.reaching(offset)[1:]):
            view.segments.remove(segment)
            segment.remove_files()
        active = view.segments.active
        active.truncate_to(offset)
        active.resize_indexes()
        view.move_end(active.next_offset())
        if view.log_end_offset < view.log_start_offset:  # both were in a batch that is removed whole
            self._lower_marks(view.log_end_offset, view.log_end_offset)
        view.epochs.truncate_from_end(view.log_end_offset)
        self._after_cut()

    def _start_at(self, offset: int) -> None:
        view = self._view
        self._lower_marks(0, offset)
        for segment in reversed(list(view.segments)):
            view.segments.remove(segment)
            segment.remove_files()
        view.segments.add(LogSegment.create(view.context, offset))
        view.epochs.clear()
        view.move_end(offset)
        self._after_cut()

    def _lower_marks(self, recovery_point: int, log_start_offset: int) -> None:
        self._durability.lower_to(recovery_point)
        self._view.move_start(log_start_offset)
        self._view.checkpoints.write(Marks(self._durability.recovery_point, log_start_offset))

    def _after_cut(self) -> None:
        """Removes snapshots of removed offsets, rebuilds the producer state and writes it, and syncs everything."""
        view, context = self._view, self._view.context
        for name in context.filesystem.list(context.directory):
            offset = file_names.base_offset_of(name) if name.endswith(file_names.SNAPSHOT) else None
            if offset is not None and snapshots_outside([offset], view.log_start_offset, view.log_end_offset):
                context.filesystem.remove(file_names.join(context.directory, name))
        view.rebuild_producers()
        self._sharing.note_active()
        if view.log_end_offset > view.segments.first.base_offset:
            write_snapshot(context, view.producers, sync=True)
        view.segments.active.sync(with_indexes=True)
        context.filesystem.sync_directory(context.directory)
        self._durability.note_synced(view.log_end_offset)
        self.write_marks()
