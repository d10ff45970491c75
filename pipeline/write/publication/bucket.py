"""Publication to an object store: tasks put objects that no reader sees, and one commit names them all.

Any attempt of a task may put, because the commit names the objects of one attempt only. So a task may be repeated, and
speculation is allowed. Objects that no commit names are garbage, which a collector deletes; nothing is deleted here.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from ....storage import (
    Claim,
    CommitLog,
    CommittedOffset,
    DataChange,
    GroupOffset,
    LogConfig,
    NotALogDirError,
    Staged,
    StagedTopic,
    StagedWrite,
    Stager,
    TopicDescription,
    TopicPartition,
    claim_app,
    combined,
    commit_write,
    ensure_topic,
    open_files,
    open_store,
)
from ..answers import Answer, Written
from ..exactly_once.progress import Progress, Run
from ..targets import Targets
from .port import Decision, Offsets, TaskNumbers, Ticket, Topics, Write

MAY_REPEAT_TASKS = True  # a commit names the objects of one attempt


@dataclass(frozen=True)
class StagingTicket:
    """A write whose tasks put objects under the id ``write``."""

    app_id: str
    write: str
    claim: Claim | None  # None: of a writer without progress

    def appender(self, directory: str, topics: Topics, numbers: TaskNumbers) -> StagingAppender:
        return StagingAppender(
            Stager(open_store(directory), self.write, numbers.task, numbers.attempt_id, _staged_topics(topics))
        )

    def resumed(self, directory: str, *, is_named: bool) -> BucketPublication:
        return BucketPublication(directory, opened(directory), self.app_id, self.claim)

    def abort(self, directory: str) -> None:
        """Nothing to end; the store, which may not answer, is not asked."""


class StagingAppender:
    """Puts the batches of one attempt of a task."""

    def __init__(self, stager: Stager) -> None:
        self._stager = stager
        self.append = stager.append
        self.close = stager.close

    def finish(self) -> bytes:
        return pickle.dumps(self._stager.finish())


class BucketPublication:
    """A writer of a log on an object store."""

    def __init__(self, url: str, log: CommitLog, app_id: str, claim: Claim | None) -> None:
        self.directory, self._log, self._app_id, self._claim = url, log, app_id, claim

    def committed(self) -> Offsets:
        offsets = self._log.state.groups.get(self._app_id, {}) if self._claim else {}
        return {_partition_of(name): CommittedOffset(each.offset, each.metadata) for name, each in offsets.items()}

    def check(self, progress: Progress, topics: Topics) -> None:
        """Does nothing: no partition can be older than the others, because each commit names the one before it."""

    def begin(self, topics: Topics, progress: Progress) -> StagingTicket:
        return self.ticket(uuid4().hex)

    def ticket(self, write: str) -> StagingTicket:
        """Returns the ticket of a write under this writer's claim."""
        return StagingTicket(self._app_id, write, self._claim)

    @contextmanager
    def running(self, ticket: Ticket, *, are_here: bool) -> Iterator[Ticket]:
        yield ticket

    def decision(self, write: Write, answers: Sequence[Answer], written: Iterable[Written]) -> Decision:
        ticket, written = write.ticket, list(written)
        assert isinstance(ticket, StagingTicket)
        objects, slices = combined(_staged(answers))
        offsets = _group_offsets(write, written) if ticket.claim else {}
        staged = StagedWrite(ticket.write, objects, slices, ticket.claim, offsets=offsets)

        def commit() -> list[Written]:
            if not objects and not offsets:
                return []
            commit = self._log.commit(lambda state: commit_write(state, staged))
            if commit is None:
                return []
            assert isinstance(commit.change, DataChange)
            return _placed(written, commit.change, write.topics)

        return commit

    def abort(self, ticket: Ticket) -> None:
        """Does nothing: objects that no commit names are not part of the log."""

    def is_current(self) -> bool:
        return not self._log.is_replaced

    def note(self, topics: Topics) -> None:
        """Does nothing: the last commit reveals a replaced log."""

    def checkpoint(self) -> None:
        """Does nothing: the log writes checkpoints of its own."""

    def close(self) -> None:
        """Does nothing: the log stays open in this process, and the next writer of this name fences this one."""


def opened(url: str, before_creating: Callable[[], None] | None = None) -> CommitLog:
    """Returns the log at a URL with its newest state, which this process keeps open.

    If there is none, calls ``before_creating`` and makes one; without it, raises NotALogDirError.
    """
    try:
        return open_files(url).log
    except NotALogDirError:
        if before_creating is None:
            raise
    before_creating()
    return open_files(url, create=True).log


def prepared(targets: Targets, before_creating: Callable[[], None]) -> dict[str, TopicDescription]:
    """Returns the topics in a log; creates it, and them, if they are missing.

    ``before_creating`` is called before a log is created. Raises as :meth:`Targets.prepare`, and as :func:`open_files`.
    """
    log = opened(targets.directory, before_creating)

    def topic(name: str, partitions: int | None, configs: Mapping[str, str] | None) -> TopicDescription:
        log.commit(lambda state: ensure_topic(state, name, partitions, configs))
        found = log.state.topics[log.state.topic_ids[name]]
        return TopicDescription(name, tuple(range(found.partitions)), dict(found.configs), found.topic_id)

    return targets.prepared(topic)


def kept(directory: str, run: Run) -> BucketPublication:
    """Returns the writer of a query, after it fenced the last holder of its name."""
    log = opened(directory)
    claim = claim_app(log, run.app_id, run.query_id or None, run.run_id or None)
    return BucketPublication(directory, log, run.app_id, claim)


def taken(directory: str, app_id: str, timeout_ms: int, *, is_named: bool) -> BucketPublication:
    """Returns the writer of one write, which nothing ends after a time; a named one fences the last holder."""
    log = opened(directory)
    claim = claim_app(log, app_id, None, None) if is_named else None
    return BucketPublication(directory, log, app_id, claim)


def _staged_topics(topics: Topics) -> dict[str, StagedTopic]:
    return {
        name: StagedTopic(topic.topic_id or "", len(topic.partitions), LogConfig.from_mapping(topic.configs))
        for name, topic in topics.items()
    }


def _staged(answers: Iterable[Answer]) -> Iterator[Staged]:
    for each in answers:
        if each.staged is not None:
            yield pickle.loads(each.staged)  # from a task of this write


def _group_offsets(write: Write, written: Iterable[Written]) -> dict[str, dict[str, GroupOffset | None]]:
    """Returns the progress after the write, by group and partition."""
    records = dict.fromkeys(write.wanted, 0)
    for each in written:
        if each.topic in records:
            records[each.topic] += each.records
    return {
        group: {str(partition): GroupOffset(each.offset, each.metadata) for partition, each in offsets.items()}
        for group, offsets in write.progress.offsets(records).items()
    }


def _placed(written: Iterable[Written], change: DataChange, topics: Topics) -> list[Written]:
    """Returns the records of tasks with their offsets in the log; tasks count their own records from 0 on."""
    names = {topic.topic_id: name for name, topic in topics.items()}
    ends: dict[tuple[str, int], int] = defaultdict(int)
    ends.update({(names[part.topic_id], part.partition): part.base_offset for part in change.parts})
    placed = []
    for each in written:
        first = ends[each.topic, each.partition]
        ends[each.topic, each.partition] = first + each.records
        placed.append(each._replace(first_offset=first, last_offset=first + each.records - 1))
    return placed


def _partition_of(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))
