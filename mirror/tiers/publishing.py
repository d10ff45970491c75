"""Publishes a topic of a log to a running cluster: brokers then serve its segments, which they never wrote.

Steps, each of which a second run finds done:

1. the topic is created in the cluster, with tiered storage and without retention;
2. each segment is written to the tier under the topic's id there, and read back;
3. ``__remote_log_metadata`` gets two records of it: that its copy began, and that it has ended.

Then the broker is stopped, and its directory prepared (``storage.prepare_directory``). Until that is done, consumers
see an empty topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ...storage import (
    LogConfig,
    LogManager,
    ObjectStore,
    PolicyViolationError,
    PublishedPartition,
    SegmentMetadata,
    SegmentState,
    SegmentUpdate,
    TopicIdPartition,
    TopicPartition,
    counted,
    plan_publishing,
)
from ..brokers.admin import Admin, KafkaTopic
from ..brokers.cluster import Cluster
from ..brokers.connections import Connections
from ..brokers.requests import EARLIEST, LATEST
from ..errors import MirrorError
from .metadata import ClusterMetadata

TIERED = "remote.storage.enable"
_FOREVER = {"retention.ms": "-1", "retention.bytes": "-1"}
_HERE_ALONE = ("segment.bytes", "segment.index.bytes")  # of a log with small segments: brokers have bounds of their own
NEW = "<new>"  # stands for an id that the cluster will choose


class Published(NamedTuple):
    """A partition that was published."""

    partition: TopicPartition
    topic_id: str
    log_start_offset: int
    log_end_offset: int
    segments: int  # in the tier
    written: int  # of these, by this run


def publish_topic(
    manager: LogManager,
    topic: str,
    store: ObjectStore,
    cluster: Cluster,
    configs: Mapping[str, str],
    *,
    aborts_open: bool = False,
    dry_run: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Published]:
    """Publishes all partitions of a topic; returns them when the brokers have all records of them.

    ``configs``: of the topic in the cluster, over those that it has here. ``aborts_open``: open transactions are
    aborted there, and otherwise refused. ``tell`` gets each step as it begins. With ``dry_run``, changes nothing, and
    returns what would be there, without an id. Raises PolicyViolationError if the cluster would lose or show wrong
    records, MirrorError if it refuses, and the errors of the tier's store.
    """
    wanted = _configs(manager, topic, configs)
    planned = plan_publishing(manager, topic, int(wanted["retention.ms"]), aborts_open=aborts_open)
    with Admin(cluster) as admin:
        found = _checked(cluster, admin.topic(topic), len(planned))
        if found is None:
            settings = ", ".join(f"{key}={value}" for key, value in sorted(wanted.items()))
            tell(f"create topic {topic} with {counted(len(planned), 'partition')} at {cluster}: {settings}")
            if not dry_run:
                admin.create(topic, len(planned), wanted)
                found = admin.topic(topic)
    for each in planned:
        aborts = f", abort {counted(each.aborts, 'open transaction')}" if each.aborts else ""
        tell(
            f"write {each.partition}, offsets {each.log_start_offset} to {each.end_offset}, {each.size:,} bytes, "
            f"to {store.url} under id {NEW if found is None else found.id}{aborts}, and tell the brokers"
        )
    if dry_run or found is None:
        return [Published(each.partition, NEW, each.log_start_offset, each.end_offset, 0, 0) for each in planned]
    with ClusterMetadata(cluster) as metadata:
        return [_publish(each, store, metadata, found.id) for each in planned]


def _configs(manager: LogManager, topic: str, given: Mapping[str, str]) -> dict[str, str]:
    own = {key: value for key, value in manager.topic(topic).configs.items() if key not in _HERE_ALONE}
    known = {key: value for key, value in LogConfig.of_kafka(own).items() if not key.startswith("local.retention")}
    return {**known, **_FOREVER, **given, TIERED: "true"}


def _checked(cluster: Cluster, topic: KafkaTopic | None, partitions: int) -> KafkaTopic | None:
    """Returns the topic in the cluster. Raises PolicyViolationError if it is not one that this could have created."""
    if topic is None:
        return None
    where = f"topic {topic.name!r} is at {cluster} already"
    if topic.partitions != partitions:
        raise PolicyViolationError(f"{where} with {topic.partitions} partitions, but it has {partitions} here")
    if topic.configs.get(TIERED) != "true":
        raise PolicyViolationError(f"{where} without {TIERED}=true: delete it there, or publish another topic")
    places = [TopicPartition(topic.name, number) for number in range(partitions)]
    connections = Connections(cluster)
    try:
        starts, ends = (connections.offsets(places, at) for at in (EARLIEST, LATEST))
    finally:
        connections.close()
    for place in places:
        if (starts[place], ends[place]) != (0, 0):
            raise PolicyViolationError(
                f"{where}, and its partition {place.partition} has offsets {starts[place]} to {ends[place]}: it was "
                "published and is served, or has records of its own"
            )
    return topic


def _publish(planned: PublishedPartition, store: ObjectStore, metadata: ClusterMetadata, topic_id: str) -> Published:
    partition, written, count = planned.partition, 0, 0
    target = TopicIdPartition(partition.topic, topic_id, partition.partition)
    known = metadata.segments(target)
    for segment, is_known in planned.segments(store, topic_id, known):
        count += 1
        if records := _records(segment, known.get(segment.segment_id) if is_known else None):
            metadata.append(records)
            written += 1
    _check_known(metadata, target, count)
    return Published(partition, topic_id, planned.log_start_offset, planned.end_offset, count, written)


def _records(segment: SegmentMetadata, known: SegmentMetadata | None) -> list[SegmentMetadata | SegmentUpdate]:
    """Returns the records that the brokers lack. A first record of any other state would end their reader."""
    if known is not None and known.state is not SegmentState.COPY_SEGMENT_STARTED:
        return []
    begun = replace(segment, state=SegmentState.COPY_SEGMENT_STARTED)
    ended = SegmentUpdate(
        segment.partition, segment.segment_id, segment.broker_id, segment.event_timestamp_ms, segment.state
    )
    return [ended] if known is not None else [begun, ended]


def _check_known(metadata: ClusterMetadata, target: TopicIdPartition, count: int) -> None:
    found = [each.state for each in metadata.segments(target).values()]
    if len(found) != count or set(found) - {SegmentState.COPY_SEGMENT_FINISHED}:
        raise MirrorError(
            f"the brokers' metadata has {len(found)} segments of {target.topic}-{target.partition}, but {count} were "
            "written: has the topic a retention there? Run this again"
        )
