"""``commitlog groups``: the flags and the columns of ``kafka-consumer-groups``, on a log directory.

A streaming query with ``kafka.group.id`` commits how far it read for that group, and a sink keeps its progress as the
offsets of group ``txnAppId`` in topics ``__sink.<topic>``, which are shown without lag.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, NamedTuple

import typer

from pyspark_commitlog import storage
from pyspark_commitlog.cli import resetting
from pyspark_commitlog.cli.flags import AsJson, LogDir, complete_topic, only
from pyspark_commitlog.cli.output import Column, Failures, fail, nearest, print_json, print_table

OFFSETS = (
    Column("GROUP"),
    Column("TOPIC"),
    Column("PARTITION", 10, is_number=True),
    Column("CURRENT-OFFSET", is_number=True),
    Column("LOG-END-OFFSET", is_number=True),
    Column("LAG", is_number=True),
    Column("CONSUMER-ID"),
    Column("HOST"),
    Column("CLIENT-ID"),
)
STATES = (Column("GROUP", 25), Column("ASSIGNMENT-STRATEGY", 20), Column("STATE"), Column("#MEMBERS", is_number=True))
MEMBERS = (
    Column("GROUP"),
    Column("CONSUMER-ID"),
    Column("HOST"),
    Column("CLIENT-ID"),
    Column("#PARTITIONS", is_number=True),
)
NEW_OFFSETS = (
    Column("GROUP", 30),
    Column("TOPIC", 30),
    Column("PARTITION", 10, is_number=True),
    Column("NEW-OFFSET", is_number=True),
)
SINK_PREFIX = "__sink."
HOLDER = "commitlog groups"


List = Annotated[bool, typer.Option("--list", help="The names, one a line; with --state, states too.")]
Describe = Annotated[bool, typer.Option("--describe", help="Offsets and lag; with --state, the state.")]
Delete = Annotated[bool, typer.Option("--delete", help="Forget groups; with --dry-run only say which.")]
DeleteOffsets = Annotated[bool, typer.Option("--delete-offsets", help="Forget what a group committed for --topic.")]
ResetOffsets = Annotated[bool, typer.Option("--reset-offsets", help="Commit other offsets; shown without --execute.")]
Group = Annotated[list[str] | None, typer.Option(help="A group; may be given again.")]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="Every group.")]
State = Annotated[bool, typer.Option("--state", help="States instead of offsets.")]
Members = Annotated[bool, typer.Option("--members", help="Members of the last generation instead of offsets.")]
Topic = Annotated[
    list[str] | None,
    typer.Option(autocompletion=complete_topic, help="A topic, or partitions of one: orders:0,2; may be given again."),
]
AllTopics = Annotated[bool, typer.Option("--all-topics", help="Every topic that the group committed offsets of.")]
ToEarliest = Annotated[bool, typer.Option("--to-earliest", help="To the log start.")]
ToLatest = Annotated[bool, typer.Option("--to-latest", help="To the log end.")]
ToCurrent = Annotated[bool, typer.Option("--to-current", help="To where it is, else to the log end.")]
ToOffset = Annotated[int | None, typer.Option(help="To this offset, or the nearest the log has.")]
ToDatetime = Annotated[
    str | None, typer.Option(help="To the first record whose time is not older: 2026-11-21T06:00:00.000, in UTC.")
]
ByDuration = Annotated[str | None, typer.Option(help="The same, so long ago: P1DT2H30M10S.")]
ShiftBy = Annotated[int | None, typer.Option(help="By so many offsets; backwards if negative.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing.")]
Execute = Annotated[bool, typer.Option("--execute", help="Commit the offsets of --reset-offsets.")]


def groups(  # the flags are those of kafka-consumer-groups
    *,
    log_dir: LogDir,
    list_groups: List = False,
    describe: Describe = False,
    delete: Delete = False,
    delete_offsets: DeleteOffsets = False,
    reset_offsets: ResetOffsets = False,
    group: Group = None,
    all_groups: AllGroups = False,
    state: State = False,
    members: Members = False,
    topic: Topic = None,
    all_topics: AllTopics = False,
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    to_current: ToCurrent = False,
    to_offset: ToOffset = None,
    to_datetime: ToDatetime = None,
    by_duration: ByDuration = None,
    shift_by: ShiftBy = None,
    dry_run: DryRun = False,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Show how far groups are behind, and change their offsets.

    Looking takes no lock, so a running broker's directory may be looked at. A streaming query goes on where its
    checkpoint says, whatever is committed for its group; a consumer of a broker goes on where the group is.
    """
    action = only(
        list=list_groups,
        describe=describe,
        delete=delete,
        delete_offsets=delete_offsets,
        reset_offsets=reset_offsets,
    )
    if (execute and dry_run) or (state and members):
        raise typer.BadParameter("--execute and --dry-run exclude each other, and --state and --members")
    scenarios: dict[str, Any] = {
        "to_earliest": to_earliest,
        "to_latest": to_latest,
        "to_current": to_current,
        "to_offset": to_offset,
        "to_datetime": to_datetime,
        "by_duration": by_duration,
        "shift_by": shift_by,
    }
    target = resetting.target(**scenarios) if reset_offsets else None
    asked = _Asked(group or [], all_groups, topic or [], all_topics, state, members, execute)
    with storage.LogManager.open(log_dir) as manager:
        _Groups(manager, as_json=as_json, is_dry=dry_run).run(action, asked, target)


class _Asked(NamedTuple):
    """Of which groups, and what of them."""

    groups: Sequence[str]
    all_groups: bool
    topics: Sequence[str]
    all_topics: bool
    states: bool
    members: bool
    execute: bool


class _Groups:
    """One command on the groups of a log directory."""

    def __init__(self, manager: storage.LogManager, *, as_json: bool, is_dry: bool) -> None:
        self._manager = manager
        self._as_json = as_json
        self._is_dry = is_dry
        self._lags = storage.GroupLags(manager)
        self._offsets = storage.GroupOffsets(manager)
        self._failures = Failures()
        self._known = {each.name: each for each in self._lags.groups(self._failures.errors)}

    def run(self, action: str, asked: _Asked, target: resetting.Target | None) -> None:
        """Do it; then tell what could not be told: of partitions that are damaged, or not here."""
        missing = self._lags.missing() if action == "--list" or asked.all_groups else None
        if missing is not None:
            typer.echo(f"commitlog: {missing}; groups that lie there are not shown", err=True)
        self._run(action, asked, target)
        self._failures.end()

    def _run(self, action: str, asked: _Asked, target: resetting.Target | None) -> None:
        if action == "--list":
            self._list(with_state=asked.states)
            return
        names = self._chosen(asked, may_be_new=target is not None)
        if target is not None:
            self._reset(names, target, asked)
        elif action == "--delete-offsets":
            self._delete_offsets(names, asked.topics)
        elif action == "--delete":
            self._delete(names)
        else:
            self._describe(names, states=asked.states, members=asked.members)

    def _chosen(self, asked: _Asked, *, may_be_new: bool) -> list[str]:
        if bool(asked.groups) == asked.all_groups:
            raise typer.BadParameter("either --group, once for each, or --all-groups is needed")
        for name in asked.groups:
            if name not in self._known and not may_be_new:
                self._offsets.check_here(name)
                fail(f"no group {name!r} in {self._manager.directory}{nearest(name, self._known, 'groups')}")
        return list(self._known) if asked.all_groups else list(dict.fromkeys(asked.groups))

    def _list(self, *, with_state: bool) -> None:
        known = self._known.values()
        if self._as_json:
            print_json({"group": each.name, "state": each.state, "members": len(each.members)} for each in known)
        elif with_state:
            print_table((Column("GROUP", 25), Column("STATE")), [(each.name, each.state) for each in known])
        else:
            for each in known:
                typer.echo(each.name)

    def _describe(self, names: Iterable[str], *, states: bool, members: bool) -> None:
        found = [self._known[name] for name in names]
        if states:
            self._states(found)
        elif members:
            self._members(found)
        elif self._as_json:
            print_json(_json(lag) for each in found for lag in self._lags.lags(each))
        else:
            for each in found:
                print_table(OFFSETS, map(_row, self._lags.lags(each)))

    def _states(self, found: Iterable[storage.GroupDescription]) -> None:
        if self._as_json:
            print_json(
                {
                    "group": each.name,
                    "assignment_strategy": each.protocol,
                    "state": each.state,
                    "members": len(each.members),
                }
                for each in found
            )
        else:
            print_table(STATES, [(each.name, each.protocol, each.state, len(each.members)) for each in found])

    def _members(self, found: Iterable[storage.GroupDescription]) -> None:
        if self._as_json:
            print_json(_member(each.name, member) for each in found for member in each.members)
            return
        for each in found:
            print_table(
                MEMBERS,
                [
                    (each.name, member.consumer_id, member.host, member.client_id, len(member.partitions))
                    for member in each.members
                ],
            )

    # Changing

    def _delete(self, names: Sequence[str]) -> None:
        for name in names:
            if not self._is_dry:
                with self._unused(name):
                    self._offsets.delete(name)
        self._tell_deleted([{"group": name} for name in names], f"groups {', '.join(map(repr, names))}")

    def _delete_offsets(self, names: Sequence[str], topics: Sequence[str]) -> None:
        if len(names) != 1 or not topics:
            raise typer.BadParameter("--delete-offsets needs one --group, and --topic")
        name = names[0]
        committed = list(self._known[name].offsets)
        places = [place for text in topics for place in resetting.places(text, committed, "committed offsets")]
        if not self._is_dry:
            with self._unused(name):
                self._offsets.delete(name, places)
        rows = [{"group": name, "topic": topic, "partition": partition} for topic, partition in places]
        self._tell_deleted(rows, f"offsets of group {name!r}: {_listed(places)}")

    def _tell_deleted(self, rows: Sequence[dict[str, Any]], told: str) -> None:
        if self._as_json:
            print_json({**row, "deleted": not self._is_dry} for row in rows)
        else:
            typer.echo(f"{'would delete' if self._is_dry else 'deleted'} {told}")

    def _reset(self, names: Sequence[str], target: resetting.Target, asked: _Asked) -> None:
        """A plan of all groups first, so that what is wrong is told before anything is changed."""
        if bool(asked.topics) == asked.all_topics:
            raise typer.BadParameter("--reset-offsets needs either --topic, once for each, or --all-topics")
        plans = {name: dict(self._plan(name, target, asked.topics)) for name in names}
        self._check_here(names, is_fatal=asked.execute)
        if asked.execute:
            self._manager.check_writable()
            for name, plan in plans.items():
                with self._unused(name):
                    self._offsets.commit(name, {place: storage.CommittedOffset(new) for place, new in plan.items()})
        else:
            typer.echo("nothing is changed without --execute", err=True)
        rows = [(name, *place, new) for name, plan in plans.items() for place, new in plan.items()]
        if self._as_json:
            keys = ("group", "topic", "partition", "new_offset")
            print_json({**dict(zip(keys, row, strict=True)), "committed": asked.execute} for row in rows)
        else:
            print_table(NEW_OFFSETS, rows)

    def _check_here(self, names: Sequence[str], *, is_fatal: bool) -> None:
        """That all of them can be committed to, before one is."""
        for name in names:
            try:
                self._offsets.check_here(name)
            except storage.UnknownTopicOrPartitionError as error:
                if is_fatal:
                    raise
                typer.echo(f"commitlog: --execute would be refused: {error}", err=True)

    def _plan(
        self, name: str, target: resetting.Target, topics: Sequence[str]
    ) -> Iterator[tuple[tuple[str, int], int]]:
        known = self._known.get(name)
        committed = {} if known is None else known.offsets
        there = self._lags.looks.partitions()
        places = (
            [place for text in topics for place in resetting.places(text, there)]
            if topics
            else [place for place in sorted(committed) if place in there]  # the progress of sinks is no topic's
        )
        for place in places:
            with self._lags.looks.look(place) as log:
                before = committed.get(place)
                yield place, target(log, None if before is None else before.offset)

    def _unused(self, name: str) -> AbstractContextManager[object]:
        """No sink that runs may find its progress changed: its lock is taken; LogDirLockedError says who has it.

        Members are no hindrance: to write takes the lock of a broker's directory, so that no broker serves them.
        """
        known = self._known.get(name)
        if known is None or not any(topic.startswith(SINK_PREFIX) for topic, _ in known.offsets):
            return nullcontext()
        return storage.TransactionCoordinator.open(self._manager, name, holder=HOLDER)


def _listed(places: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in places)


def _row(lag: storage.PartitionLag) -> tuple[object, ...]:
    member = lag.member
    return (
        lag.group,
        lag.topic,
        lag.partition,
        None if lag.committed is None else lag.committed.offset,
        None if lag.log is None else lag.log.log_end_offset,
        lag.lag,
        *((None, None, None) if member is None else (member.consumer_id, member.host, member.client_id)),
    )


def _json(lag: storage.PartitionLag) -> dict[str, Any]:
    names = [column.name.lower().replace("-", "_") for column in OFFSETS]
    shown: dict[str, Any] = dict(zip(names, _row(lag), strict=True))
    shown["lag_seconds"] = None if lag.lag_ms is None else lag.lag_ms / 1000
    if lag.log is not None:
        shown |= {"log_start_offset": lag.log.log_start_offset, "last_stable_offset": lag.log.last_stable_offset}
    if lag.committed is not None:
        shown |= {"metadata": lag.committed.metadata, "commit_timestamp": lag.committed.commit_timestamp}
    return shown


def _member(group: str, member: storage.GroupMember) -> dict[str, Any]:
    return {
        "group": group,
        "consumer_id": member.consumer_id,
        "group_instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "partitions": [{"topic": topic, "partition": partition} for topic, partition in member.partitions],
    }
