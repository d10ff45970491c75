"""Selects the partitions that a run processes, and finds the settings of each.

Data that all partitions share is read once, so that each of ten thousand costs only its own files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..directory.broker_settings.found import FoundSettings
from ..directory.broker_settings.metadata_log import read_metadata_log
from ..directory.given_settings import completed, ungiven
from ..directory.log_directory import ROOT_FILE_BYTES_MAX
from ..directory.manager import LogManager
from ..directory.protected_topics import POLICY_KEY, check_stays_compacted
from ..directory.topics_file import Known, TopicDescription
from ..errors import CorruptionError, InvalidConfigError, MissingSegmentError
from ..filesystem.operations import read_file
from ..filesystem.port import MadeFileSystem
from ..format.files import checkpoints, file_names
from ..format.files.file_names import TopicPartition
from ..text import parse_names
from ..verify.log import CheckpointedOffsets
from .run import Chosen, ConfigOverrides, Partition


@dataclass(frozen=True)
class Selection:
    """The selected partitions, and damage found while selecting them."""

    partitions: tuple[Partition, ...]  # by topic and number
    damage: tuple[CorruptionError, ...]  # of checkpoints at the root
    unfinished: tuple[CorruptionError, ...] = ()  # stopped copies of missing topics; if all are selected


def select_partitions(manager: LogManager, wanted: Sequence[str], overrides: ConfigOverrides) -> Selection:
    """Returns the partitions of the topics in ``wanted``; of all topics if ``wanted`` is empty.

    Each item is a name or a pattern, a regular expression that must match a whole name; or several, separated by
    commas. The name of an existing topic is never read as a pattern. Nothing is deleted from internal topics that are
    not named (:attr:`Partition.spared`).

    Raises UnknownTopicOrPartitionError with the nearest name. Raises InvalidConfigError for a wrong setting, an empty
    name, an invalid pattern or one without a match, and for an internal topic that is named with any cleanup policy
    other than compaction.
    """
    topics = manager.topics()
    chosen = _choose(manager, topics, parse_names("--topics", wanted))
    settings = _Settings(manager, overrides)
    partitions = [
        replace(of_topic, number=number)
        for name in sorted(chosen)
        for of_topic in [settings.of(topics[name], chosen[name])]
        for number in topics[name].partitions
    ]
    unfinished = () if wanted else tuple(_unfinished(manager, topics))
    return replace(_with_checkpoints(manager, partitions), unfinished=unfinished)


def _unfinished(manager: LogManager, topics: Iterable[str]) -> Iterator[CorruptionError]:
    """Yields an error for each directory of an unfinished copy whose topic does not exist."""
    for name in [] if isinstance(manager.filesystem, MadeFileSystem) else manager.filesystem.list(manager.directory):
        number = name.removesuffix(file_names.UNFINISHED).rpartition("-")[2]
        is_one = name.endswith(file_names.UNFINISHED) and number.isascii() and number.isdigit()
        if is_one and not any(file_names.is_unfinished_directory(name, topic) for topic in topics):
            reason = "a copy to here ended before it made the topic: run it again, or remove this directory"
            yield MissingSegmentError(reason, path=manager.path(name))


def with_checkpoints(manager: LogManager, partitions: Sequence[Partition]) -> tuple[Partition, ...]:
    """Returns the partitions with their entries in the checkpoints as they are now."""
    return _with_checkpoints(manager, partitions).partitions


def _with_checkpoints(manager: LogManager, partitions: Sequence[Partition]) -> Selection:
    checkpointed, damage = _checkpointed(manager)
    holes = manager.holes_of_all()
    found = (
        replace(
            each,
            checkpointed=CheckpointedOffsets(*(offsets.get(each.key) for offsets in checkpointed)),
            holes=holes(each.key),
        )
        for each in partitions
    )
    return Selection(tuple(found), damage)


def select_partition(manager: LogManager, topic: str, number: int) -> Partition:
    """Returns one partition, with the settings that a run without overrides uses for it."""
    of_topic = _Settings(manager, ConfigOverrides()).of(manager.topic(topic), Chosen.BY_NAME)
    return replace(of_topic, number=number)


class _Settings:
    """The settings of topics, from the run, ``topics.json`` and the broker; each source is read when first needed."""

    def __init__(self, manager: LogManager, overrides: ConfigOverrides) -> None:
        self._manager = manager
        self._overrides = overrides

    @cached_property
    def _of_broker(self) -> FoundSettings:
        return read_metadata_log(self._manager.directory, self._manager.filesystem)

    def of(self, topic: TopicDescription, chosen: Chosen) -> Partition:
        """Returns a topic's settings as a partition with number -1. Raises InvalidConfigError."""
        overrides = self._overrides
        if chosen is Chosen.BY_NAME:
            check_stays_compacted(topic.name, overrides.topic)
        topic = completed(topic, overrides.described)
        found: Mapping[str, str] = {}
        if topic.known is not Known.ALL:
            topic = completed(topic, self._of_broker)
            found = self._of_broker.broker
        overrides = overrides.above({**found, **topic.broker})
        missing = ungiven(topic, overrides.topic, overrides.broker)
        return Partition(
            topic.name,
            -1,
            overrides.config_of(topic),
            chosen=chosen,
            is_ours=topic.known is Known.ALL,
            ungiven=missing,
            has_own_policy=POLICY_KEY not in ungiven(topic, {}, overrides.broker),
        )


def _choose(manager: LogManager, topics: Mapping[str, TopicDescription], asked: Sequence[str]) -> Mapping[str, Chosen]:
    if not asked:
        return dict.fromkeys(topics, Chosen.WITH_ALL)
    matched = {name: Chosen.BY_PATTERN for each in asked for name in _matching(manager, topics, each)}
    return matched | {name: Chosen.BY_NAME for name in asked if name in topics}


def _matching(manager: LogManager, topics: Mapping[str, TopicDescription], wanted: str) -> list[str]:
    if wanted in topics:
        return [wanted]
    if file_names.is_topic_name(wanted):
        return [manager.topic(wanted).name]  # raises
    try:
        pattern = re.compile(wanted)
    except re.error as error:
        raise InvalidConfigError(f"--topics {wanted!r}: neither a topic nor a regular expression: {error}") from None
    found = [name for name in topics if pattern.fullmatch(name)]
    if not found:
        raise InvalidConfigError(f"--topics {wanted!r}: no topic matches; there are {', '.join(topics) or 'none'}")
    return found


def _checkpointed(manager: LogManager) -> tuple[list[dict[TopicPartition, int]], tuple[CorruptionError, ...]]:
    """Returns the directory's checkpoints, in the order of CheckpointedOffsets (a damaged one empty), and damage."""
    checkpointed: list[dict[TopicPartition, int]] = []
    damage: list[CorruptionError] = []
    for name in file_names.OFFSET_CHECKPOINTS:
        path = manager.path(name)
        try:
            checkpointed.append(checkpoints.decode_offsets(read_file(manager.filesystem, path, ROOT_FILE_BYTES_MAX)))
        except FileNotFoundError:
            checkpointed.append({})
        except CorruptionError as error:
            damage.append(error.located(path))
            checkpointed.append({})
    return checkpointed, tuple(damage)
