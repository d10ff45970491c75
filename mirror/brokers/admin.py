"""Admin: topics of a cluster and their settings, and offsets of groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

from ...storage import CommittedOffset, LogConfig, TopicPartition
from ..errors import TopicThereError
from .cluster import Cluster, masking_errors
from .connections import id_text
from .kafka_python import (
    ConfigFilterType,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    KafkaError,
    KafkaPartition,
    NoError,
    OffsetAndMetadata,
    TopicAlreadyExistsError,
)


class KafkaTopic(NamedTuple):
    """A topic as brokers describe it."""

    name: str
    id: str  # encoded as in partition.metadata
    partitions: int
    configs: dict[str, str]  # the topic's effective settings, if they differ from Kafka's defaults


class Admin:
    """Reads and creates topics of a cluster, and sets offsets of groups; a context manager.

    Methods raise RetriableError if a failed request may succeed later, and MirrorError if it cannot.
    """

    def __init__(self, cluster: Cluster) -> None:
        """Connects to the cluster. Raises RetriableError if no broker answers."""
        self._cluster = cluster
        self._client = masking_errors(cluster, lambda: KafkaAdminClient(**cluster.settings))

    def names(self) -> list[str]:
        """Returns the names of all topics except internal ones, sorted."""
        topics = masking_errors(self._cluster, self._client.describe_topics)
        return sorted(each["name"] for each in topics if not each["is_internal"])

    def ids(self) -> set[str]:
        """Returns the ids of all topics, encoded as in partition.metadata."""
        topics = masking_errors(self._cluster, self._client.describe_topics)
        return {found for each in topics if (found := id_text(each["topic_id"])) is not None}

    def topic(self, name: str) -> KafkaTopic | None:
        """Returns a topic, or None if it does not exist."""
        (found,) = masking_errors(self._cluster, lambda: self._client.describe_topics([name]))
        if not found["partitions"]:
            return None
        return KafkaTopic(name, id_text(found["topic_id"]) or "", len(found["partitions"]), self._configs(name))

    def _configs(self, name: str) -> dict[str, str]:
        resource = [ConfigResource(ConfigResourceType.TOPIC, name)]
        found = masking_errors(
            self._cluster, lambda: self._client.describe_configs(resource, config_filter=ConfigFilterType.ALL)
        )
        defaults = LogConfig().to_mapping()
        values = {key: config["value"] for key, config in found["topic"][name].items() if key in defaults}
        in_force = LogConfig.from_mapping(values).to_mapping()
        return {key: value for key, value in in_force.items() if value != defaults[key]}

    def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Creates a topic with the brokers' replication factor, and waits until its partitions have leaders.

        Raises TopicThereError if it exists.
        """
        wanted = {name: {"num_partitions": partitions, "configs": dict(configs)}}

        def create() -> None:
            try:
                self._client.create_topics(wanted, wait_for_metadata=True)
            except TopicAlreadyExistsError as error:
                raise TopicThereError(f"topic {name!r} already exists at {self._cluster}") from error

        masking_errors(self._cluster, create)

    def grow(self, name: str, partitions: int) -> None:
        """Adds partitions to a topic, so that it has ``partitions``."""
        masking_errors(self._cluster, lambda: self._client.create_partitions({name: partitions}))

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> int:
        """Commits those offsets of a group that are above the ones that it has; returns how many these are.

        Raises RetriableError, also while the group's coordinator starts, and MirrorError if the group has members.
        """
        there = masking_errors(self._cluster, lambda: self._client.list_group_offsets([group])).get(group, {})
        kept = {(each.topic, each.partition): one.offset for each, one in there.items()}
        ahead = {
            KafkaPartition(*each): OffsetAndMetadata(one.offset, one.metadata, -1)
            for each, one in offsets.items()
            if one.offset > kept.get((each.topic, each.partition), -1)
        }

        def commit() -> None:
            for place, kind in self._client.alter_group_offsets(group, ahead).items():
                if kind is not NoError:
                    raise _refusal(kind, f"group {group!r}, {place.topic}-{place.partition}")

        masking_errors(self._cluster, commit)
        return len(ahead)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._client.close()


def _refusal(kind: type[KafkaError], where: str) -> KafkaError:
    return kind(f"{where}: the offset was not committed: {kind.__name__}")
