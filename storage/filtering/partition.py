"""Makes the key filters of closed segments, and removes filters that are no longer enabled or have no segment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

from ..bucket.files.filesystem import BucketFileSystem
from ..directory.log_directory import check_copied
from ..errors import CorruptionError
from ..key_filters.files import FILE_BYTES, FilterFiles
from ..key_filters.filter_file import FilterFile, KeyFilter, encode
from ..key_filters.making import make_filter, segment_id
from ..maintenance.outcome import Changes, PartitionOutcome, outcome_of
from ..maintenance.run import MaintenanceRun, Partition
from ..prefetch import in_order
from ..reading.reader import LogReader
from ..segment.writer import LogSegment
from ..text import counted
from .packing import Packed, Source, packed_in_files, write_files


@dataclass(frozen=True)
class FilterReport:
    """The changes to the key filters of a partition, done or planned."""

    name: str
    is_dry_run: bool
    is_enabled: bool
    made: int = 0  # segments
    bytes: int = 0  # of the filters that were made; 0 in a dry run
    kept: int = 0
    removed: int = 0  # files from which no filter was kept
    without: int = 0  # segments with too many keys, or no object of their own on an object store

    def __str__(self) -> str:
        would = "would make" if self.is_dry_run else "made"
        if not (self.is_enabled or self.removed):
            return f"{self.name}: no key filters: keyfilter.enable = false"
        parts = [f"{would} filters of {counted(self.made, 'segment')}, {self.bytes:,} bytes", f"{self.kept:,} kept"]
        parts += [f"{counted(self.removed, 'file')} removed"] if self.removed else []
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
    context = partition.context(run)
    check_copied(run.filesystem, context.directory)
    files = FilterFiles(context)
    if not (report.is_enabled or files.names or files.unfinished):
        return report
    with ExitStack() as locks:
        if not run.dry_run and run.bucket is None:
            locks.enter_context(run.manager()).check_writable()
            locks.enter_context(partition.locked_for(run))
        reader = locks.enter_context(partition.open_reader(run))
        return _Filtering(run, reader, report).run()


class _Filtering:
    """Updates the filters of one log, under its maintenance lock."""

    def __init__(self, run: MaintenanceRun, reader: LogReader, report: FilterReport) -> None:
        self._run, self._reader, self._report = run, reader, report
        self._files = FilterFiles(reader.context)
        self._sources = set[str]()  # the files from which filters were kept
        self._damage: CorruptionError | None = None

    def run(self) -> FilterReport:
        """Returns the report. Raises CorruptionError for the first damaged segment, once the others are done."""
        names = set[str]()
        if self._report.is_enabled and self._run.dry_run:
            for _, packed in self._known():
                self._count(packed)
        elif self._report.is_enabled:
            names = self._write_all()
        gone = [*self._files.unfinished, *(name for name in self._files.names if name not in self._sources)]
        if not self._run.dry_run:
            self._files.remove([*self._files.unfinished, *(name for name in self._files.names if name not in names)])
        if self._damage is not None:
            raise self._damage
        return replace(self._report, removed=len(gone))

    def _write_all(self) -> set[str]:
        """Writes missing filters; returns the names of the files that the log then has."""
        files = self._run.filesystem
        if not isinstance(files, BucketFileSystem):
            return {*write_files(packed_in_files(self._filters(), FILE_BYTES), self._files.write)}
        write_files(packed_in_files(self._filters(), 0), partial(self._put, files))
        return set()

    def _put(self, files: BucketFileSystem, name: str, filters: list[KeyFilter]) -> None:
        """Puts the filter of a segment, if the segment has an object of its own."""
        if not files.put_key_filter(self._files.path(name), encode(filters)):
            made, size = self._report.made - 1, self._report.bytes - filters[0].size
            self._report = replace(self._report, made=made, bytes=size, without=self._report.without + 1)

    def _filters(self) -> Iterator[Packed]:
        """Yields the filters that the log should have, in the order of segments."""
        with closing(in_order(_made, self._known())) as found:
            for packed in found:
                if isinstance(packed, CorruptionError):
                    self._damage = self._damage or packed
                elif packed is None:
                    self._report = replace(self._report, without=self._report.without + 1)
                else:
                    self._count(packed)
                    yield packed

    def _count(self, packed: Packed | None) -> None:
        if packed is None or packed.source is None:
            size = 0 if packed is None else packed.filter.size
            self._report = replace(self._report, made=self._report.made + 1, bytes=self._report.bytes + size)
        else:
            self._sources.add(packed.source.name)
            self._report = replace(self._report, kept=self._report.kept + 1)

    def _known(self) -> Iterator[tuple[LogSegment, Packed | None]]:
        """Yields the closed segments with their existing valid filters."""
        closed = [segment for segment in self._reader.segments if segment is not self._reader.segments.active]
        for name, segments in groupby(closed, lambda segment: self._files.name_of(segment.base_offset)):
            with ExitStack() as stack:
                file = None
                with suppress(CorruptionError, OSError):  # then they are made again
                    file = stack.enter_context(self._files.opened(name))
                for segment in segments:
                    yield segment, None if file is None or name is None else _believed(file, name, segment)


def _believed(file: FilterFile, name: str, segment: LogSegment) -> Packed | None:
    """Returns the filter of a segment; None if it is missing, damaged, or of another version of the segment."""
    row = file.row_of(segment.base_offset)
    with suppress(CorruptionError, OSError):
        if row is not None and file.segment(row) == segment_id(segment):
            return Packed(file.filter(row), Source(name, len(file), file.size))
    return None


def _made(known: tuple[LogSegment, Packed | None]) -> Packed | CorruptionError | None:
    """Returns the filter of a segment, made if missing; None if it can have none, or the error if it is damaged."""
    segment, packed = known
    if packed is not None:
        return packed
    try:
        found = make_filter(segment)
    except CorruptionError as error:
        return error
    finally:
        segment.release()
    return None if found is None else Packed(found, None)
