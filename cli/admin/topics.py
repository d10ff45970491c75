"""``commitlog topics``: ``kafka-topics`` on a log directory, with its flags."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import typer

from ... import storage
from ..arguments import parse_pairs
from ..flags import AsJson, DryRun, Layout, LogDir, LogLayout, TopicNames, check_goes_with, only
from ..output import Column, fail, is_watched, print_json, print_table
from ..selecting import matching

COLUMNS = (
    Column("TOPIC"),
    Column("PARTITIONS", is_number=True),
    Column("TOPIC-ID"),
    Column("CONFIGS"),
)

List = Annotated[bool, typer.Option("--list", help="List names, one per line.")]
Describe = Annotated[bool, typer.Option("--describe", help="Show partitions and configs of each topic.")]
Create = Annotated[bool, typer.Option("--create", help="Create --topic.")]
Alter = Annotated[bool, typer.Option("--alter", help="Add partitions to topics.")]
Delete = Annotated[bool, typer.Option("--delete", help="Delete topics with all their records.")]
Partitions = Annotated[
    int | None, typer.Option(help="With --create: how many (default 1); with --alter: the new total.")
]
Config = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="With --create: set this config. Repeatable.")
]
TopicId = Annotated[str | None, typer.Option(help="With --describe: show the topic with this id.")]
IfExists = Annotated[bool, typer.Option("--if-exists", help="Do not fail if the topic does not exist.")]
IfNotExists = Annotated[bool, typer.Option("--if-not-exists", help="Do not fail if the topic exists.")]
ExcludeInternal = Annotated[
    bool, typer.Option("--exclude-internal", help="Leave out internal topics such as __consumer_offsets.")
]
WithOverrides = Annotated[
    bool, typer.Option("--topics-with-overrides", help="Select only topics with configs of their own.")
]
ReplicationFactor = Annotated[int, typer.Option(hidden=True, help="There is one copy, whatever is given.")]


def topics(  # the flags are those of kafka-topics
    *,
    log_dir: LogDir,
    list_topics: List = False,
    describe: Describe = False,
    create: Create = False,
    alter: Alter = False,
    delete: Delete = False,
    topic: TopicNames = None,
    topic_id: TopicId = None,
    partitions: Partitions = None,
    config: Config = None,
    if_exists: IfExists = False,
    if_not_exists: IfNotExists = False,
    exclude_internal: ExcludeInternal = False,
    topics_with_overrides: WithOverrides = False,
    replication_factor: ReplicationFactor = 1,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    layout: Layout = LogLayout.KAFKA,
) -> None:
    """List, describe, create, enlarge and delete topics.

    Listing and describing take no lock, so they are safe on a running broker's directory; changes are refused while the
    broker runs. A broker does not store the configs of topics in its log directory: only configs set here are shown.
    """
    action = only(list=list_topics, describe=describe, create=create, alter=alter, delete=delete)
    if layout.is_0_7:
        _list_0_7(log_dir, topic, is_list=list_topics, as_json=as_json)
        return
    _check_usage(action, topic, topic_id)
    check_goes_with(action, ("--create", "--alter"), partitions=partitions)
    check_goes_with(action, ("--create",), config=config)
    open_log = partial(storage.LogManager.open_or_make, dry_run=dry_run) if create else storage.LogManager.open
    with open_log(log_dir) as manager:
        if create:
            if replication_factor > 1:
                typer.echo(
                    f"commitlog: --replication-factor {replication_factor}: a log directory has one copy of each "
                    "partition; for another copy, use commitlog snapshot or commitlog mirror",
                    err=True,
                )
            asked = _Asked(manager, is_dry=dry_run, as_json=as_json)
            _create(asked, str(topic), partitions, config or [], may_exist=if_not_exists)
            return
        there = manager.topics()
        is_risky = action in ("--alter", "--delete") and topic not in there  # a pattern never selects internal topics
        found = matching(there, topic, exclude_internal=exclude_internal or is_risky, may_be_missing=if_exists)
        if topic_id is not None:
            found = _with_id(manager, found, topic_id, may_be_missing=if_exists)
        if topics_with_overrides:
            found = [each for each in found if each.configs]
        if alter:
            _alter(_Asked(manager, is_dry=dry_run, as_json=as_json), found, partitions)
        elif delete:
            _delete(manager, found, is_dry=dry_run, as_json=as_json)
        elif list_topics:
            _list(found, as_json=as_json)
        else:
            _describe(manager, found, as_json=as_json, briefly=topics_with_overrides)


def _check_usage(action: str, topic: str | None, topic_id: str | None) -> None:
    if topic is None and action in ("--create", "--alter", "--delete"):
        raise typer.BadParameter(f"{action} needs --topic")
    if topic_id is not None and (action != "--describe" or topic is not None):
        raise typer.BadParameter("--topic-id needs --describe, and cannot be used with --topic")


# Showing


def _list_0_7(log_dir: str, topic: str | None, *, is_list: bool, as_json: bool) -> None:
    if not is_list:
        raise typer.BadParameter("--layout kafka-0.7 goes with --list; commitlog describe shows partitions")
    from ...classic.log_0_7.topics import PositionTopics  # noqa: PLC0415

    _list(matching(dict(PositionTopics(log_dir).topics()), topic), as_json=as_json)


def _with_id(
    manager: storage.LogManager, topics: Sequence[storage.TopicDescription], topic_id: str, *, may_be_missing: bool
) -> list[storage.TopicDescription]:
    found = [each for each in topics if storage.topic_id(manager, each) == topic_id]
    if not found and not may_be_missing:
        fail(f"no topic has the id {topic_id!r}; commitlog topics --describe lists ids")
    return found


def _list(found: Sequence[storage.TopicDescription], *, as_json: bool) -> None:
    if as_json:
        print_json({"topic": each.name, "internal": each.name in storage.INTERNAL_TOPICS} for each in found)
        return
    for each in found:
        typer.echo(each.name)


def _describe(
    manager: storage.LogManager, found: Sequence[storage.TopicDescription], *, as_json: bool, briefly: bool
) -> None:
    found = sorted(found, key=lambda each: each.name in storage.INTERNAL_TOPICS)  # the user's topics first
    ids = {each.name: storage.topic_id(manager, each) for each in found}
    if as_json:
        print_json(_json(each, ids[each.name]) for each in found)
    elif is_watched():
        print_table(COLUMNS, [(each.name, len(each.partitions), ids[each.name], _configs(each)) for each in found])
    else:
        for each in found:
            typer.echo(
                f"Topic: {each.name}\tTopicId: {ids[each.name] or '-'}\tPartitionCount: {len(each.partitions)}"
                f"\tReplicationFactor: 1\tConfigs: {_configs(each)}"
            )
            for partition in () if briefly else each.partitions:
                typer.echo(f"\tTopic: {each.name}\tPartition: {partition}")


def _configs(topic: storage.TopicDescription) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(topic.configs.items()))


def _json(topic: storage.TopicDescription, topic_id: str | None) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": topic_id,
        "partitions": list(topic.partitions),
        "configs": dict(topic.configs),
    }


# Changing


class _Asked(NamedTuple):
    """The log to change, and how to report it."""

    manager: storage.LogManager
    is_dry: bool
    as_json: bool

    def report(self, text: str, **row: object) -> None:
        if self.as_json:
            print_json([row])
        else:
            typer.echo(text)


def _create(asked: _Asked, name: str, partitions: int | None, pairs: Sequence[str], *, may_exist: bool) -> None:
    manager = asked.manager
    if name in storage.COORDINATOR_TOPICS and name not in manager.described_topics() and manager.partitions_found(name):
        _describe_internal(asked, name, partitions)
        return
    if may_exist and name in manager.topics():
        return
    configs = parse_pairs("--config", pairs)
    if "." in name or "_" in name:
        typer.echo("warning: metrics cannot distinguish topics whose names differ only in '.' and '_'", err=True)
    storage.check_new_name(name)
    count = 1 if partitions is None else partitions
    if asked.is_dry:
        if manager.find_topic(name) is not None:
            raise storage.TopicExistsError(f"topic {name!r} exists in {manager.directory}")
        manager.check_new_topic(name, configs)
        asked.report(f"would create topic {name}", topic=name, partitions=count, created=False)
        return
    manager.create_topic(name, partitions=count, configs=configs)
    asked.report(f"Created topic {name}.", topic=name, partitions=count, created=True)


def _describe_internal(asked: _Asked, name: str, partitions: int | None) -> None:
    """Records how many partitions an internal topic has on its broker, of which only some may be in the directory.

    Only the broker's metadata has this number. Creates no partition.
    """
    if partitions is None:
        raise typer.BadParameter(f"{name} exists; give the number of its partitions on the broker with --partitions")
    manager = asked.manager
    found = f"that topic {name} has {storage.counted(partitions, 'partition')}, "
    found += f"{len(manager.partitions_found(name))} of them here"
    if asked.is_dry:
        asked.report(f"would record {found}", topic=name, partitions=partitions, recorded=False)
        return
    coordinated: storage.GroupOffsets | storage.TransactionStates = storage.GroupOffsets(manager)
    if name == storage.TRANSACTION_STATE_TOPIC:
        coordinated = storage.TransactionStates(manager)
    coordinated.describe_partitions(partitions)
    asked.report(f"Recorded {found}.", topic=name, partitions=partitions, recorded=True)


def _alter(asked: _Asked, found: Sequence[storage.TopicDescription], partitions: int | None) -> None:
    if partitions is None:
        raise typer.BadParameter("--alter needs --partitions; to alter configs, use commitlog configs")
    for topic in found:
        storage.add_partitions(asked.manager, topic.name, partitions, dry_run=asked.is_dry)
        many = storage.counted(partitions, "partition")
        would = f"would enlarge topic {topic.name} to {many}; it has {len(topic.partitions):,}"
        text = would if asked.is_dry else f"topic {topic.name} has {many}"
        asked.report(text, topic=topic.name, partitions=partitions, altered=not asked.is_dry)


def _delete(
    manager: storage.LogManager, found: Sequence[storage.TopicDescription], *, is_dry: bool, as_json: bool
) -> None:
    for topic in found:
        storage.check_deletable(manager, topic)
        size = storage.topic_size(manager, topic)
        if not is_dry:
            storage.delete_topic(manager, topic.name)
        if as_json:
            print_json([{"topic": topic.name, "bytes": size, "deleted": not is_dry}])
        else:
            did = "would delete" if is_dry else "deleted"
            many = storage.counted(len(topic.partitions), "partition")
            typer.echo(f"{did} topic {topic.name}: {many}, {size:,} bytes")
