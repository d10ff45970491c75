"""``commitlog groups --migrate-offsets``: copies committed offsets from ZooKeeper's nodes to the log, or back.

Consumers of Kafka 0.8 keep offsets in ``/consumers/<group>/offsets``. Running consumers can move their own offsets,
with ``offsets.storage`` and ``dual.commit.enabled``; this is for groups whose consumers do not run. Like them, it keeps
the larger of two offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import typer

from ... import storage
from ...registry import kafka_nodes
from ...registry.opening import open_registry
from ...registry.operations import children_if_any, put
from ...registry.port import Registry
from ..output import Column, fail, nearest_or_all, print_json, print_table

PLACES = ("zookeeper", "log")
MOVED = (
    Column("GROUP", 30),
    Column("TOPIC", 30),
    Column("PARTITION", 10, is_number=True),
    Column("OFFSET", 15, is_number=True),
    Column("BEFORE", is_number=True),
)


class Plan(NamedTuple):
    """The requested migration."""

    groups: Sequence[str] | None  # None: all
    is_to_log: bool
    execute: bool
    as_json: bool


class Moved(NamedTuple):
    """One offset."""

    group: str
    partition: storage.TopicPartition
    offset: int
    before: int | None  # in the target

    @property
    def is_kept(self) -> bool:
        """Whether the target's offset is at least as large."""
        return self.before is not None and self.before >= self.offset


def is_to_log(source: str | None, target: str | None, connect: str | None, *, is_asked: bool) -> bool:
    """Returns whether offsets move to the log. Raises BadParameter for unknown places, or without --migrate-offsets."""
    if not is_asked:
        if source or target or connect:
            raise typer.BadParameter("--from, --to and --zookeeper-connect need --migrate-offsets")
        return False
    if {source, target} != set(PLACES):
        raise typer.BadParameter("--migrate-offsets needs --from zookeeper --to log, or --from log --to zookeeper")
    return target == "log"


def migrate(manager: storage.LogManager, connect: str | None, plan: Plan) -> None:
    """Prints the offsets, and copies them with ``--execute``."""
    if plan.groups is not None and not plan.groups:
        raise typer.BadParameter("give either --group (repeatable) or --all-groups")
    with open_registry(manager.directory, connect) as opened:
        _migrate(manager, opened, plan)


def _migrate(manager: storage.LogManager, opened: Registry, plan: Plan) -> None:
    in_log, in_registry = storage.GroupOffsets(manager), Offsets(opened)
    known = in_registry.groups() if plan.is_to_log else _groups_in_log(in_log)
    names = _chosen(known, plan.groups, "the registry" if plan.is_to_log else manager.directory)
    _check_unused(manager, in_registry, names)
    moved = [each for name in names for each in _planned(manager, in_log, in_registry, name, is_to_log=plan.is_to_log)]
    if plan.execute:
        manager.check_writable()
        ahead = [each for each in moved if not each.is_kept]
        for name in dict.fromkeys(each.group for each in ahead):
            offsets = {each.partition: each.offset for each in ahead if each.group == name}
            if plan.is_to_log:
                in_log.commit(name, {key: storage.CommittedOffset(offset) for key, offset in offsets.items()})
            else:
                for partition, offset in offsets.items():
                    put(opened, kafka_nodes.offset_path(name, *partition), b"%d" % offset)
    else:
        typer.echo("nothing was changed; add --execute to copy these offsets", err=True)
    _show(moved, plan)


def _groups_in_log(offsets: storage.GroupOffsets) -> list[str]:
    return [
        name
        for name, found in offsets.groups().items()
        if any(not topic.startswith(storage.SINK_PREFIX) for topic, _ in found)
    ]


def _chosen(known: Collection[str], asked: Sequence[str] | None, where: str) -> list[str]:
    if asked is None:
        return sorted(known)
    for name in asked:
        if name not in known:
            fail(f"no offsets of group {name!r} in {where}{nearest_or_all(name, list(known), 'groups')}")
    return list(dict.fromkeys(asked))


def _check_unused(manager: storage.LogManager, in_registry: Offsets, names: Sequence[str]) -> None:
    """Exits with 1 if a group has members, in either place: they would commit over the copy."""
    described = {each.name: each for each in storage.GroupLags(manager).groups([])}
    for name in names:
        if in_registry.has_consumers(name) or (name in described and described[name].members):
            fail(
                f"group {name!r} has consumers, which would commit over the copy: stop them first, or let them move by "
                "themselves with offsets.storage and dual.commit.enabled"
            )


def _planned(
    manager: storage.LogManager, in_log: storage.GroupOffsets, in_registry: Offsets, name: str, *, is_to_log: bool
) -> list[Moved]:
    logs = {key: each.offset for key, each in in_log.fetch(name).items()}
    nodes = in_registry.offsets(name)
    source, target = (nodes, logs) if is_to_log else (logs, nodes)
    topics = manager.topics()
    found = []
    for partition, offset in sorted(source.items()):
        if partition.topic.startswith(storage.SINK_PREFIX):
            continue
        if partition.topic not in topics or partition.partition not in topics[partition.topic].partitions:
            typer.echo(f"commitlog: {partition} is not here; its offset of group {name!r} is left out", err=True)
            continue
        found.append(Moved(name, partition, offset, target.get(partition)))
    return found


def _show(moved: Sequence[Moved], plan: Plan) -> None:
    if plan.as_json:
        print_json(
            {
                "group": each.group,
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "offset": each.offset,
                "before": each.before,
                "copied": plan.execute and not each.is_kept,
            }
            for each in moved
        )
        return
    kept = [each for each in moved if each.is_kept]
    for each in kept:
        typer.echo(
            f"commitlog: {each.partition}: offset {each.before} of group {each.group!r} is kept, {each.offset} is not "
            "beyond it",
            err=True,
        )
    ahead = [each for each in moved if not each.is_kept]
    print_table(
        MOVED,
        [(each.group, *each.partition, each.offset, "-" if each.before is None else each.before) for each in ahead],
    )


class Offsets:
    """The offsets in a registry."""

    def __init__(self, opened: Registry) -> None:
        self._opened = opened

    def groups(self) -> list[str]:
        """Returns the groups that have offsets, sorted."""
        return [
            name
            for name in children_if_any(self._opened, kafka_nodes.CONSUMERS)
            if children_if_any(self._opened, kafka_nodes.offsets_path(name))
        ]

    def has_consumers(self, group: str) -> bool:
        """Whether a consumer of the group is registered."""
        return bool(children_if_any(self._opened, kafka_nodes.consumers_path(group)))

    def offsets(self, group: str) -> dict[storage.TopicPartition, int]:
        """Returns a group's offsets. Exits with 1 for those of Kafka 0.7, and for a node that has no number."""
        found = {}
        for topic in children_if_any(self._opened, kafka_nodes.offsets_path(group)):
            folder = f"{kafka_nodes.offsets_path(group)}/{topic}"
            for name in children_if_any(self._opened, folder):
                path = f"{folder}/{name}"
                if not name.isdigit():
                    fail(f"{path}: Kafka 0.7 counts bytes; upgrade its log first (commitlog upgrade)")
                data = self._opened.get(path).data or b""
                if not data.isdigit():
                    fail(f"{path}: {data!r} is no offset; correct or delete the node")
                found[storage.TopicPartition(topic, int(name))] = int(data)
        return found
