"""Brings topics of a tier and the offsets of groups into a running cluster, whose tier it is.

Topics are published as any other log's (:mod:`.publishing`). Groups are committed after the last of them, by the
cluster's own protocol; run again, offsets only go forward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from ...storage import AheadGroup, CommittedOffset, LogManager, ObjectStore, TopicPartition, counted, groups_within
from ..brokers.admin import Admin
from ..brokers.cluster import Cluster
from ..brokers.patience import patiently
from .publishing import Published, publish_topic

Groups = Mapping[str, Mapping[TopicPartition, CommittedOffset]]


class RestoredCluster(NamedTuple):
    """What was brought into a cluster."""

    published: list[Published]
    groups: Groups
    ahead: list[AheadGroup]  # groups that were ahead of what the tier has


def topic_ids(cluster: Cluster) -> set[str]:
    """Returns the ids of the topics of a cluster: what the tier has of them is there already."""
    with Admin(cluster) as admin:
        return admin.ids()


def restore_to_cluster(
    source: LogManager,
    known: LogManager | None,
    store: ObjectStore,
    cluster: Cluster,
    configs: Mapping[str, str],
    *,
    dry_run: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> RestoredCluster:
    """Publishes all topics of ``source`` (``storage.opened_to_restore``) and commits the offsets that groups had.

    ``known``: a log directory with ``__consumer_offsets``. ``configs``, ``dry_run`` and ``tell`` as for
    :func:`publish_topic`, whose errors it raises.
    """
    published = [
        each
        for topic in source.topics()
        for each in publish_topic(source, topic, store, cluster, configs, aborts_open=True, dry_run=dry_run, tell=tell)
    ]
    ends = {each.partition: each.log_end_offset for each in published}
    groups, ahead = ({}, []) if known is None else groups_within(known, ends)
    for group, offsets in groups.items():
        tell(f"commit {counted(len(offsets), 'offset')} of group {group}")
    if groups and not dry_run:
        _commit(cluster, groups)
    return RestoredCluster(published, groups, ahead)


def _commit(cluster: Cluster, groups: Groups) -> None:
    with Admin(cluster) as admin:
        for group, offsets in groups.items():  # a new cluster makes __consumer_offsets at the first request for it
            patiently(partial(admin.commit_offsets, group, offsets))
