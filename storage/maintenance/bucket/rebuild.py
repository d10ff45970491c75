"""Rebuilds what is beside segments: indexes, epochs and snapshots. What is shown of slices is made of commits.

Objects are never changed. A segment whose indexes are wrong or missing is put again, with right ones, under a name of
its own, and a commit puts it in the place of the old one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...bucket import Segment, patiently
from ...clock import Clock
from ...config import LogConfig
from ...errors import CorruptionError, ObjectMissingError, StorageError
from .scratch import Place, beside, put_segment, scratch_log

SIDECAR_BYTES_MAX = 64 << 20


@dataclass(frozen=True)
class Rebuilt:
    """The objects that were wrong, and were put again or would be."""

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
    with scratch_log(place, [[part]], config, clock) as log:
        segment = log.segments.first
        found = list(_differences(place, part, beside(log, segment, part.end)))
        if found and not dry_run:
            put = put_segment(place, log, segment, part.end, [part], is_compacted=part.is_compacted, even_if_there=True)
            if put is None:
                raise StorageError(f"another run replaced offset {part.base} meanwhile; run this again")
    return found


def _differences(place: Place, part: Segment, right: Mapping[str, bytes]) -> Iterator[str]:
    name, store = part.key(place.topic.topic_id, place.partition), place.log.store
    for kind, data in right.items():
        try:
            found = patiently(place.log.attempts(), lambda key=name + kind: store.get(key, limit=SIDECAR_BYTES_MAX))  # type: ignore[misc]
        except ObjectMissingError:
            yield f"{store.url}/{name}{kind}: missing"
        except CorruptionError:
            yield f"{store.url}/{name}{kind}: too large"
        else:
            if found != data:
                yield f"{store.url}/{name}{kind}: contradicts the log"
