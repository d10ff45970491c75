"""Rebuilds the files beside segments: indexes and epochs. (Those of slices are computed from commits.)

Objects are never changed. A segment whose indexes are wrong or missing is put again, with right ones, under a new name,
and a commit replaces the old one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...bucket.commits.commit import Segment
from ...clock import Clock
from ...config import LogConfig
from ...errors import StorageError
from ...filesystem.local import LocalFileSystem
from ...filesystem.temporary import temporary_folder
from ...format.files import file_names
from ...index_rebuild.log import plan_rebuild
from ...reading.marks import KeptInMemory
from ...reading.reader import LogReader
from ...segment.joining import Holes
from .scratch import SIDECARS, Place, fill, put_segment, read_beside, scratch_log

KEPT = (file_names.TXN_INDEX, file_names.SNAPSHOT)  # they also cover earlier segments, so are not rebuilt


@dataclass(frozen=True)
class Rebuilt:
    """The wrong objects, which were put again, or would be."""

    place: str
    wrong: Sequence[str]  # names, each with what is wrong
    is_dry_run: bool

    def __str__(self) -> str:
        if not self.wrong:
            return f"{self.place}: nothing to rebuild"
        done = "would be put again" if self.is_dry_run else "was put again, with its segment"
        return "\n  ".join([f"{self.place}: rebuilding", *(f"{each}; it {done}" for each in self.wrong)])

    def facts(self) -> Mapping[str, Any]:
        return {"dry_run": self.is_dry_run, "changes": list(self.wrong)}


def rebuild(place: Place, config: LogConfig, clock: Clock, *, dry_run: bool = False) -> Rebuilt:
    """Checks the segments of a partition, one at a time, and puts those again whose indexes contradict them.

    Raises CorruptionError, with the object's name, if a ``.log`` is damaged; StorageError if another run replaced it.
    """
    wrong: list[str] = []
    for part in place.parts:
        if isinstance(part, Segment):
            wrong += _rebuild(place, part, config, clock, dry_run=dry_run)
    return Rebuilt(str(place), wrong, dry_run)


def _rebuild(place: Place, part: Segment, config: LogConfig, clock: Clock, *, dry_run: bool) -> list[str]:
    found = _wrong(place, part, config, clock)
    if found and not dry_run:
        kept = {kind: data for kind in KEPT if (data := read_beside(place, part, kind)) is not None}
        with scratch_log(place, [[part]], config, clock) as log:
            first, is_compacted = log.segments.first, part.is_compacted
            put = put_segment(place, log, first, part.end, [part], is_compacted=is_compacted, again_with=kept)
        if put is None:
            raise StorageError(f"another run replaced offset {part.base} first; run this again")
    return found


def _wrong(place: Place, part: Segment, config: LogConfig, clock: Clock) -> list[str]:
    """Returns the names of objects beside a segment that are missing or contradict it, each with the reason."""
    name, filesystem = f"{place.log.store.url}/{part.key(place.topic.topic_id, place.partition)}", LocalFileSystem()
    with temporary_folder("commitlog-scratch-") as root:
        directory = file_names.join(root, str(place))
        fill(place, [[part]], directory, filesystem)
        missing = [file_names.EPOCHS] if read_beside(place, part, file_names.EPOCHS) is None else []
        for kind in SIDECARS:
            path = file_names.join(directory, file_names.segment_file(part.base, kind))
            data = read_beside(place, part, kind)
            missing += [kind] if data is None else []
            with filesystem.open(path, "create") as file:
                file.write(0, data or b"")
        marks = KeptInMemory(part.end, part.base, Holes.ANYWHERE)
        with LogReader.open(directory, config, clock=clock, filesystem=filesystem, checkpoints=marks) as reader:
            changes = {path.rpartition("/")[2]: reason for path, reason in plan_rebuild(reader).changes}
    wrong = dict.fromkeys(missing, "missing")
    for kind in SIDECARS:
        reason = changes.get(file_names.segment_file(part.base, kind))
        if reason is not None:
            wrong.setdefault(kind, reason)
    return [f"{name}{kind}: {reason}" for kind, reason in wrong.items()]
