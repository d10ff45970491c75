"""Changes to the topics of a log directory: configs, partitions, deletion of records and of topics (Kafka's Admin).

The first change to a topic that a broker created adds it to ``topics.json``, since the broker keeps its configs
elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from ..config import LogConfig
from ..errors import CorruptionError, LogStoreError, UnknownTopicOrPartitionError
from ..filesystem.open_files import OPEN_FILES
from ..filesystem.operations import read_file, remove_tree, size_of
from ..filesystem.port import FileSystem
from ..format.files import checkpoints, file_names
from ..format.files.file_names import TopicPartition
from ..segment.walk import LogContext
from ..topic_rules import changed_configs, check_more_partitions
from ..writing.locks import APPEND_LOCK_FILE, take_maintenance_lock, wait_for_lock, write_holder
from .broker_settings.metadata_log import read_metadata_log
from .manager import LogManager
from .protected_topics import check_changeable, is_protected
from .remote_tier import REMOTE_STORAGE_KEY, note_first_offsets
from .reserve import keep_reserve, with_room
from .topics_file import Known, TopicDescription

if TYPE_CHECKING:
    from ..bucket.commit_log import CommitLog

TopicIds = Mapping[str, str]  # by name; a topic from before Kafka 2.8 has none

METADATA_BYTES_MAX = 1 << 16  # of partition.metadata, which has two lines


def alter_configs(
    manager: LogManager, name: str, changes: Mapping[str, str | None], *, dry_run: bool = False
) -> TopicDescription:
    """Sets some of a topic's configs, by Kafka's keys; a value of None resets one. Returns the changed topic; durable.

    With ``dry_run``, returns the topic as it would be, and changes nothing. A process that has logs of the topic open
    keeps the settings with which it opened them. Raises UnknownTopicOrPartitionError, InvalidConfigError for an invalid
    setting and for a reset of one that is not set, PolicyViolationError for an internal topic, and LogDirLockedError
    while a broker runs here.
    """
    check_changeable(name, "a change of its configs")
    if manager.bucket is not None:
        return _altered_in_bucket(manager, manager.bucket, name, changes, dry_run=dry_run)
    if dry_run:
        return _with_configs(manager.topic(name), changes)
    if changes.get(REMOTE_STORAGE_KEY) == "true":
        _note_starts(manager, manager.topic(name))
    with _changing(manager, name) as topic:
        altered = _with_configs(topic, changes)
        manager.describe_topics({**manager.described_topics(), name: altered})
        return altered


def _note_starts(manager: LogManager, topic: TopicDescription) -> None:
    """Notes where the partitions of a topic begin that is about to get tiered storage."""
    if topic.configs.get(REMOTE_STORAGE_KEY) != "true":
        manager.check_writable()
        note_first_offsets(manager, topic.topic_partitions)


def _altered_in_bucket(
    manager: LogManager, log: CommitLog, name: str, changes: Mapping[str, str | None], *, dry_run: bool
) -> TopicDescription:
    from ..bucket import topics  # noqa: PLC0415  a directory needs none of it

    if dry_run:
        proposed = topics.alter_configs(log.state, name, changes)
        return replace(manager.topic(name), configs=dict(proposed.configs or {}))
    log.commit(lambda state: topics.alter_configs(state, name, changes))
    return manager.topic(name)


def _with_configs(topic: TopicDescription, changes: Mapping[str, str | None]) -> TopicDescription:
    return replace(topic, configs=changed_configs(topic.name, topic.configs, changes, topic.broker))


def add_partitions(manager: LogManager, name: str, total: int, *, dry_run: bool = False) -> TopicDescription:
    """Adds empty partitions to a topic so that it has ``total``. Returns the changed topic; durable.

    With ``dry_run``, returns the topic as it would be, and changes nothing.

    Keys of new records may then map to other partitions than before, because the default partitioner uses the number of
    partitions. After a crash, the topic is unchanged, perhaps with empty directories that the next call uses. Raises
    UnknownTopicOrPartitionError, InvalidConfigError if ``total`` is not larger than before, PolicyViolationError for an
    internal topic, whose keys would then be searched in other partitions, and LogDirLockedError.
    """
    check_changeable(name, "a change of its number of partitions")
    if dry_run:
        return _enlarged(manager.topic(name), total)
    if manager.bucket is not None:
        from ..bucket import topics  # noqa: PLC0415  a directory needs none of it

        manager.bucket.commit(lambda state: topics.add_partitions(state, name, total))
        return manager.topic(name)
    before = _described(manager, manager.topic(name))
    _enlarged(before, total)
    manager.check_writable()
    planned = range(len(before.partitions), total)
    with manager.staged_partitions(before, planned) as staged, _changing(manager, name) as topic:
        larger = _enlarged(topic, total)
        is_as_before = (topic.topic_id, topic.partitions) == (before.topic_id, before.partitions)
        added = range(len(topic.partitions), total)
        manager.make_partitions(larger, added, staged if is_as_before else None)
        manager.describe_topics({**manager.described_topics(), name: larger})
        return larger


def _enlarged(topic: TopicDescription, total: int) -> TopicDescription:
    check_more_partitions(topic.name, len(topic.partitions), total)
    return replace(topic, partitions=tuple(range(total)))


def delete_topic(manager: LogManager, name: str) -> None:
    """Deletes a topic with all its records. Committed offsets of groups are kept, but not on an object store.

    After a crash before step 3 is complete, the topic is still listed, and deleting it again continues. The steps:

    1. each partition's directory, in ascending order, is renamed ``….<32 hex digits>-delete``, as by a broker;
    2. the checkpoints drop its partitions;
    3. ``topics.json`` drops it: from here on, or from the last rename on if the file never had it, the topic is gone;
    4. the content of ``-delete`` directories is removed, including those of an earlier deletion or of a broker.

    Readers and writers that have a partition open fail when they next access its directory. On a full disk, the
    directory gives up its reserve.

    Raises UnknownTopicOrPartitionError; PolicyViolationError for an internal topic with records; LogDirLockedError if a
    broker runs here or another process compacts, deletes or rebuilds a partition; StorageError if this process may not
    hold the locks of that many partitions at once. Nothing is changed then.
    """
    topic = manager.topic(name)
    check_deletable(manager, topic)
    if manager.bucket is not None:
        from ..bucket import topics  # noqa: PLC0415  a directory needs none of it

        manager.bucket.commit(lambda state: topics.delete_topic(state, name))
        return
    manager.check_writable()
    OPEN_FILES.check_room_for_locks(2 * len(topic.partitions), f"deleting topic {name!r}")
    task = partial(_delete, manager, topic, topic_id(manager, topic))
    with_room(manager.filesystem, manager.directory, task)
    keep_reserve(manager.filesystem, manager.directory)


def _delete(manager: LogManager, topic: TopicDescription, known_id: str | None) -> None:
    """Takes the steps of :func:`delete_topic`, or those that an earlier attempt has not taken.

    ``known_id``: of the topic, which others may have deleted and made again until the locks are held.
    """
    name = topic.name
    manager.close_logs([name])
    with ExitStack() as locks:
        contexts = [context for partition in topic.partitions if (context := _context(manager, name, partition))]
        for context in contexts:
            locks.enter_context(take_maintenance_lock(context))
            write_holder(context, f"deletion of topic {name}")
        for context in contexts:
            locks.enter_context(wait_for_lock(context, APPEND_LOCK_FILE))
        locks.enter_context(manager.root_lock())  # last, because an appending process may wait for it
        there = manager.find_topic(name)
        if there is not None and (topic_id(manager, there) or known_id) != known_id:
            _remove_deleted(manager, name)
            return
        for context in contexts:
            _mark_deleted(manager, context.directory)
        manager.filesystem.sync_directory(manager.directory)
        manager.forget_partitions({*topic.topic_partitions})
        described = manager.described_topics()
        if described.pop(name, None) is not None:
            manager.describe_topics(described)
        _remove_deleted(manager, name)


def check_deletable(manager: LogManager, topic: TopicDescription) -> None:
    """Raises PolicyViolationError for an internal topic with records, which are the progress of queries and groups."""
    if is_protected(topic.name) and any(_holds_records(manager, topic.name, each) for each in topic.partitions):
        check_changeable(topic.name, "its deletion")


def _holds_records(manager: LogManager, topic: str, partition: int) -> bool:
    context = _context(manager, topic, partition)
    return context is not None and any(
        (status := manager.filesystem.status(file_names.join(context.directory, file))) is not None and status.size
        for file in manager.filesystem.list(context.directory)
        if file.endswith(file_names.LOG)
    )


def check_whole(manager: LogManager, topic: TopicDescription) -> None:
    """Raises UnknownTopicOrPartitionError if the directory has only some partitions of a topic.

    A broker may keep the others in another of its ``log.dirs``. Keys map to partitions by the number of partitions, so
    nothing may be written by key to part of a topic. If the broker's metadata is elsewhere too, partitions that begin
    at 0 without a gap cannot be distinguished from a whole topic.
    """
    if topic.name in manager.described_topics():
        return
    found = read_metadata_log(manager.directory, manager.filesystem).partitions.get(topic.name, len(topic.partitions))
    if topic.partitions != tuple(range(found)):
        raise UnknownTopicOrPartitionError(
            f"topic {topic.name!r} has only partitions {list(topic.partitions)} in {manager.directory}: the others are "
            "in another of the broker's log.dirs, and keys would map to other partitions than with all of them"
        )


def topic_id(manager: LogManager, topic: TopicDescription) -> str | None:
    """Returns a topic's id, from ``topics.json`` or else from the first partition that has one in its metadata.

    None for a topic from before Kafka 2.8, which has no id.
    """
    if topic.topic_id is not None:
        return topic.topic_id
    found = (_known_topic_id(manager, topic.name, partition) for partition in topic.partitions)
    return next(filter(None, found), None)


def topic_ids(manager: LogManager, partitions: Iterable[TopicPartition]) -> dict[str, str]:
    """Returns the ids of the topics of ``partitions`` as they are now, by name; topics without one are left out.

    Reads ``partition.metadata`` first: a broker that deletes a topic and creates it again leaves the old id in our
    ``topics.json``. A damaged file counts as missing. Sends no request to an object store.
    """
    numbers: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        numbers.setdefault(topic, []).append(number)
    if manager.bucket is not None:
        there = manager.bucket.state.topic_ids
        return {topic: there[topic] for topic in numbers if topic in there}
    found = {
        topic: next(filter(None, (_readable_topic_id(manager, topic, each) for each in of_topic)), None)
        for topic, of_topic in numbers.items()
    }
    if None in found.values():
        described = manager.described_topics()
        found |= {topic: described[topic].topic_id for topic in found if found[topic] is None and topic in described}
    return {topic: id_ for topic, id_ in found.items() if id_ is not None}


def made_again(known: TopicIds, now: TopicIds) -> dict[str, str]:
    """Returns, by topic, the error texts about topics whose id has changed; a topic without a known id is left out."""
    return {
        topic: f"topic {topic} was deleted and made again: it was read with id {known[topic]}, and has id {now[topic]}"
        for topic in sorted(known.keys() & now.keys())
        if known[topic] != now[topic]
    }


def find_made_again(known: TopicIds, now: TopicIds) -> str | None:
    """Returns the error text of :func:`made_again` about the first topic whose id has changed; None: there is none."""
    return next(iter(made_again(known, now).values()), None)


def partition_topic_id(manager: LogManager, topic: str, partition: int) -> str | None:
    """Returns the topic id in a partition's ``partition.metadata``; None if there is no such file.

    Raises CorruptCheckpointError if the file is damaged: it is renamed into place whole, so no crash leaves a torn one.
    """
    path = manager.path(file_names.partition_directory(topic, partition), file_names.PARTITION_METADATA_FILE)
    try:
        data = read_file(manager.filesystem, path, METADATA_BYTES_MAX)
        return checkpoints.encode_id(checkpoints.decode_partition_metadata(data))
    except FileNotFoundError:
        return None
    except CorruptionError as error:
        raise error.located(path) from None


def _known_topic_id(manager: LogManager, topic: str, partition: int) -> str | None:
    try:
        return partition_topic_id(manager, topic, partition)
    except CorruptionError as error:
        logger.warning("%s; the topic id in this file is ignored", error)
        return None


def _readable_topic_id(manager: LogManager, topic: str, partition: int) -> str | None:
    """Like :func:`_known_topic_id`, without a warning, for callers that ask repeatedly."""
    try:
        return partition_topic_id(manager, topic, partition)
    except CorruptionError:
        return None


def topic_size(manager: LogManager, topic: TopicDescription) -> int:
    """Returns the total size, in bytes, of the ``.log`` files of a topic's partitions, without opening them."""
    contexts = (_context(manager, topic.name, partition) for partition in topic.partitions)
    return sum(log_bytes(manager.filesystem, each.directory) for each in contexts if each is not None)


def log_bytes(filesystem: FileSystem, directory: str) -> int:
    """Returns the total size, in bytes, of the ``.log`` files in a partition's directory."""
    logs = [name for name in filesystem.list(directory) if name.endswith(file_names.LOG)]
    return sum(size_of(filesystem, file_names.join(directory, name)) for name in logs)


logger = logging.getLogger(__name__)


class DeletedRecords(NamedTuple):
    """The result of :func:`delete_records` for one partition."""

    topic: str
    partition: int
    log_start_offset: int | None  # the new one; None: unchanged
    error: LogStoreError | None


def delete_records(
    manager: LogManager, before: Mapping[TopicPartition, int], *, dry_run: bool = False
) -> Iterator[DeletedRecords]:
    """Raises the log start of each partition to its offset in ``before``, -1 for the log end (Kafka's deleteRecords).

    Yields one result per partition, with the error if there was one; the others continue. Records of internal topics
    are never deleted. On a full disk, the directory gives up its reserve. With ``dry_run``, changes nothing. Raises
    LogDirLockedError while a broker runs here.
    """
    log = manager.bucket
    if not dry_run and log is None:
        manager.check_writable()
    for (topic, partition), offset in before.items():
        try:
            check_changeable(topic, "deleting its records")
            if dry_run or log is not None:
                with manager.open_reader(topic, partition) as reader:
                    start = reader.start_without_records(offset)
                if log is not None and not dry_run:
                    _commit_start(log, topic, partition, start)
            else:
                task = partial(_delete_records, manager, topic, partition, offset)
                start = with_room(manager.filesystem, manager.directory, task)
        except LogStoreError as error:
            yield DeletedRecords(topic, partition, None, error)
        else:
            yield DeletedRecords(topic, partition, start, None)


def _delete_records(manager: LogManager, topic: str, partition: int, offset: int) -> int:
    return manager.open_log(topic, partition).delete_records(offset)


def _commit_start(log: CommitLog, topic: str, partition: int, start: int) -> None:
    from ..bucket.topics import find_topic  # noqa: PLC0415  a directory needs none of it
    from ..bucket.upkeep import raise_log_start  # noqa: PLC0415

    topic_id = find_topic(log.state, topic).topic_id
    log.commit(lambda state: raise_log_start(state, topic_id, partition, start))


@contextmanager
def _changing(manager: LogManager, name: str) -> Iterator[TopicDescription]:
    """Yields the topic as ``topics.json`` lists it, or would, and holds the root lock within the ``with`` block."""
    manager.topic(name)
    manager.check_writable()
    with manager.root_lock():
        yield _described(manager, manager.topic(name))


def _described(manager: LogManager, topic: TopicDescription) -> TopicDescription:
    """Returns the topic as ``topics.json`` is to list it: a topic of a broker gets the id in its partitions.

    Raises UnknownTopicOrPartitionError if some of its partitions are elsewhere.
    """
    if topic.topic_id is not None:
        return topic
    if topic.partitions != tuple(range(len(topic.partitions))):
        raise UnknownTopicOrPartitionError(
            f"topic {topic.name!r} has only partitions {list(topic.partitions)} in {manager.directory}: the others are "
            "in another of the broker's log.dirs, and it cannot be changed here alone"
        )
    return replace(topic, topic_id=topic_id(manager, topic) or checkpoints.encode_id(uuid4()), known=Known.SOME)


def _context(manager: LogManager, topic: str, partition: int) -> LogContext | None:
    """Returns the context for the locks of a partition; None if an earlier deletion has renamed its directory."""
    directory = manager.partition_path(topic, partition)
    if manager.filesystem.status(directory) is None:
        return None
    return LogContext(directory, LogConfig(), manager.clock, manager.filesystem, writable=False)


def _mark_deleted(manager: LogManager, directory: str) -> None:
    found = file_names.parse_partition_directory(directory.rpartition("/")[2])
    assert found is not None
    marked = file_names.marked_directory(found.topic, found.partition, "delete", uuid4().hex)
    manager.filesystem.rename(directory, manager.path(marked))


def _remove_deleted(manager: LogManager, topic: str) -> None:
    """Removes the directories of deleted partitions, and those of copies of the topic that were not finished."""
    for name in manager.filesystem.list(manager.directory):
        found = file_names.parse_partition_directory(name)
        is_deleted = found is not None and found.kind == "delete"
        if is_deleted or file_names.is_unfinished_directory(name, topic):
            remove_tree(manager.filesystem, manager.path(name))
    manager.filesystem.sync_directory(manager.directory)
