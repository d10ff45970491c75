"""Which partitions a run is about, and the settings of each.

What is the same for all partitions is read once, so that ten thousand of them cost no more than their own files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark_commitlog.storage.arguments import parse_names
from pyspark_commitlog.storage.broker_settings import FoundSettings, read_metadata_log
from pyspark_commitlog.storage.errors import CorruptionError, InvalidConfigError
from pyspark_commitlog.storage.filesystem import read_file
from pyspark_commitlog.storage.format import checkpoints, names
from pyspark_commitlog.storage.given_settings import completed, ungiven
from pyspark_commitlog.storage.internal_topics import POLICY_KEY, check_stays_compacted
from pyspark_commitlog.storage.maintenance.settings import Chosen, ConfigOverrides, Partition
from pyspark_commitlog.storage.manager import ROOT_FILE_BYTES_MAX, LogManager, TopicPartition
from pyspark_commitlog.storage.topics_file import Known, TopicDescription
from pyspark_commitlog.storage.verify import CheckpointedOffsets


@dataclass(frozen=True)
class Selection:
    """The partitions a run is about."""

    partitions: tuple[Partition, ...]  # by topic and number
    damage: tuple[CorruptionError, ...]  # of checkpoints at the root


def select_partitions(manager: LogManager, wanted: Sequence[str], overrides: ConfigOverrides) -> Selection:
    """The partitions of the topics ``wanted``, of all where it is empty.

    Each is a name, or a pattern: a regular expression that the whole name matches; or several, separated by commas. A
    topic's name is never taken for a pattern. Of internal topics that are not named, nothing is deleted
    (:attr:`Partition.spared`). Raises UnknownTopicOrPartitionError with the nearest name, InvalidConfigError for a
    setting, no name at all, a pattern that is none or matches nothing, or for an internal topic that is named and to be
    anything but compacted.
    """
    topics = manager.topics()
    chosen = _choose(manager, topics, parse_names("--topics", wanted))
    settings = _Settings(manager, overrides)
    told, damage = _checkpointed(manager)
    holes = manager.holes_of_all()
    partitions = tuple(
        replace(
            of_topic,
            number=number,
            checkpointed=CheckpointedOffsets(*(each.get((name, number)) for each in told)),
            holes=holes((name, number)),
        )
        for name in sorted(chosen)
        for of_topic in [settings.of(topics[name], chosen[name])]
        for number in topics[name].partitions
    )
    return Selection(partitions, damage)


def select_partition(manager: LogManager, topic: str, number: int) -> Partition:
    """One partition, with the settings that a run without any of its own has for it."""
    of_topic = _Settings(manager, ConfigOverrides()).of(manager.topic(topic), Chosen.BY_NAME)
    return replace(of_topic, number=number)


class _Settings:
    """The settings of topics: the run's, ``topics.json``'s, a broker's, each read when first needed."""

    def __init__(self, manager: LogManager, overrides: ConfigOverrides) -> None:
        self._manager = manager
        self._overrides = overrides

    @cached_property
    def _of_broker(self) -> FoundSettings:
        return read_metadata_log(self._manager.directory, self._manager.filesystem)

    def of(self, topic: TopicDescription, chosen: Chosen) -> Partition:
        """The topic as a partition without number. Raises InvalidConfigError."""
        overrides = self._overrides
        if chosen is Chosen.BY_NAME:
            check_stays_compacted(topic.name, overrides.topic)
        topic = completed(topic, overrides.described)
        if topic.known is not Known.ALL:
            topic = completed(topic, self._of_broker)
            overrides = replace(overrides, broker={**self._of_broker.broker, **overrides.broker})
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
    if names.is_topic_name(wanted):
        return [manager.topic(wanted).name]  # which raises
    try:
        pattern = re.compile(wanted)
    except re.error as error:
        raise InvalidConfigError(f"--topics {wanted!r}: neither a topic nor a regular expression: {error}") from None
    found = [name for name in topics if pattern.fullmatch(name)]
    if not found:
        raise InvalidConfigError(f"--topics {wanted!r}: no topic matches; there are {', '.join(topics) or 'none'}")
    return found


def _checkpointed(manager: LogManager) -> tuple[list[dict[TopicPartition, int]], tuple[CorruptionError, ...]]:
    """The checkpoints of the directory, in the order of CheckpointedOffsets; a damaged one says nothing."""
    told: list[dict[TopicPartition, int]] = []
    damage: list[CorruptionError] = []
    for name in names.OFFSET_CHECKPOINTS:
        path = manager.path(name)
        try:
            told.append(checkpoints.decode_offsets(read_file(manager.filesystem, path, ROOT_FILE_BYTES_MAX)))
        except FileNotFoundError:
            told.append({})
        except CorruptionError as error:
            damage.append(error.located(path))
            told.append({})
    return told, tuple(damage)
