"""The commits that exactly-once writers propose, and the checks that refuse them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..errors import (
    MissingSegmentError,
    ProducerFencedError,
    ProgressMismatchError,
    TransactionAbortedError,
    UnknownTopicOrPartitionError,
)
from ..format.files import file_names
from ..format.tables import Int64s
from ..reading.marks import UNFINISHED_COPY
from .commit_log import CommitLog
from .commits.commit import DataChange, GroupOffsets, OpenChange, PartitionSlices, StagedObject
from .commits.state import State


class Claim(NamedTuple):
    """A writer's right to write for an app, until another writer opens the app."""

    app: str
    epoch: int
    query: str | None
    run: str | None


@dataclass(frozen=True)
class StagedWrite:
    """The objects that the tasks of a micro-batch put, to be committed as a whole.

    The app's progress is ``version``, or the offsets of the group with the app's name.
    """

    write: str
    objects: Sequence[StagedObject]
    slices: Mapping[tuple[str, int], Int64s]  # by topic id and partition; columns as in a commit
    claim: Claim | None = None
    version: int | None = None  # of the claim's app
    offsets: GroupOffsets = field(default_factory=dict)


def open_app(
    state: State, app: str, query: str | None, run: str | None, after: Collection[str] | None = None
) -> OpenChange:
    """Proposes to take over an app.

    ``after``: the runs that this one may follow; by default any. Raises ProducerFencedError if the app belongs to
    another run, and ProgressMismatchError if its progress is that of another query.
    """
    last = state.apps.get(app)
    if last and after is not None and last.run not in after:
        raise ProducerFencedError(f"app {app!r}: another writer took over; it is of run {last.run}")
    if last and last.version is not None and last.query != query:
        raise ProgressMismatchError(
            f"app {app!r} was written by query {last.query} up to version {last.version}, and this is query {query}: "
            "its versions begin again at 0, so rows would be skipped; continue from that query's checkpoint, or use "
            "another txnAppId"
        )
    return OpenChange(app, (last.epoch if last else 0) + 1, query, run)


def claim_app(
    log: CommitLog, app: str, query: str | None, run: str | None, after: Collection[str] | None = None
) -> Claim:
    """Takes over an app; later writes for it by others are refused. Raises like :func:`open_app`."""
    commit = log.commit(lambda state: open_app(state, app, query, run, after))
    assert commit is not None
    assert isinstance(commit.change, OpenChange)
    return Claim(app, commit.change.epoch, query, run)


def commit_write(state: State, staged: StagedWrite) -> DataChange | None:
    """Proposes a write; None if the app's progress includes its version or offsets already.

    Raises UnknownTopicOrPartitionError if a topic was deleted, perhaps made again, since the tasks wrote for it;
    MissingSegmentError if the copy of a partition to here is not finished;
    ProducerFencedError if another writer opened the app; TransactionAbortedError if the write's objects may be deleted:
    the tasks must write again.
    """
    if dead := [each for each in staged.slices if each not in state.partitions]:
        raise UnknownTopicOrPartitionError(
            f"write {staged.write}: topic id {dead[0][0]}, partition {dead[0][1]} is not there any more"
        )
    for each, slices in staged.slices.items():
        if len(slices):
            check_copied(state, each)
    claim = staged.claim
    if claim is not None:
        app = state.apps.get(claim.app)
        if app is None or app.epoch != claim.epoch:
            raise ProducerFencedError(f"app {claim.app!r}: another writer took over; this one had epoch {claim.epoch}")
        if _is_committed(state, staged, claim.app):
            return None
    if staged.write in state.void:
        raise TransactionAbortedError(f"write {staged.write} took too long, and its objects were given up: write again")
    return _data(state, staged)


def check_copied(state: State, key: tuple[str, int]) -> None:
    """Raises MissingSegmentError if a partition, by topic id and number, is a copy that is not finished."""
    if state.partitions[key].is_unfinished:
        name = file_names.unfinished_directory(state.topics[key[0]].name, key[1])
        raise MissingSegmentError(UNFINISHED_COPY, path=name)


def _is_committed(state: State, staged: StagedWrite, app: str) -> bool:
    """Whether the app's progress includes that of the write.

    Raises ProgressMismatchError if it includes only a part.
    """
    last = state.apps[app].version
    if staged.version is not None and last is not None and staged.version <= last:
        return True
    wanted, kept = staged.offsets.get(app, {}), state.groups.get(app, {})
    reached = {
        partition
        for partition, offset in wanted.items()
        if offset is not None and partition in kept and kept[partition].offset >= offset.offset
    }
    if reached and reached != wanted.keys():
        raise ProgressMismatchError(
            f"app {app!r} has offsets of write {staged.write} for {', '.join(sorted(reached))}, but not for "
            f"{', '.join(sorted(wanted.keys() - reached))}: another writer uses its name"
        )
    return bool(reached)


def _data(state: State, staged: StagedWrite) -> DataChange:
    claim = staged.claim
    parts = [
        PartitionSlices(topic_id, number, state.partitions[topic_id, number].end, np.asarray(slices, np.int64))
        for (topic_id, number), slices in staged.slices.items()
        if len(slices)
    ]
    return DataChange(
        write=staged.write,
        objects=staged.objects,
        parts=parts,
        app=claim.app if claim else None,
        version=staged.version if claim else None,
        epoch=claim.epoch if claim else None,
        query=claim.query if claim else None,
        run=claim.run if claim else None,
        offsets=staged.offsets or None,
    )
