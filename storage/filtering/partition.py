"""Makes the key filters of closed segments, and removes those that are not wanted or have no segment any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from ..bucket import BucketFileSystem
from ..directory.log_directory import check_copied
from ..errors import CorruptionError
from ..format.files import file_names
from ..key_filters.filter_file import KeyFilter
from ..key_filters.making import make_filter
from ..key_filters.reading import believed_filter, filter_path
from ..maintenance.locking import maintenance_lock
from ..maintenance.outcome import Changes, PartitionOutcome, outcome_of
from ..maintenance.run import MaintenanceRun, Partition
from ..reading.reader import LogReader
from ..segment.writer import LogSegment
from ..text import counted


@dataclass(frozen=True)
class FilterReport:
    """What was done, or would be, to the key filters of a partition."""

    name: str
    is_dry_run: bool
    is_enabled: bool
    made: int = 0  # segments
    bytes: int = 0  # of the filters that were made; 0 in a dry run
    kept: int = 0
    removed: int = 0
    without: int = 0  # segments with too many keys, or no object of their own on an object store

    def __str__(self) -> str:
        would = "would make" if self.is_dry_run else "made"
        if not (self.is_enabled or self.removed):
            return f"{self.name}: no key filters: keyfilter.enable = false"
        parts = [f"{would} filters of {counted(self.made, 'segment')}, {self.bytes:,} bytes", f"{self.kept:,} kept"]
        parts += [f"{self.removed:,} removed"] if self.removed else []
        parts += [f"{counted(self.without, 'segment')} without"] if self.without else []
        return f"{self.name}: {', '.join(parts)}"

    def facts(self) -> Mapping[str, Any]:
        return {"made": self.made, "bytes": self.bytes, "kept": self.kept, "removed": self.removed}

    def to_changes(self) -> Changes:
        return Changes("filter", self.is_dry_run, self.made + self.removed, self.bytes)


def filter_partition(run: MaintenanceRun, partition: Partition) -> PartitionOutcome:
    """Brings the key filters of one partition up to date, and returns the outcome.

    Takes the maintenance lock, so that no segment is replaced while it is read. A damaged segment gets no filter, and
    is the outcome once the others are done. Not while a broker runs on the directory.
    """
    return outcome_of(partition, lambda: _filter(run, partition))


def _filter(run: MaintenanceRun, partition: Partition) -> FilterReport:
    report = FilterReport(str(partition), run.dry_run, partition.config.keyfilter_enable)
    check_copied(run.filesystem, partition.context(run).directory)
    if not (report.is_enabled or _names(run, partition)):
        return report
    with ExitStack() as locks:
        if not run.dry_run and run.bucket is None:
            locks.enter_context(run.manager()).check_writable()
            locks.enter_context(maintenance_lock(partition.context(run), run.holder, wait=run.wait))
        reader = locks.enter_context(partition.open_reader(run))
        report = replace(report, removed=_remove_others(run, partition, reader))
        if report.is_enabled:
            report = _make_all(run, reader, report)
    return report


def _names(run: MaintenanceRun, partition: Partition) -> list[str]:
    """Returns the names of the filters in a directory, also of unfinished ones."""
    suffixes = file_names.KEY_FILTER, file_names.KEY_FILTER + file_names.TMP
    listing = run.filesystem.list(partition.context(run).directory)
    return [name for name in listing if name.endswith(suffixes) and file_names.base_offset_of(name) is not None]


def _closed(reader: LogReader) -> Iterator[LogSegment]:
    return (segment for segment in reader.segments if segment is not reader.segments.active)


def _remove_others(run: MaintenanceRun, partition: Partition, reader: LogReader) -> int:
    """Removes filters whose segment is not there, and all if they are not wanted; returns how many."""
    segments = list(_closed(reader)) if partition.config.keyfilter_enable else []
    wanted = {file_names.segment_file(each.base_offset, file_names.KEY_FILTER) for each in segments}
    others = [name for name in _names(run, partition) if name not in wanted]
    if others and not run.dry_run:
        for name in others:
            run.filesystem.remove(file_names.join(reader.context.directory, name))
        run.filesystem.sync_directory(reader.context.directory)
    return len(others)


def _make_all(run: MaintenanceRun, reader: LogReader, report: FilterReport) -> FilterReport:
    damage: CorruptionError | None = None
    for segment in _closed(reader):
        try:
            report = _make(run, segment, report)
        except CorruptionError as error:
            damage = damage or error
        segment.release()
    if damage is not None:
        raise damage
    return report


def _make(run: MaintenanceRun, segment: LogSegment, report: FilterReport) -> FilterReport:
    if believed_filter(segment) is not None:
        return replace(report, kept=report.kept + 1)
    if run.dry_run:
        return replace(report, made=report.made + 1)
    found = make_filter(segment)
    size = 0 if found is None else _write(run, segment, found)
    if not size:
        return replace(report, without=report.without + 1)
    return replace(report, made=report.made + 1, bytes=report.bytes + size)


def _write(run: MaintenanceRun, segment: LogSegment, found: KeyFilter) -> int:
    """Writes a filter; returns its bytes, 0 if the segment has no object of its own to put it beside.

    Waits for no sync, which would take longer than reading the segment. After a power cut, a filter may be torn: its
    checksum shows that, so it is not believed, and the next run makes it again.
    """
    data, path, files = found.encode(), filter_path(segment), run.filesystem
    if isinstance(files, BucketFileSystem):
        return len(data) if files.put_key_filter(path, data) else 0
    temporary = path + file_names.TMP
    with files.open(temporary, "create") as file:
        file.truncate(0)
        file.write(0, data)
        file.begin_sync()
    files.rename(temporary, path)
    return len(data)
