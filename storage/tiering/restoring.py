"""Brings topics back from a tier whose cluster or log directory is lost, with the help of its remains.

:func:`opened_to_restore` shows the tier as the log that was copied to it. Only its brokers knew settings, how many
partitions there are, ids and log starts: these come from the remains of a log directory. Then
:func:`restore_to_directory` copies it, or :mod:`.publishing` gives it to another cluster.

Each partition ends with its last segment in the tier. If the marker of a transaction would be after that, its outcome
is unknown, so it is aborted; a group that was ahead of that end is set to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from ..directory.admin import topic_id
from ..directory.broker_settings.metadata_log import read_metadata_log
from ..directory.given_settings import LIMITS, NO_LIMIT, completed
from ..directory.manager import LogManager
from ..directory.topics_file import Known, TopicDescription, encode_topics
from ..errors import PolicyViolationError, UnknownTopicOrPartitionError, did_you_mean
from ..filesystem.local import LocalFileSystem
from ..filesystem.operations import write_atomically
from ..filesystem.temporary import temporary_folder
from ..format.files import checkpoints, file_names as names
from ..format.files.file_names import TopicPartition
from ..groups.offsets import CommittedOffset, GroupOffsets
from ..recovery.producer_state import Producer
from ..tiers.address import TierAddress, tier_address
from ..tiers.files.filesystem import TOPICS_FILE, TieredFiles
from ..tiers.local_storage import FOLDER, LocalStorageTier
from ..tiers.opening import open_tier
from ..tiers.port import Tier
from ..topic_rules import SINK_PREFIX
from ..transfer.choosing import OnComplete, OnDamage, note_nothing, raise_damage, topics_to_copy
from ..transfer.groups import Groups, commit_groups
from ..transfer.pieces import CopiedPartition
from ..transfer.to_directory import copy_to_directory
from ..writing.log import Log


@contextmanager
def opened_to_restore(
    url: str,
    *,
    keys: Sequence[str] = (),
    topics: Collection[str] | None = None,
    known: LogManager | None = None,
    not_ids: Collection[str] = (),
    staging: str | None = None,
) -> Iterator[LogManager]:
    """Yields the tier at ``url`` as a log directory that can be read only, until the block ends.

    ``topics``: by default all but Kafka's own. ``known``: the log directory that was copied to the tier, or its
    remains; without it, topics have no settings, no retention, and as many partitions as the tier has. ``not_ids``: ids
    of topics in the tier to leave out, such as those that another run has created. ``staging``: a folder for a few
    small files, by default that for temporary files.

    Raises UnknownTopicOrPartitionError for a topic that the tier does not have, and the errors of ``open_tier``.
    """
    address, tier = tier_address(url, None, keys), open_tier(url, keys)
    ids = _ids(tier, {*not_ids}, known)
    files = TieredFiles(address._replace(topic_ids=tuple(each for found in ids.values() for each in found)), tier)
    with LogManager.open("", filesystem=files) as alone:
        there = [each for each in topics_to_copy(alone) if each in ids]
        chosen = there if topics is None else [_checked(tier, each, there) for each in topics]
        found = [_Topic.find(alone, files, known, name) for name in chosen]
    with temporary_folder("commitlog-restore-", staging) as folder:
        _write(folder, found)
        shown = TieredFiles(TierAddress(address.url, folder, address.keys), tier)
        with LogManager.open(folder, filesystem=shown) as manager:
            yield manager


def check_publishable(url: str, keys: Sequence[str] = ()) -> None:
    """Raises PolicyViolationError if brokers would not find segments published to the tier at ``url``."""
    tier = open_tier(url, keys)
    if not isinstance(tier, LocalStorageTier) or tier.folder != FOLDER:
        raise PolicyViolationError(
            f"{url}: no broker serves from here what this program writes: only LocalTieredStorage does, from a "
            f"directory (rsm.config.dir) with a folder {FOLDER}. Restore to a log directory (--log-dir), and publish "
            "its topics to the brokers' tier (commitlog tier publish)"
        )


class AheadGroup(NamedTuple):
    """A group that was ahead of the tier's end."""

    group: str
    partition: TopicPartition
    offset: int  # where it was
    log_end_offset: int  # the log end after the restore


def groups_within(known: LogManager, ends: Mapping[TopicPartition, int]) -> tuple[Groups, list[AheadGroup]]:
    """Returns the offsets of groups for some partitions, none above the log end, and the groups that were ahead.

    The progress of writers with a ``txnAppId`` is left out: it counts batches, and which of them are in the tier is not
    known.
    """
    found: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    ahead = []
    for group, offsets in GroupOffsets(known).groups().items():
        for partition, committed in sorted(offsets.items()):
            end = ends.get(partition)
            if end is None or partition.topic.startswith(SINK_PREFIX):
                continue
            if committed.offset > end:
                ahead.append(AheadGroup(group, partition, committed.offset, end))
            kept = CommittedOffset(min(committed.offset, end), committed.metadata)
            found.setdefault(group, {})[partition] = kept
    return found, ahead


def restore_to_directory(
    source: LogManager,
    target: LogManager,
    on_damage: OnDamage = raise_damage,
    on_complete: OnComplete = note_nothing,
) -> Iterator[CopiedPartition]:
    """Copies all topics of :func:`opened_to_restore` to a log directory; yields each partition when it is durable.

    Open transactions are aborted. Run again, it continues like :func:`copy_to_directory`, and raises the same errors,
    except if all topics are complete, because later steps, such as groups, may not be.
    """
    yield from copy_to_directory(
        source,
        target,
        on_damage=on_damage,
        on_complete=on_complete,
        complete=_abort_open_transactions,
        may_be_done=True,
    )


def restore_groups(known: LogManager, target: LogManager, topics: Collection[str]) -> tuple[Groups, list[AheadGroup]]:
    """Commits the offsets of groups for restored topics, none above the log end; durable on return.

    Returns the result of :func:`groups_within`. Offsets in ``target`` only go forward.
    """
    ends = {each: _end(target, each) for topic in topics for each in target.topic(topic).topic_partitions}
    groups, ahead = groups_within(known, ends)
    commit_groups(groups, target)
    return groups, ahead


def _end(manager: LogManager, partition: TopicPartition) -> int:
    with manager.open_reader(*partition) as reader:
        return reader.log_end_offset


def _abort_open_transactions(log: Log) -> None:
    producers = log.producers
    for producer_id in [*producers.ongoing.values()]:
        found = producers.producers[producer_id]
        log.end_transaction(Producer(producer_id, found.epoch), commit=False, now_ms=found.last_timestamp)
    log.sync()


# What is known


class _Topic(NamedTuple):
    description: TopicDescription  # with an id
    log_starts: dict[TopicPartition, int]
    epochs: dict[TopicPartition, bytes]  # leader-epoch-checkpoint

    @classmethod
    def find(cls, alone: LogManager, files: TieredFiles, known: LogManager | None, name: str) -> _Topic:
        """Returns a topic of the tier ``alone``, completed by ``known``."""
        there, was = alone.topic(name), None if known is None else _described(known, name)
        if was is None or was.topic_id not in (None, there.topic_id):
            known, was = None, replace(there, known=Known.NOTHING)
        count = max(*there.partitions, *was.partitions) + 1
        unknown = {} if was.known is Known.ALL else dict.fromkeys(LIMITS, NO_LIMIT)
        described = TopicDescription(name, tuple(range(count)), {**unknown, **was.configs}, there.topic_id)
        starts = {} if known is None else known.offsets(names.LOG_START_OFFSET_CHECKPOINT)
        views = {each: files.view(alone.path(str(each))) for each in there.topic_partitions}
        found = {each: view for each, view in views.items() if view is not None and view.pieces}
        log_starts = {}
        for each, view in found.items():
            pieces = [*view.pieces.values()]
            first, end = pieces[0].segment.start_offset, pieces[-1].next_offset
            log_starts[each] = min(max(first, starts.get(each, 0)), end)
        return cls(described, log_starts, {each: view.epochs_file() for each, view in found.items()})


def _described(known: LogManager, name: str) -> TopicDescription | None:
    """Returns a topic with its settings and all its partitions, from ``topics.json`` or a broker's own metadata."""
    found = known.find_topic(name)
    if found is None:
        return None
    of_broker = read_metadata_log(known.directory, known.filesystem)
    count = max(of_broker.partitions.get(name, 0), max(found.partitions, default=-1) + 1)
    whole = replace(completed(found, of_broker), partitions=tuple(range(count)), topic_id=topic_id(known, found))
    return whole if count else None


def _ids(tier: Tier, excluded: set[str], known: LogManager | None) -> dict[str, set[str]]:
    """Returns the ids that a topic of the tier may have; only the known one, if the tier has that."""
    found: dict[str, set[str]] = {}
    for each in tier.partitions():
        if each.topic_id not in excluded:
            found.setdefault(each.topic, set()).add(each.topic_id)
    for topic, ids in found.items():
        was = None if known is None else _described(known, topic)
        if was is not None and was.topic_id in ids:
            found[topic] = {was.topic_id}
    return found


def _checked(tier: Tier, topic: str, there: Collection[str]) -> str:
    if topic not in there:
        hint = did_you_mean(topic, there) or f"; it has {', '.join(there) or 'no topics'}"
        raise UnknownTopicOrPartitionError(f"{tier.url}: has no segment of a topic {topic!r}{hint}")
    return topic


def _write(folder: str, topics: Sequence[_Topic]) -> None:
    """Writes the files of a log directory except segments, for the life of this process only."""
    files = LocalFileSystem()
    write_atomically(files, names.join(folder, TOPICS_FILE), encode_topics(each.description for each in topics))
    starts = {place: start for each in topics for place, start in each.log_starts.items()}
    write_atomically(files, names.join(folder, names.LOG_START_OFFSET_CHECKPOINT), checkpoints.encode_offsets(starts))
    for topic in topics:
        assert topic.description.topic_id is not None
        metadata = checkpoints.encode_partition_metadata(checkpoints.decode_id(topic.description.topic_id))
        for place in topic.description.topic_partitions:
            directory = names.join(folder, str(place))
            files.make_directory(directory)
            write_atomically(files, names.join(directory, names.PARTITION_METADATA_FILE), metadata)
            if place in topic.epochs:
                path = names.join(directory, names.LEADER_EPOCH_CHECKPOINT)
                write_atomically(files, path, topic.epochs[place])
