"""``commitlog groups``: the flags and the columns of ``kafka-consumer-groups``, on a log directory.

A streaming query with ``kafka.group.id`` commits how far it read for that group, and a sink keeps its progress as the
offsets of group ``txnAppId`` in topics ``__sink.<topic>``, which are shown without lag.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from pyspark_commitlog import storage
from pyspark_commitlog.cli import resetting
from pyspark_commitlog.cli.flags import AsJson, LogDir, complete_topic, only
from pyspark_commitlog.cli.group_tables import (
    STATES_KNOWN,
    TYPES_KNOWN,
    chosen_among,
    show_list,
    show_members,
    show_offsets,
    show_states,
)
from pyspark_commitlog.cli.output import Column, Failures, fail, nearest, print_json, print_table

NEW_OFFSETS = (
    Column("GROUP", 30),
    Column("TOPIC", 30),
    Column("PARTITION", 10, is_number=True),
    Column("NEW-OFFSET", is_number=True),
)
SINK_PREFIX = "__sink."
HOLDER = "commitlog groups"


List = Annotated[bool, typer.Option("--list", help="The names, one a line; with --state and --type, those too.")]
Describe = Annotated[bool, typer.Option("--describe", help="Offsets and lag, or with --state or --members those.")]
Delete = Annotated[bool, typer.Option("--delete", help="Forget groups; with --dry-run only say which.")]
DeleteOffsets = Annotated[bool, typer.Option("--delete-offsets", help="Forget what a group committed for --topic.")]
ResetOffsets = Annotated[bool, typer.Option("--reset-offsets", help="Commit other offsets; shown without --execute.")]
Group = Annotated[list[str] | None, typer.Option(help="A group; may be given again.")]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="Every group.")]
State = Annotated[
    str | None,
    typer.Option(
        "--state", metavar="[STATES]", help="States instead of offsets; with --list only groups in these: Stable,Empty."
    ),
]
Type = Annotated[
    str | None,
    typer.Option("--type", metavar="[TYPES]", help="With --list: types, or only groups of these: Classic,Consumer."),
]
Offsets = Annotated[bool, typer.Option("--offsets", help="Offsets and lag, as without it.")]
Members = Annotated[bool, typer.Option("--members", help="Members of the last generation instead of offsets.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="With --members: what was assigned to each.")]
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
FromFile = Annotated[
    Path | None,
    typer.Option(
        metavar="CSV", help="To the offsets in a file of topic,partition,offset; of several groups, group first."
    ),
]
Export = Annotated[bool, typer.Option("--export", help="Print the new offsets as such a file.")]
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
    if (execute and dry_run) or (export and as_json):
        raise typer.BadParameter("--execute and --dry-run exclude each other, and --export and --json")
    if (state is not None) + members + offsets > 1:
        raise typer.BadParameter("--members, --offsets and --state exclude each other")
    if not list_groups and (state or types is not None):
        raise typer.BadParameter("--type, and values of --state, go with --list")
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
    target = resetting.target(**scenarios) if reset_offsets else None
    asked = _Asked(group or [], all_groups, topic or [], all_topics, state, types, members, verbose, execute, export)
    with storage.LogManager.open(log_dir) as manager:
        _Groups(manager, as_json=as_json, is_dry=dry_run).run(action, asked, target)


class _Asked(NamedTuple):
    """Of which groups, and what of them."""

    groups: Sequence[str]
    all_groups: bool
    topics: Sequence[str]
    all_topics: bool
    states: str | None  # None: not asked for; empty: all
    types: str | None
    members: bool
    verbose: bool
    execute: bool
    export: bool


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

    def run(self, action: str, asked: _Asked, target: resetting.Target | Path | None) -> None:
        """Do it; then tell what could not be told: of partitions that are damaged, or not here."""
        missing = self._lags.missing() if action == "--list" or asked.all_groups else None
        if missing is not None:
            typer.echo(f"commitlog: {missing}; groups that lie there are not shown", err=True)
        self._run(action, asked, target)
        self._failures.end()

    def _run(self, action: str, asked: _Asked, target: resetting.Target | Path | None) -> None:
        if action == "--list":
            self._list(asked)
            return
        names = self._chosen(asked, may_be_new=target is not None)
        if target is not None:
            self._reset(names, target, asked)
        elif action == "--delete-offsets":
            self._delete_offsets(names, asked.topics)
        elif action == "--delete":
            self._delete(names)
        else:
            self._describe(names, asked)

    def _chosen(self, asked: _Asked, *, may_be_new: bool) -> list[str]:
        if bool(asked.groups) == asked.all_groups:
            raise typer.BadParameter("either --group, once for each, or --all-groups is needed")
        for name in asked.groups:
            if name not in self._known and not may_be_new:
                self._offsets.check_here(name)
                fail(f"no group {name!r} in {self._manager.directory}{nearest(name, self._known, 'groups')}")
        return list(self._known) if asked.all_groups else list(dict.fromkeys(asked.groups))

    def _list(self, asked: _Asked) -> None:
        states = chosen_among("--state", STATES_KNOWN, asked.states)
        types = chosen_among("--type", TYPES_KNOWN, asked.types)
        found = [each for each in self._known.values() if each.state in states and each.type in types]
        with_type, with_state = asked.types is not None, asked.states is not None
        show_list(found, with_type=with_type, with_state=with_state, as_json=self._as_json)

    def _describe(self, names: Iterable[str], asked: _Asked) -> None:
        found = [self._known[name] for name in names]
        if asked.states is not None:
            show_states(found, as_json=self._as_json)
        elif asked.members:
            show_members(found, is_verbose=asked.verbose, as_json=self._as_json)
        else:
            show_offsets(map(self._lags.lags, found), as_json=self._as_json)

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

    def _reset(self, names: Sequence[str], target: resetting.Target | Path, asked: _Asked) -> None:
        """A plan of all groups first, so that what is wrong is told before anything is changed."""
        is_by_file = isinstance(target, Path)
        if not is_by_file and bool(asked.topics) == asked.all_topics:
            raise typer.BadParameter("--reset-offsets needs either --topic, once for each, or --all-topics")
        if is_by_file and (asked.topics or asked.all_topics):
            raise typer.BadParameter("--from-file names the topics: --topic and --all-topics do not go with it")
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
                    self._offsets.commit(name, {place: storage.CommittedOffset(new) for place, new in plan.items()})
        else:
            typer.echo("nothing is changed without --execute", err=True)
        rows = [(name, *place, new) for name, plan in plans.items() for place, new in plan.items()]
        self._show_reset(rows, asked, with_group=len(asked.groups) != 1)

    def _show_reset(self, rows: Sequence[tuple[str, str, int, int]], asked: _Asked, *, with_group: bool) -> None:
        if asked.export:
            typer.echo(resetting.to_csv(rows, with_group=with_group), nl=False)
        elif self._as_json:
            keys = ("group", "topic", "partition", "new_offset")
            print_json({**dict(zip(keys, row, strict=True)), "committed": asked.execute} for row in rows)
        else:
            print_table(NEW_OFFSETS, rows)

    def _plans_in(self, path: Path, names: Sequence[str]) -> dict[str, dict[tuple[str, int], int]]:
        """What a file says of the groups that are asked for."""
        there, found = self._lags.looks.partitions(), resetting.from_csv(path, names)
        plans: dict[str, dict[tuple[str, int], int]] = {}
        for name in names:
            if name not in found:
                typer.echo(f"commitlog: {path} has no offsets of group {name!r}", err=True)
                continue
            for (topic, partition), offset in found[name].items():
                [place] = resetting.places(f"{topic}:{partition}", there)
                with self._lags.looks.look(place) as log:
                    plans.setdefault(name, {})[place] = resetting.within(log, offset)
        return plans

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
