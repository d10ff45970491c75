"""Partitions whose copy to a directory is not finished: ``orders-0.unfinished`` is there instead of ``orders-0``.

On disk after each step:

1. ``.unfinished`` for each partition of a topic, but no topic; a later copy begins again;
2. the topic, with empty partitions, which count as unfinished because of step 1;
3. of each partition only ``.unfinished``, so that no one reads or writes an empty one in its place;
4. some files of the partition that is being copied;
5. its entries in the checkpoints too, then its indexes, epochs and snapshots, and then the partition.

So a partition is complete or visibly incomplete, and the next copy continues with the incomplete ones. Until the
offsets of groups are copied too, ``begun`` shows that there is a copy to continue.
"""

from __future__ import annotations

from collections.abc import Callable

from ..directory.admin import log_bytes, topic_id
from ..directory.manager import LogManager
from ..directory.root_checkpoints import RootCheckpoints
from ..directory.topics_file import TopicDescription
from ..errors import TopicExistsError
from ..filesystem.operations import make_own_directory, remove_tree
from ..format.files import file_names as names
from ..format.files.file_names import TopicPartition
from ..writing.log import Log

Complete = Callable[[Log], None]  # completes a filled log before others see it


def begin(target: LogManager, topic: TopicDescription, id_: str | None) -> None:
    """Creates the topic, or finds the one that an earlier copy left.

    Raises TopicExistsError for any other topic, and if one of its empty partitions was written to.
    """
    found = target.find_topic(topic.name)
    partitions = topic.topic_partitions
    unfinished = [each for each in partitions if is_unfinished(target, each)]
    if found is not None and unfinished and id_ is not None and topic_id(target, found) != id_:
        raise TopicExistsError(
            f"{target.directory}: has an unfinished copy of another topic of this name, {topic.name!r}: run that copy "
            "again, or delete the topic there, and copy this one again"
        )
    if found is None or found.partitions != topic.partitions or not unfinished:
        if found is None:
            for partition in partitions:
                make_own_directory(target.filesystem, _directory(target, partition))
            target.filesystem.sync_directory(target.directory)
            unfinished = partitions
        target.create_topic(topic.name, partitions=len(topic.partitions), configs=topic.configs, topic_id=id_)
    for partition in unfinished:
        _remove_empty(target, partition)


def is_complete(target: LogManager, topic: TopicDescription, id_: str | None) -> bool:
    """Whether ``target`` has this topic, with this id, as an earlier copy completed it."""
    found = target.find_topic(topic.name)
    if found is None or id_ is None or found.partitions != topic.partitions:
        return False
    return topic_id(target, found) == id_ and not any(is_unfinished(target, each) for each in found.topic_partitions)


def is_unfinished(target: LogManager, partition: TopicPartition) -> bool:
    """Whether a copy of the partition has begun and not ended."""
    return target.filesystem.status(_directory(target, partition)) is not None


def directory_to_fill(target: LogManager, partition: TopicPartition) -> str:
    """Returns the directory for the partition's segments, without the files of an earlier copy."""
    files, directory = target.filesystem, _directory(target, partition)
    for name in files.list(directory):
        if name != names.PARTITION_METADATA_FILE:
            remove_tree(files, names.join(directory, name))
    return directory


def _remove_empty(target: LogManager, partition: TopicPartition) -> None:
    """Removes the empty partition that came with the topic, if it is still there; keeps its topic id."""
    files, directory = target.filesystem, _directory(target, partition)
    empty = target.partition_path(*partition)
    if files.status(empty) is not None:
        if log_bytes(files, empty):
            raise TopicExistsError(
                f"{empty} has records that no copy brought: delete the topic there, and copy it again"
            )
        metadata = names.join(empty, names.PARTITION_METADATA_FILE)
        if files.status(metadata) is not None:
            files.rename(metadata, names.join(directory, names.PARTITION_METADATA_FILE))
            files.sync_directory(directory)
        remove_tree(files, empty)


def make_indexes(target: LogManager, partition: TopicPartition, complete: Complete) -> int:
    """Recovers the log in the filled directory, which makes indexes, epochs and snapshots, and syncs all of it.

    Then calls ``complete`` with it; returns its end.
    """
    log = Log.open(
        _directory(target, partition),
        target.config(partition.topic),
        clock=target.clock,
        filesystem=target.filesystem,
        checkpoints=RootCheckpoints(target, partition),
    )
    try:
        complete(log)
        return log.log_end_offset
    finally:
        log.close()


def finish(target: LogManager, partition: TopicPartition) -> None:
    """Gives the directory, which is filled and synced, the partition's name; durable on return."""
    target.filesystem.rename(_directory(target, partition), target.partition_path(*partition))
    target.filesystem.sync_directory(target.directory)


def _directory(target: LogManager, partition: TopicPartition) -> str:
    return target.path(names.unfinished_directory(*partition))
