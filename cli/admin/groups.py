"""``commitlog groups``: ``kafka-consumer-groups`` on a log directory, with its flags and columns.

A streaming query with ``kafka.group.id`` commits its position for that group. A sink stores its progress as offsets of
the group named by ``txnAppId``, in topics ``__sink.<topic>``; these are shown without lag.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import typer

from ... import storage
from ..flags import AsJson, LogDir, check_goes_with, only
from ..output import Failures, fail, nearest_or_all, print_json, print_table
from . import resetting
from .group_flags import (
    AllGroups,
    AllTopics,
    Asked,
    ByDuration,
    Delete,
    DeleteOffsets,
    Describe,
    DryRun,
    Execute,
    Export,
    From,
    FromFile,
    Group,
    List,
    Members,
    MigrateOffsets,
    Offsets,
    ResetOffsets,
    ShiftBy,
    State,
    To,
    ToCurrent,
    ToDatetime,
    ToEarliest,
    ToLatest,
    ToOffset,
    Topic,
    Type,
    Verbose,
    ZooKeeperConnect,
)
from .group_tables import (
    NEW_OFFSETS,
    STATES_KNOWN,
    TYPES_KNOWN,
    chosen_among,
    show_list,
    show_members,
    show_offsets,
    show_share_offsets,
    show_states,
)

HOLDER = "commitlog groups"


def groups(  # the flags are those of kafka-consumer-groups
    *,
    log_dir: LogDir,
    list_groups: List = False,
    describe: Describe = False,
    delete: Delete = False,
    delete_offsets: DeleteOffsets = False,
    reset_offsets: ResetOffsets = False,
    migrate_offsets: MigrateOffsets = False,
    source: From = None,
    target_place: To = None,
    zookeeper_connect: ZooKeeperConnect = None,
    group: Group = None,
    all_groups: AllGroups = False,
    state: State = None,
    types: Type = None,
    offsets: Offsets = False,
    members: Members = False,
    verbose: Verbose = False,
    topic: Topic = None,
    all_topics: AllTopics = False,
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    to_current: ToCurrent = False,
    to_offset: ToOffset = None,
    to_datetime: ToDatetime = None,
    by_duration: ByDuration = None,
    shift_by: ShiftBy = None,
    from_file: FromFile = None,
    export: Export = False,
    dry_run: DryRun = False,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Show the lag of consumer groups, and change their offsets.

    Listing and describing take no lock, so they are safe on a running broker's directory. A streaming query resumes
    from its checkpoint, whatever its group committed; a broker's consumer resumes from the committed offsets.
    """
    action = only(
        list=list_groups,
        describe=describe,
        delete=delete,
        delete_offsets=delete_offsets,
        reset_offsets=reset_offsets,
        migrate_offsets=migrate_offsets,
    )
    from . import migrating  # noqa: PLC0415  loads what reads a registry

    is_to_log = migrating.is_to_log(source, target_place, zookeeper_connect, is_asked=migrate_offsets)
    asked = Asked(group or [], all_groups, topic or [], all_topics, state, types, members, verbose, execute, export)
    asked.check(action, offsets=offsets, is_dry=dry_run, as_json=as_json)
    scenarios: dict[str, Any] = {
        "to_earliest": to_earliest,
        "to_latest": to_latest,
        "to_current": to_current,
        "to_offset": to_offset,
        "to_datetime": to_datetime,
        "by_duration": by_duration,
        "shift_by": shift_by,
        "from_file": from_file,
    }
    target = _target(action, scenarios, export=export)
    with storage.LogManager.open(log_dir) as manager:
        if migrate_offsets:
            migrating.migrate(manager, zookeeper_connect, migrating.Plan(asked.names, is_to_log, execute, as_json))
        else:
            _Groups(manager, as_json=as_json, is_dry=dry_run).run(action, asked, target)


def _target(action: str, scenarios: dict[str, Any], *, export: bool) -> resetting.Target | Path | None:
    """Returns what gives the new offsets; None for another action than --reset-offsets. Raises BadParameter."""
    check_goes_with(action, ("--reset-offsets",), **scenarios, export=export)
    return resetting.target(**scenarios) if action == "--reset-offsets" else None


class _Groups:
    """Runs one action on the groups of a log directory."""

    def __init__(self, manager: storage.LogManager, *, as_json: bool, is_dry: bool) -> None:
        self._manager = manager
        self._as_json = as_json
        self._is_dry = is_dry
        self._lags = storage.GroupLags(manager)
        self._offsets = storage.GroupOffsets(manager)
        self._failures = Failures()
        self._known = {each.name: each for each in self._lags.groups(self._failures.errors)}

    def run(self, action: str, asked: Asked, target: resetting.Target | Path | None) -> None:
        """Runs the action. Warns on stderr of groups that are not shown: their partition is missing or damaged."""
        missing = self._lags.missing() if action == "--list" or asked.all_groups else None
        if missing is not None:
            typer.echo(f"commitlog: {missing}; groups stored there are not shown", err=True)
        self._run(action, asked, target)
        if action in ("--list", "--describe"):
            self._failures.errors += self._offsets.unreadable()
        self._failures.end()

    def _run(self, action: str, asked: Asked, target: resetting.Target | Path | None) -> None:
        if action == "--list":
            self._list(asked)
            return
        names = self._chosen(asked, may_be_new=target is not None, may_be_missing=action == "--describe")
        if target is not None:
            self._reset(names, target, asked)
        elif action == "--delete-offsets":
            self._delete_offsets(names, asked.topics)
        elif action == "--delete":
            self._delete(names)
        else:
            self._describe(names, asked)

    def _chosen(self, asked: Asked, *, may_be_new: bool, may_be_missing: bool) -> list[str]:
        """Returns the names of the selected groups. Exits with 1 for an unknown group, unless ``may_be_new``.

        ``may_be_missing``: a group whose partition cannot be read is added to the failures, instead of raising.
        """
        if bool(asked.groups) == asked.all_groups:
            raise typer.BadParameter("give either --group (repeatable) or --all-groups")
        if asked.all_groups and not self._known:
            typer.echo(f"commitlog: there are no groups in {self._manager.directory}", err=True)
        names = list(self._known if asked.all_groups else dict.fromkeys(asked.groups))
        unknown = [] if may_be_new else [name for name in names if name not in self._known]
        for name in unknown:
            try:
                self._offsets.fetch(name)
            except (storage.UnknownTopicOrPartitionError, storage.CorruptionError) as error:
                if not may_be_missing:
                    raise
                if not isinstance(error, storage.CorruptionError):  # damage is among the failures already
                    self._failures.errors.append(error)
                names.remove(name)
            else:
                fail(f"no group {name!r} in {self._manager.directory}{nearest_or_all(name, self._known, 'groups')}")
        return names

    def _list(self, asked: Asked) -> None:
        states = chosen_among("--state", STATES_KNOWN, asked.states)
        types = chosen_among("--type", TYPES_KNOWN, asked.types)
        found = [each for each in self._known.values() if each.state in states and each.type in types]
        with_type, with_state = asked.types is not None, asked.states is not None
        show_list(found, with_type=with_type, with_state=with_state, as_json=self._as_json)

    def _describe(self, names: Iterable[str], asked: Asked) -> None:
        found = [self._known[name] for name in names]
        if asked.states is not None:
            show_states(found, as_json=self._as_json)
        elif asked.members:
            show_members(found, is_verbose=asked.verbose, as_json=self._as_json)
        else:
            errors = self._failures.errors
            shares = [each for each in found if each.type == "Share"]
            others = (self._lags.lags(each, errors) for each in found if each.type != "Share")
            show_offsets(others, as_json=self._as_json)
            show_share_offsets((self._lags.share_lags(each, errors) for each in shares), as_json=self._as_json)

    # Changing

    def _delete(self, names: Sequence[str]) -> None:
        for name in names:
            if not self._is_dry:
                with self._unused(name):
                    self._offsets.delete(name)
        self._print_deleted([{"group": name} for name in names], f"groups {', '.join(map(repr, names))}")

    def _delete_offsets(self, names: Sequence[str], topics: Sequence[str]) -> None:
        if len(names) != 1 or not topics:
            raise typer.BadParameter("--delete-offsets needs exactly one --group, and --topic")
        name = names[0]
        committed = list(self._known[name].offsets)
        partitions = [each for text in topics for each in resetting.partitions_of(text, committed, "committed offsets")]
        if not self._is_dry:
            with self._unused(name):
                self._offsets.delete(name, partitions)
        rows = [{"group": name, "topic": topic, "partition": partition} for topic, partition in partitions]
        self._print_deleted(rows, f"offsets of group {name!r}: {_listed(partitions)}")

    def _print_deleted(self, rows: Sequence[dict[str, Any]], what: str) -> None:
        if self._as_json:
            print_json({**row, "deleted": not self._is_dry} for row in rows)
        else:
            typer.echo(f"{'would delete' if self._is_dry else 'deleted'} {what}")

    def _reset(self, names: Sequence[str], target: resetting.Target | Path, asked: Asked) -> None:
        """Commits the new offsets with ``--execute``, and prints them.

        Computes the offsets of all groups first, so errors are raised before anything changes.
        """
        is_by_file = isinstance(target, Path)
        if not is_by_file and bool(asked.topics) == asked.all_topics:
            raise typer.BadParameter("--reset-offsets needs either --topic (repeatable) or --all-topics")
        if is_by_file and (asked.topics or asked.all_topics):
            raise typer.BadParameter("--from-file names the topics: leave out --topic and --all-topics")
        plans = (
            self._plans_in(target, names)
            if isinstance(target, Path)
            else {name: dict(self._plan(name, target, asked.topics)) for name in names}
        )
        self._check_here(list(plans), is_fatal=asked.execute)
        if asked.execute:
            self._manager.check_writable()
            for name, plan in plans.items():
                with self._unused(name):
                    self._offsets.commit(name, self._to_commit(name, plan))
        else:
            typer.echo("nothing was changed; add --execute to commit these offsets", err=True)
        rows = [(name, *partition, new) for name, plan in plans.items() for partition, new in plan.items()]
        self._show_reset(rows, asked, with_group=len(asked.groups) != 1)

    def _to_commit(
        self, name: str, plan: Mapping[storage.TopicPartition, int]
    ) -> dict[storage.TopicPartition, storage.CommittedOffset]:
        """Returns the new offsets, with the topic's id where the group's consumers had committed one.

        Kafka 4 ignores an offset whose id is not the topic's.
        """
        before, topics = self._committed(name), self._manager.topics()
        with_id = {partition for partition in plan if partition in before and before[partition].topic_id is not None}
        ids = {topic: storage.topic_id(self._manager, topics[topic]) for topic, _ in with_id}
        return {
            partition: storage.CommittedOffset(new, topic_id=ids[partition.topic] if partition in with_id else None)
            for partition, new in plan.items()
        }

    def _show_reset(self, rows: Sequence[tuple[str, str, int, int]], asked: Asked, *, with_group: bool) -> None:
        if asked.export:
            typer.echo(resetting.to_csv(rows, with_group=with_group), nl=False)
        elif self._as_json:
            keys = ("group", "topic", "partition", "new_offset")
            print_json({**dict(zip(keys, row, strict=True)), "committed": asked.execute} for row in rows)
        else:
            print_table(NEW_OFFSETS, rows)

    def _plans_in(self, path: Path, names: Sequence[str]) -> dict[str, dict[storage.TopicPartition, int]]:
        """Returns the new offsets in the file, by group and partition; warns of groups in ``names`` that it lacks."""
        there, found = self._lags.looks.partitions(), resetting.from_csv(path, names)
        plans: dict[str, dict[storage.TopicPartition, int]] = {}
        for name in names:
            if name not in found:
                typer.echo(f"commitlog: {path} has no offsets of group {name!r}", err=True)
                continue
            for (topic, number), offset in found[name].items():
                [partition] = resetting.partitions_of(f"{topic}:{number}", there)
                with self._lags.looks.look(partition) as log:
                    plans.setdefault(name, {})[partition] = resetting.within(log, offset)
        return plans

    def _check_here(self, names: Sequence[str], *, is_fatal: bool) -> None:
        """Checks that offsets of all groups can be committed here; if not, raises if ``is_fatal``, else warns."""
        for name in names:
            try:
                self._offsets.check_here(name)
            except storage.UnknownTopicOrPartitionError as error:
                if is_fatal:
                    raise
                typer.echo(f"commitlog: --execute would be refused: {error}", err=True)

    def _plan(
        self, name: str, target: resetting.Target, topics: Sequence[str]
    ) -> Iterator[tuple[storage.TopicPartition, int]]:
        committed = self._committed(name)
        there = self._lags.looks.partitions()
        partitions = (
            [each for text in topics for each in resetting.partitions_of(text, there)]
            if topics
            else [each for each in sorted(committed) if each in there]  # a sink's progress is not a topic
        )
        for partition in partitions:
            with self._lags.looks.look(partition) as log:
                before = committed.get(partition)
                yield partition, target(log, None if before is None else before.offset)

    def _committed(self, name: str) -> Mapping[storage.TopicPartition, storage.CommittedOffset]:
        """Returns the offsets of a group; none for a new one. Raises CorruptionError if its partition is damaged."""
        if name in self._known:
            return self._known[name].offsets
        with suppress(storage.UnknownTopicOrPartitionError):  # reported later
            self._offsets.fetch(name)
        return {}

    @contextmanager
    def _unused(self, name: str) -> Iterator[None]:
        """Keeps members away from a group while it is changed; for a sink's group, also holds a sink's lock.

        Raises LogDirLockedError while a broker runs on the directory, the group has members at a gateway, or the sink
        runs: its progress must not change. Reports members that are only in the log because their coordinator has
        ended.
        """
        self._manager.lock_brokers_out()
        with closing(storage.GroupsInUse(self._manager)) as in_use, ExitStack() as stack:
            if not in_use.take(name, wait_ms=1000):
                raise storage.LogDirLockedError(
                    f"group {name!r} has members at a gateway that serves {self._manager.directory}: stop them first"
                )
            known = self._known.get(name)
            if known is not None and known.members:
                typer.echo(f"commitlog: {_without_coordinator(known)}", err=True)
            if known is not None and any(topic.startswith(storage.SINK_PREFIX) for topic, _ in known.offsets):
                stack.enter_context(storage.TransactionCoordinator.open(self._manager, name, holder=HOLDER))
            yield


def _without_coordinator(group: storage.GroupDescription) -> str:
    count = len(group.members)
    members = f"{count} member{'s' if count > 1 else ''}"
    return (
        f"the last state of group {group.name!r} was {group.state} with {members}, but no gateway or broker runs here "
        "that has them"
    )


def _listed(partitions: Iterable[storage.TopicPartition]) -> str:
    return ", ".join(map(str, partitions))
