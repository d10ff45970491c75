"""The topic a sink writes to: asked for with settings, made where it is missing, never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from pyspark_commitlog.pipeline.options import local_directory
from pyspark_commitlog.storage import InvalidConfigError, LogConfig, LogManager, TopicDescription

# Bytes of records in a batch (a producer's batch.size). Kafka's 16 KiB is for producers that wait for records one by
# one; here whole tables arrive, and batches of this size cost a reader no more memory and a sixteenth of the headers.
BATCH_SIZE = "batch.size"
BATCH_SIZE_BYTES = 256 << 10


@dataclass(frozen=True)
class Target:
    """A topic in a directory, and what was asked of it."""

    directory: str
    topic: str
    partitions: int | None  # None: as they are, one for a new topic
    configs: dict[str, str]  # Kafka's topic settings by name
    batch_bytes: int

    @classmethod
    def parse(cls, topic: str, log_dir: str, partitions: int | None, configs: Mapping[str, str]) -> Target:
        """``configs``: topic settings and ``batch.size``. Raises InvalidConfigError naming the wrong one."""
        own = {name: str(value) for name, value in configs.items() if name != BATCH_SIZE}
        LogConfig.from_mapping(own)
        if partitions is not None and partitions < 1:
            raise InvalidConfigError(f"topic {topic}: a topic has at least one partition, not {partitions}")
        return cls(local_directory(log_dir), topic, partitions, own, _batch_bytes(configs))

    def prepare(self, manager: LogManager) -> TopicDescription:
        """The topic as it is, or newly made; nothing is written where anything is wrong.

        Raises TopicExistsError where it has other settings than asked, LogDirLockedError where a broker runs on it.
        """
        topic = manager.ensure_topic(self.topic, partitions=self.partitions, configs=self.configs)
        manager.check_writable()
        return topic


@cache
def shared_manager(directory: str, _topic_id: str | None) -> LogManager:
    """The manager this process keeps for ``directory``; for tasks, which come to a worker one after the other.

    Opening a log to write means reading its tail, so it stays open as long as the process. The topic's id is there to
    tell a topic from another of the same name that was made after the first was deleted.
    """
    return LogManager.open(directory)


def _batch_bytes(configs: Mapping[str, str]) -> int:
    text = str(configs.get(BATCH_SIZE, BATCH_SIZE_BYTES))
    if not text.isdecimal() or int(text) == 0:
        raise InvalidConfigError(f"{BATCH_SIZE} = {text!r}: must be a whole number of bytes, at least 1")
    return int(text)
