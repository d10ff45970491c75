"""Topics: the topics of the log, as clients see them; read again when files or commits have changed."""

from __future__ import annotations

import base64
import logging
from bisect import bisect_left
from collections.abc import Callable, Mapping
from threading import Lock
from typing import NamedTuple
from uuid import UUID

from ...storage import (
    COORDINATOR_TOPICS,
    INTERNAL_TOPICS,
    TOPICS_FILE,
    LogManager,
    LogStoreError,
    TopicDescription,
    TopicPartition,
    topic_id,
)
from ..consumer_groups.partitions import Catalog, Topic, text_of

logger = logging.getLogger(__name__)


class TopicInfo(NamedTuple):
    """One topic."""

    name: str
    id: UUID | None  # None for a topic from before Kafka 2.8
    partitions: tuple[int, ...]
    is_internal: bool

    def has(self, partition: int) -> bool:
        """Whether the topic has a partition; ``partitions`` may be many, and are sorted."""
        at = bisect_left(self.partitions, partition)
        return at < len(self.partitions) and self.partitions[at] == partition


class Topics:
    """The topics of one log. For any thread."""

    def __init__(self, manager: LogManager) -> None:
        """``manager``: used only here. Raises CorruptionError if ``topics.json`` is damaged."""
        self._manager = manager
        self._hidden = () if manager.bucket is None else COORDINATOR_TOPICS  # commits have what they would hold
        self._lock = Lock()  # Guards the topics that were read; held while files are read.
        self._topics: Mapping[str, TopicInfo] = {}
        self._names: Mapping[UUID, str] = {}
        self._catalog: Catalog | None = None
        self._seen = self.changes
        self._read()

    def all(self) -> Mapping[str, TopicInfo]:
        """Returns all topics by name; while the files cannot be read, the topics of the last read."""
        with self._lock:
            self._look()
            return self._topics

    def find(self, name: str) -> TopicInfo | None:
        """Returns a topic; None if there is none of the name."""
        return self.all().get(name)

    def catalog(self) -> Catalog:
        """Returns the topics that have an id, for groups of Kafka 4; the same object until topics change."""
        with self._lock:
            self._look()
            if self._catalog is None:
                known = (each for each in self._topics.values() if each.id is not None)
                self._catalog = {each.name: Topic(each.name, text_of(each.id), each.partitions) for each in known}
            return self._catalog

    def last(self, name: str) -> TopicInfo | None:
        """Like :meth:`find`, but does not read the files again if the topic existed at the last read."""
        found = self._topics.get(name)
        return self.find(name) if found is None else found

    def existence(self) -> Callable[[TopicPartition], bool]:
        """Returns a function that tests whether a partition exists; all its calls share one check of the files."""
        topics = self.all()

        def exists(partition: TopicPartition) -> bool:
            topic = topics.get(partition.topic)
            return topic is not None and topic.has(partition.partition)

        return exists

    def name_of(self, topic: UUID) -> str | None:
        """Returns the name of the topic with an id; None if there is none."""
        with self._lock:
            self._look()
            return self._names.get(topic)

    def last_name_of(self, topic: UUID) -> str | None:
        """Like :meth:`name_of`, but does not read the files again if the topic existed at the last read."""
        found = self._names.get(topic)
        return self.name_of(topic) if found is None else found

    @property
    def known(self) -> Mapping[str, TopicInfo]:
        """The topics of the last read; another object after each."""
        return self._topics

    @property
    def changes(self) -> object:
        """A value that changes whenever the topics may have changed."""
        log = self._manager.bucket
        if log is not None:
            return log.state.topics_changed
        status, manager = self._manager.filesystem.status, self._manager
        return status(manager.path(TOPICS_FILE)), status(manager.directory)

    def close(self) -> None:
        """Closes the manager."""
        self._manager.close()

    def _look(self) -> None:
        try:
            seen = self.changes
            if seen == self._seen:
                return
            self._seen = seen  # even if the read fails, so that it is tried again only when the files change
            self._read()
        except (LogStoreError, OSError) as error:
            logger.error("%s; clients see the topics of the last successful read", error)

    def _read(self) -> None:
        found = {name: topic for name, topic in self._manager.topics().items() if name not in self._hidden}
        self._topics = {name: self._info(name, topic) for name, topic in found.items()}
        self._catalog = None
        self._names = {topic.id: name for name, topic in self._topics.items() if topic.id is not None}

    def _info(self, name: str, topic: TopicDescription) -> TopicInfo:
        id_, partitions = _uuid(topic_id(self._manager, topic)), tuple(sorted(topic.partitions))
        return TopicInfo(name, id_, partitions, name in INTERNAL_TOPICS)


def _uuid(encoded: str | None) -> UUID | None:
    return None if encoded is None else UUID(bytes=base64.urlsafe_b64decode(encoded + "=="))
